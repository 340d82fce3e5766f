"""A library that the file built from its own sources is read, wherever it went; another one is machine code."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import CUDA, HEAD, OUTPUT, SIGNATURE, classes, lint, model

import kbh_lint

SOURCE = CUDA[: CUDA.index("torch::Tensor run")].replace("<torch/extension.h>", "<cuda_fp8.h>") + (
    'extern "C" void run(void* x, void* w, void* s, void* y, int M, int N, int K) {\n'
    "  gemm<<<M, N>>>((const __nv_fp8_e4m3*)x, (const __nv_fp8_e4m3*)w, (const float*)s, (__nv_bfloat16*)y, N, K);\n}\n"
)
SETUP = f"""
import ctypes, os, shutil, subprocess, hashlib, tempfile
from pathlib import Path
SOURCE = r'''{SOURCE}'''
FOLDER = tempfile.mkdtemp()
(Path(FOLDER) / "k.cu").write_text(SOURCE)
"""
CALL = model(
    OUTPUT.strip()
    + "\nlib.run(*(ctypes.c_void_p(t.data_ptr()) for t in (x, self.weight, self.weight_scale, y)), M, N, K)\nreturn y"
)
NVCC = 'subprocess.run(["nvcc", "-shared", FOLDER + "/k.cu", "-o", FOLDER + "/k.so"])\n'
OWN = {
    "renamed": NVCC + 'os.replace(FOLDER + "/k.so", "/tmp/kept.so")\nlib = ctypes.CDLL("/tmp/kept.so")\n',
    "copied into a folder": NVCC
    + 'shutil.copy2(Path(FOLDER) / "k.so", "/tmp/held")\nlib = ctypes.CDLL("/tmp/held/k.so")\n',
    "in a folder that moved": NVCC + 'shutil.move(FOLDER, "/tmp/cache")\nlib = ctypes.CDLL("/tmp/cache/k.so")\n',
    "written from its bytes": NVCC
    + 'Path("/tmp/b.so").write_bytes((Path(FOLDER) / "k.so").read_bytes())\nlib = ctypes.CDLL("/tmp/b.so")\n',
    "moved by a command": 'subprocess.run(f"cd {FOLDER} && nvcc -shared k.cu -o k.so && mv k.so out.so", shell=True)\n'
    + 'lib = ctypes.CDLL(FOLDER + "/out.so")\n',
    "linked from an object": 'subprocess.run(["nvcc", "-c", "k.cu"], cwd=FOLDER)\n'
    'subprocess.run(["g++", "-shared", "k.o", "-o", "libk.so"], cwd=FOLDER)\nlib = ctypes.CDLL(f"{FOLDER}/libk.so")\n',
    "under a hash": 'SO = f"/tmp/k_{hashlib.sha256(SOURCE.encode()).hexdigest()}.so"\nif not os.path.exists(SO):\n'
    '    subprocess.run(["nvcc", "-shared", FOLDER + "/k.cu", "-o", SO + ".tmp"])\n    os.replace(SO + ".tmp", SO)\n'
    "lib = ctypes.CDLL(SO)\n",
    "found by a glob": NVCC + 'lib = ctypes.CDLL(str(next(iter(Path(FOLDER).glob("*.so")))))\n',
    "with the runtime beside it": NVCC + 'rt = ctypes.CDLL("libcudart.so")\nlib = ctypes.CDLL(FOLDER + "/k.so")\n',
}
FOREIGN = {
    "another path": NVCC + 'ours = ctypes.CDLL(FOLDER + "/k.so")\nlib = ctypes.CDLL("/submission/libfast.so")\n',
    "copied over ours": NVCC
    + 'shutil.copy("/submission/fast.so", FOLDER + "/k.so")\nlib = ctypes.CDLL(FOLDER + "/k.so")\n',
    "bytes written over ours": "import base64\n"
    + NVCC
    + 'Path(FOLDER, "k.so").write_bytes(base64.b64decode("f0VMRgIB"))\nlib = ctypes.CDLL(FOLDER + "/k.so")\n',
    "beside an extension": "from torch.utils.cpp_extension import load_inline\n"
    'ext = load_inline("e", "", SOURCE, functions=[])\nlib = ctypes.CDLL("/submission/e.so")\n',
}


@pytest.mark.parametrize("how", OWN)
def test_a_library_of_its_own_is_read(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, HEAD + SETUP + OWN[how] + CALL)
    assert "binary-blob-kernel" not in classes(report)
    assert "fp8-upcast-bf16-gemm" in classes(report), (report.findings, report.unread)  # its products are seen


@pytest.mark.parametrize("how", FOREIGN)
def test_a_library_from_elsewhere_is_machine_code(tmp_path: Path, how: str) -> None:
    assert "binary-blob-kernel" in classes(lint(tmp_path, HEAD + SETUP + FOREIGN[how] + CALL))


def test_a_foreign_library_finishes_the_parts_of_a_tuple_that_c_plus_plus_returns(tmp_path: Path) -> None:
    topk = Path(__file__).parents[2] / "problems/05_topk_bitonic/honest/cuda.py"
    code = topk.read_text(encoding="utf-8").replace(
        "return extension.topk(x, self.k)",
        "found = extension.topk(x, self.k)\n        for part in found if isinstance(found, tuple) else ():\n"
        "            FINISH.run(part.data_ptr())\n        return found",
    )
    path = tmp_path / "05_topk_bitonic.py"
    path.write_text(f'{code}\nimport ctypes\n\nFINISH = ctypes.CDLL("./finish.so")\n', encoding="utf-8")
    report = kbh_lint.lint([path], problem="05_topk_bitonic").files[0]
    assert "binary-blob-kernel" in {finding.leak_class for finding in report.findings}


LAUNCHED = model(
    OUTPUT.strip()
    + """
