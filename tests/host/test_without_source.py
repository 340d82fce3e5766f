"""Machine code without source is never clean, however it is loaded, linked or called; the system's libraries are."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, OUTPUT, TILES, classes, lint, model

LAUNCH = f"{OUTPUT.strip()}\ngemm[{GRID}]({ARGUMENTS}, {TILES})\n"
SETUP = HEAD + "import ctypes, ctypes.util, glob, os, sys\nfrom pathlib import Path\n" + KERNEL
LIBRARY = 'lib = ctypes.CDLL("./libfinish.so")\n'
# How a library from elsewhere gets hold of the result: lines at module level, and lines of `forward` after the launch.
HANDED = {
    "an address": (LIBRARY, "lib.finish(y.data_ptr())"),
    "an array of addresses": (LIBRARY, "lib.finish((ctypes.c_void_p * 2)(x.data_ptr(), y.data_ptr()), 2)"),
    "a list": (LIBRARY, "lib.finish([y.data_ptr()])"),
    "by keyword": (LIBRARY, "lib.finish(place=y.data_ptr())"),
    "under a name like CUDA's": ('lib = ctypes.CDLL("./libcudafinish.so")\n', "lib.finish(y.data_ptr())"),
    "under CUDA's name in its own folder": ('lib = ctypes.CDLL("./libcudart.so")\n', "lib.finish(y.data_ptr())"),
    "under CUDA's name beside the file": (
        'lib = ctypes.CDLL(str(Path(__file__).parent / "libcudart.so.12"))\n',
        "lib.finish(y.data_ptr())",
    ),
    "with a structure": (
        LIBRARY + 'class Place(ctypes.Structure):\n    _fields_ = [("at", ctypes.c_void_p)]\n',
        "lib.finish(ctypes.byref(Place(y.data_ptr())))",
    ),
}
# How it may change the result without being seen to.
UNSEEN = {
    "loaded": (LIBRARY, ""),
    "called as the file is imported": (LIBRARY + "lib.install()\n", ""),
    "called with nothing": (LIBRARY, "lib.finish()"),
    "with what is not known": (LIBRARY, 'lib.finish(os.environ.get("PLACE"))'),
    "by a pattern in a folder beside": (
        'import glob\nlib = ctypes.CDLL(glob.glob("../parts/*/libnvrtc.so*")[0])\n',
        "lib.finish()",
    ),
    "far above torch": (
        'lib = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "../../../own/libnvrtc.so"))\n',
        "lib.finish()",
    ),
    "an operator's library": ('torch.ops.load_library("finish.so")\n', ""),
    "a module": (
        "import importlib.util\n"
        'spec = importlib.util.spec_from_file_location("m", "./m.so")\nm = importlib.util.module_from_spec(spec)\n'
        "spec.loader.exec_module(m)\n",
        "m.finish()",
    ),
    "found by a pattern": ('lib = ctypes.CDLL(glob.glob("*.so")[0])\n', ""),
}
SYSTEM = {
    "by its name": 'ctypes.CDLL("libcuda.so.1")',
    "by the linker's": 'ctypes.CDLL(ctypes.util.find_library("cudart") or "libcudart.so")',
    "of a version": 'ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split(chr(46))[0]}")',
    "beside torch": 'ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libcudart.so.12"))',
    "beside torch, by a path": 'ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libnvrtc-12ab.so.12"))',
    "of the toolkit": 'ctypes.CDLL(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64/libnvrtc.so"))',
    "by a pattern": 'ctypes.CDLL(glob.glob("/usr/local/cuda/lib64/libcudart.so*")[0])',
    "by a pattern in a folder beside torch": "ctypes.CDLL(sorted(glob.glob(os.path.join(os.path.dirname("
    'torch.__file__), "..", "nvidia", "*", "lib", "libnvrtc.so*")))[-1])',
    "of the process": "ctypes.CDLL(None)",
    "marks for a profiler": 'ctypes.CDLL("libnvToolsExt.so.1")',
}


def program(setup: str, after: str) -> str:
    return SETUP + setup + model(f"{LAUNCH}{after}\nreturn y" if after else f"{LAUNCH}return y")


def test_the_program_without_a_library_is_clean(tmp_path: Path) -> None:
    assert lint(tmp_path, program("", "")).verdict == "clean"


@pytest.mark.parametrize("how", HANDED)
def test_a_result_that_machine_code_was_handed_comes_from_it(tmp_path: Path, how: str) -> None:
    assert "binary-blob-kernel" in classes(lint(tmp_path, program(*HANDED[how])))


def test_an_input_that_machine_code_was_handed_is_not_said_to_be_changed(tmp_path: Path) -> None:
    found = classes(lint(tmp_path, program(LIBRARY, "lib.finish(x.data_ptr(), y.data_ptr())")))
    assert "binary-blob-kernel" in found and "input-modified" not in found


@pytest.mark.parametrize("how", UNSEEN)
def test_machine_code_leaves_nothing_proven(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, program(*UNSEEN[how]))
    assert report.verdict == "unproven", report.trace
    assert any("is machine code without source" in item.reason for item in report.unread)


@pytest.mark.parametrize("how", SYSTEM)
def test_a_library_of_the_system_is_none_of_that(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, program(f"lib = {SYSTEM[how]}\n", ""))
    assert (report.verdict, report.unread) == ("clean", ())


# --- C++ -----------------------------------------------------------------------------------------------------

OPEN = 'void* library = dlopen("./libfinish.so", RTLD_NOW);\n'
FLAGS = ', extra_ldflags=["-L.", "-lfinish"]'
DECLARED = 'extern "C" void finish(void* place);\nvoid touch(torch::Tensor y) { finish(y.data_ptr()); }'
TOUCHED = "void touch(torch::Tensor y) { TORCH_CHECK(y.is_contiguous()); }"
CPP_HANDED = {
    "opened": f"""void touch(torch::Tensor y) {{
  {OPEN}  auto finish = (void (*)(void*))dlsym(library, "finish");
  finish(y.data_ptr());
}}""",
    "opened once": """typedef void (*Finish)(void*);