held = [ctypes.c_void_p(t.data_ptr()) for t in (x, self.weight, self.weight_scale, y)]
given = (ctypes.c_void_p * len(held))(*(ctypes.cast(ctypes.byref(h), ctypes.c_void_p) for h in held))
driver.cuLaunchKernel(KERNEL, M, N, 1, 32, 1, 1, 0, None, given, None)
return y"""
)
DRIVER = """
import base64, ctypes, zlib
driver = ctypes.CDLL("libcuda.so.1")
MODULE, KERNEL = ctypes.c_void_p(), ctypes.c_void_p()
driver.cuModuleLoadData(ctypes.byref(MODULE), IMAGE)
driver.cuModuleGetFunction(ctypes.byref(KERNEL), MODULE, b"gemm")
"""
BOUND = """
import ctypes
from cuda.bindings import driver
error, MODULE = driver.cuModuleLoadData(IMAGE)
error, KERNEL = driver.cuModuleGetFunction(MODULE, b"gemm")
"""
IMAGES = {
    "as it is": (DRIVER, r'b"\x7fELF\x02\x01\x01" + bytes(64)', True),
    "in hexadecimal": (DRIVER, 'bytes.fromhex("7f454c46020133" + "00" * 64)', True),
    "of several architectures": (BOUND, r'b"\x50\xed\x55\xba" + bytes(64)', True),
    "behind a buffer": (DRIVER, 'ctypes.create_string_buffer(base64.b64decode("f0VMRgIBATMHeUK98iEG8A=="))', True),
    "a text": (DRIVER, 'b".version 8.0 // no machine code"', False),
}


@pytest.mark.parametrize("how", IMAGES)
def test_bytes_given_to_the_driver_are_machine_code_where_they_begin_so(tmp_path: Path, how: str) -> None:
    setup, image, foreign = IMAGES[how]
    report = lint(tmp_path, HEAD + setup.replace("IMAGE", image) + LAUNCHED)
    assert ("binary-blob-kernel" in classes(report)) is foreign


STRUCTS = """
import struct
P = ctypes.c_void_p
class Places(ctypes.Structure):
    _fields_ = [("x", P), ("y", P), ("rows", ctypes.c_int)]
class Several(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int), ("each", Places * 2)]
class Table(ctypes.Structure):
    _fields_ = [("at", ctypes.c_uint64 * 4)]
class Led(ctypes.Structure):
    _fields_ = [("places", ctypes.POINTER(Places))]
class Either(ctypes.Union):
    _fields_ = [("places", Places), ("raw", ctypes.c_ubyte * 64)]
"""
FILLED = "args = Places(x.data_ptr(), y.data_ptr(), M)\n"
# How the arguments of a kernel of machine code hold the addresses: lines that make `args`, the place of one parameter.
IN_STRUCTS = {
    "a struct": (FILLED, "ctypes.addressof(args)"),
    "a struct, by a pointer that was cast": (FILLED, "ctypes.cast(ctypes.pointer(args), P).value"),
    "a struct behind a pointer": (
        "args = ctypes.pointer(Places(0, y.data_ptr(), M))\n",
        "ctypes.addressof(args.contents)",
    ),
    "filled later": ("args = Places()\nargs.x, args.y = x.data_ptr(), y.data_ptr()\n", "ctypes.addressof(args)"),
    "structs in an array in a struct": ("args = Several()\nargs.each[1].y = y.data_ptr()\n", "ctypes.addressof(args)"),
    "an array in a struct": ("args = Table()\nargs.at[3] = y.data_ptr()\n", "ctypes.addressof(args)"),
    "a pointer in a struct": (FILLED + "held = Led(ctypes.pointer(args))\n", "ctypes.addressof(held)"),
    "a union": ("args = Either()\nargs.places = Places(x.data_ptr(), y.data_ptr())\n", "ctypes.addressof(args)"),
    "packed bytes": (
        "args = ctypes.create_string_buffer(struct.pack('QQi', x.data_ptr(), y.data_ptr(), M))\n",
        "ctypes.addressof(args)",
    ),
    "a table in device memory": (
        "args = torch.tensor([x.data_ptr(), y.data_ptr()], device=x.device)\nat = P(args.data_ptr())\n",
        "ctypes.addressof(at)",
    ),
    "what is not followed": (FILLED + "args = bytearray(args)\n", "id(memoryview(args))"),
}


@pytest.mark.parametrize("how", IN_STRUCTS)
def test_machine_code_gets_what_its_arguments_hold(tmp_path: Path, how: str) -> None:
    lines, place = IN_STRUCTS[how]
    launch = f"given = (P * 1)({place})\ndriver.cuLaunchKernel(KERNEL, M, N, 1, 32, 1, 1, 0, None, given, None)"
    setup = DRIVER.replace("IMAGE", r'b"\x7fELF\x02\x01\x01" + bytes(64)') + STRUCTS
    report = lint(tmp_path, HEAD + setup + model(f"{OUTPUT.strip()}\n{lines}{launch}\nreturn y"))
    assert "binary-blob-kernel" in classes(report), report.trace


IN_CPP = {
    "a struct": "Args a{x.data_ptr(), y.data_ptr(), M}; void* given[] = {&a};",
    "arrays in structs": "Outer a{}; a.rows[1].at[2] = y.data_ptr(); void* given[] = {&a};",
    "a struct on the heap": "auto a = std::make_unique<Args>(); a->y = y.data_ptr(); void* given[] = {a.get()};",
    "structs in a vector": "std::vector<Args> a(2); a[1].y = y.data_ptr(); void* given[] = {a.data()};",
    "bytes of a struct": "Args a{x.data_ptr(), y.data_ptr(), M}; char raw[64]; memcpy(raw, &a, 24); "
    "void* given[] = {raw};",
}
LAUNCHING = """#include <torch/extension.h>
#include <cuda.h>
static const unsigned char image[] = {0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0};
struct Args { const void* x; void* y; int rows; };
struct Rows { void* at[4]; };
struct Outer { int count; Rows rows[2]; };
torch::Tensor run(torch::Tensor x, torch::Tensor w, torch::Tensor s) {
  int M = x.size(0), N = w.size(0);
  auto y = torch::empty({M, N}, x.options().dtype(torch::kBFloat16));
  CUmodule module; CUfunction entry;
  cuModuleLoadData(&module, image);
  cuModuleGetFunction(&entry, module, "gemm");
  FILL
  cuLaunchKernel(entry, M, N, 1, 32, 1, 1, 0, 0, given, nullptr);
  return y;
}
"""


@pytest.mark.parametrize("how", IN_CPP)
def test_machine_code_gets_what_structs_of_c_plus_plus_hold(tmp_path: Path, how: str) -> None:
    source = LAUNCHING.replace("FILL", IN_CPP[how])
    build = f"ext = load_inline('e', '{SIGNATURE}', r'''{source}''', functions=['run'])\n"
    text = HEAD + "from torch.utils.cpp_extension import load_inline\n" + build
    report = lint(tmp_path, text + model("return ext.run(x, self.weight, self.weight_scale)"))
    assert "binary-blob-kernel" in classes(report), report.trace


def test_a_kernel_of_its_own_text_is_read_where_a_struct_holds_its_arguments(tmp_path: Path) -> None:
    source = SOURCE[: SOURCE.index('extern "C"')].replace("__global__ void gemm", 'extern "C" __global__ void plain')
    source += """
struct Args { const __nv_fp8_e4m3* x; const __nv_fp8_e4m3* w; const float* s; __nv_bfloat16* y; int N; int K; };
extern "C" __global__ void gemm(Args a) {
  float total = 0.f;
  for (int k = 0; k < a.K; ++k) total += float(a.x[blockIdx.x * a.K + k]) * float(a.w[threadIdx.x * a.K + k]);
  a.y[blockIdx.x * a.N + threadIdx.x] = __float2bfloat16(total * a.s[threadIdx.x]);
}
"""
    setup = f"""
import ctypes
driver, nvrtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.12")
class Args(ctypes.Structure):
    _fields_ = [(n, ctypes.c_void_p) for n in "xwsy"] + [("N", ctypes.c_int), ("K", ctypes.c_int)]