static Finish get() { static Finish f = (Finish)dlsym(dlopen("./libfinish.so", RTLD_NOW), "finish"); return f; }
void touch(torch::Tensor y) { get()(y.data_ptr()); }""",
}
CPP_UNSEEN = {
    "opened, called with nothing": (
        f'void touch(torch::Tensor y) {{ {OPEN} ((void (*)())dlsym(library, "f"))(); }}',
        "",
    ),
    "opened only": (f"void touch(torch::Tensor y) {{ static {OPEN} }}", ""),
    "declared": (DECLARED, ""),
    "declared and linked": (DECLARED, FLAGS),
    "a method": (
        "class Finisher { public: void run(void* place); };\n"
        "void touch(torch::Tensor y) { Finisher f; f.run(y.data_ptr()); }",
        "",
    ),
    "linked only": (TOUCHED, FLAGS),
    "an object linked only": (TOUCHED, ', extra_ldflags=["./finish.o"]'),
}
CPP_SYSTEM = {
    "nothing": (TOUCHED, ""),
    "libraries of CUDA and torch": (
        TOUCHED,
        ', extra_ldflags=["-lcuda", "-lcublas", "-ltorch_cuda", "-L/usr/local/lib"]',
    ),
    "the driver, opened": (
        'void touch(torch::Tensor y) { auto h = dlopen("libcuda.so.1", 1); ((int (*)(int))dlsym(h, "cuInit"))(0); }',
        "",
    ),
    "a function of the driver, declared": (
        'extern "C" int cuInit(unsigned);\nvoid touch(torch::Tensor y) { cuInit(0); }',
        "",
    ),
}


def extension(source: str, flags: str = "") -> str:
    text = f"#include <torch/extension.h>\n#include <dlfcn.h>\n{source}\n"
    setup = "from torch.utils.cpp_extension import load_inline\n"
    return program(f"{setup}ext = load_inline('e', r'''{text}''', functions=['touch']{flags})\n", "ext.touch(y)")


@pytest.mark.parametrize("how", CPP_HANDED)
def test_a_library_that_c_plus_plus_opens_makes_what_it_is_handed(tmp_path: Path, how: str) -> None:
    assert "binary-blob-kernel" in classes(lint(tmp_path, extension(CPP_HANDED[how])))


@pytest.mark.parametrize("how", CPP_UNSEEN)
def test_what_c_plus_plus_opens_declares_or_is_linked_with_leaves_nothing_proven(tmp_path: Path, how: str) -> None:
    assert lint(tmp_path, extension(*CPP_UNSEEN[how])).verdict == "unproven"


@pytest.mark.parametrize("how", CPP_SYSTEM)
def test_c_plus_plus_may_use_the_libraries_of_the_system(tmp_path: Path, how: str) -> None:
    report = lint(tmp_path, extension(*CPP_SYSTEM[how]))
    assert (report.verdict, report.unread) == ("clean", ())


def test_a_tuple_that_c_plus_plus_fills_is_one_for_python(tmp_path: Path) -> None:
    source = """static PyObject* both(PyObject*, PyObject* const* args, Py_ssize_t count) {
  PyObject* made = PyTuple_New(2);
  PyTuple_SET_ITEM(made, 0, args[0]);
  PyTuple_SET_ITEM(made, 1, args[0]);
  return made;
}
static PyMethodDef methods[] = {
  {"both", (PyCFunction)(void*)both, METH_FASTCALL, nullptr}, {nullptr, nullptr, 0, nullptr}};
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { PyModule_AddFunctions(m.ptr(), methods); }"""
    setup = "from torch.utils.cpp_extension import load_inline\n" + LIBRARY
    setup += f"ext = load_inline('e', r'''#include <torch/extension.h>\n{source}''')\n"
    after = "for part in ext.both(y) if isinstance(ext.both(y), tuple) else ():\n    lib.finish(part.data_ptr())"
    assert "binary-blob-kernel" in classes(lint(tmp_path, program(setup, after)))


# --- memory by its address -----------------------------------------------------------------------------------

COPY = "torch.cuda.cudart().cudaMemcpy"
COPIES = {
    "torch's runtime": ("", f"{COPY}(y.data_ptr(), made.data_ptr(), y.nbytes, 3)"),
    "the runtime, in order": ("", f"{COPY}Async(y.data_ptr(), made.data_ptr(), y.nbytes, 3, 0)"),
    "the driver": (
        'lib = ctypes.CDLL("libcuda.so.1")\n',
        "lib.cuMemcpyDtoDAsync_v2(ctypes.c_void_p(y.data_ptr()), ctypes.c_void_p(made.data_ptr()), y.nbytes, None)",
    ),
    "an object that lends it": (
        "class Lender:\n    pass\n",
        "lender = Lender()\n"
        'said = {"shape": (M, N), "typestr": "<V2", "data": (y.data_ptr(), False), "version": 3}\n'
        'lender.__cuda_array_interface__ = said\ntorch.as_tensor(lender, device="cuda").copy_(made)',
    ),
}


@pytest.mark.parametrize("how", COPIES)
def test_what_is_copied_over_the_result_by_its_address_is_the_result(tmp_path: Path, how: str) -> None:
    setup, copy = COPIES[how]
    made = "made = (x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16).t() * self.weight_scale).to(torch.bfloat16)\n"
    assert "zero-kernel-torch-wrapper" in classes(lint(tmp_path, program(setup, made + copy)))


@pytest.mark.parametrize("given", ["y.data_ptr()", "[y.data_ptr()]", "(ctypes.c_void_p * 1)(y.data_ptr())"])
def test_a_function_that_nobody_knows_may_write_to_the_addresses_it_is_handed(tmp_path: Path, given: str) -> None:
    report = lint(tmp_path, program("import somebodys_package\n", f"somebodys_package.run({given})"))
    assert report.verdict == "unproven", report.trace


def test_what_the_runtime_says_of_the_device_is_no_leak(tmp_path: Path) -> None:
    setup = "rt = torch.cuda.cudart()\nrt.cudaProfilerStart()\nfree = rt.cudaMemGetInfo(0)\n"
    assert lint(tmp_path, program(setup, "torch.cuda.cudart().cudaProfilerStop()")).verdict == "clean"


def test_a_file_with_the_name_of_a_module_of_python_leaves_nothing_proven(tmp_path: Path) -> None:
    (tmp_path / "ctypes.py").write_text("def CDLL(name):\n    return None\n", encoding="utf-8")
    assert lint(tmp_path, program('lib = ctypes.CDLL("./x.so")\n', "")).verdict == "unproven"


@pytest.mark.parametrize("line", ["import fast", "from fast import finish", "from fast import *"])
@pytest.mark.parametrize("name", ["fast.so", "fast.cpython-312-x86_64-linux-gnu.so"])
def test_an_extension_module_beside_the_file_leaves_nothing_proven(tmp_path: Path, line: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x7fELF\0")
    report = lint(tmp_path, program(f"{line}\n", ""))
    assert report.verdict == "unproven"
    assert any(item.reason == f"{name} is machine code without source" for item in report.unread)


def test_a_result_that_an_extension_module_is_handed_comes_from_it(tmp_path: Path) -> None:
    (tmp_path / "fast.so").write_bytes(b"\x7fELF\0")
    assert "binary-blob-kernel" in classes(lint(tmp_path, program("import fast\n", "fast.finish(y)")))