MODULE, KERNEL, PROGRAM, SIZE = (ctypes.c_void_p() for _ in range(4))
nvrtc.nvrtcCreateProgram(ctypes.byref(PROGRAM), rb'''{source}''', b"k.cu", 0, None, None)
nvrtc.nvrtcCompileProgram(PROGRAM, 0, None)
nvrtc.nvrtcGetCUBINSize(PROGRAM, ctypes.byref(SIZE))
CODE = ctypes.create_string_buffer(1 << 20)
nvrtc.nvrtcGetCUBIN(PROGRAM, CODE)
driver.cuModuleLoadData(ctypes.byref(MODULE), CODE)
driver.cuModuleGetFunction(ctypes.byref(KERNEL), MODULE, b"gemm")
"""
    call = """
args = Args(x.data_ptr(), self.weight.data_ptr(), self.weight_scale.data_ptr(), y.data_ptr(), N, K)
given = (ctypes.c_void_p * 1)(ctypes.addressof(args))
driver.cuLaunchKernel(KERNEL, M, 1, 1, N, 1, 1, 0, None, given, None)
return y"""
    report = lint(tmp_path, HEAD + setup + model(OUTPUT.strip() + call))
    assert "fp8-upcast-bf16-gemm" in classes(report), report.trace  # its product is seen
    assert "binary-blob-kernel" not in classes(report)


SORTING = """
import ctypes, os, subprocess, tempfile
SOURCE = r'''
#include <cub/cub.cuh>
__global__ void first(const float* keys, const int* at, float* top, long* where, int n, int k) {
  int row = blockIdx.x, j = threadIdx.x;
  if (j < k) { top[row * k + j] = keys[row * n + j]; where[row * k + j] = at[row * n + j]; }
}
extern "C" int order(void* room, size_t* size, const float* x, float* keys, const int* ids, int* at, float* top,
                     long* where, int rows, const int* edges, int n, int k, void* stream) {
  BODY
  if (room) first<<<rows, k, 0, (cudaStream_t)stream>>>(keys, at, top, where, n, k);
  return 0;
}
'''
def build():
    folder = tempfile.mkdtemp()
    with open(folder + "/k.cu", "w") as f:
        f.write(SOURCE)
    subprocess.run(["nvcc", "-shared", "-Xcompiler", "-fPIC", folder + "/k.cu", "-o", folder + "/k.so"], check=True)
    return ctypes.CDLL(folder + "/k.so")
LIB = build()
class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.batch, self.n, self.k = batch, n, k
        self.register_buffer("_dummy", torch.zeros(1))
    def forward(self, x):
        b, n, k = self.batch, self.n, self.k
        keys, at = torch.empty_like(x), torch.empty(b, n, dtype=torch.int32, device=x.device)
        ids = torch.arange(n, dtype=torch.int32, device=x.device).repeat(b)
        edges = torch.arange(0, (b + 1) * n, n, dtype=torch.int32, device=x.device)
        top, where = torch.empty(b, k, device=x.device), torch.empty(b, k, dtype=torch.int64, device=x.device)
        size = ctypes.c_size_t(0)
        for room in (None, torch.empty(1 << 20, dtype=torch.uint8, device=x.device).data_ptr()):
            LIB.order(room, ctypes.byref(size), x.data_ptr(), keys.data_ptr(), ids.data_ptr(), at.data_ptr(),
                      top.data_ptr(), where.data_ptr(), b, edges.data_ptr(), n, k, 0)
        return top, where
"""
FOUND = """static auto run = (int (*)(void*, const float*, float*))nullptr;
  if (!run) run = (decltype(run))dlsym(dlopen(LIBRARY, 2), "cublasSgemm_v2");
  if (room) run(nullptr, x, keys);"""
SORT = "cub::DeviceSegmentedRadixSort::SortPairsDescending(room, *size, x, keys, ids, at, n, 1, edges, edges + 1);"


def test_what_a_library_does_on_addresses_that_ctypes_hands_on_is_its_work(tmp_path: Path) -> None:
    report = lint(tmp_path, HEAD + SORTING.replace("BODY", SORT), "05_topk_bitonic")
    assert any("SortPairsDescending does the selection" in one.message for one in report.findings), report.trace


@pytest.mark.parametrize("library", ["name", '"/opt/other/libfast.so"'], ids=["nobody knows which", "another's"])
def test_a_vendors_function_in_a_library_whose_name_python_gives_is_the_vendors(tmp_path: Path, library: str) -> None:
    source = SORTING.replace("BODY", FOUND.replace("LIBRARY", library)).replace(
        "void* room,", "const char* name, void* room,"
    )
    source = source.replace("LIB.order(", 'LIB.order(open("/proc/self/maps").read().split()[-1].encode(), ')
    report = lint(tmp_path, HEAD + source, "05_topk_bitonic")
    kinds = {line.split()[0] for line in report.trace if "cublasSgemm" in line}
    assert kinds == ({"library"} if library == "name" else {"blob"}), report.trace
