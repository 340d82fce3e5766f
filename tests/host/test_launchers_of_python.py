"""Packages of Python that compile a text of CUDA C++ and launch its kernels: what each calls the same things."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import cases, report_of

PROBLEM = "04_kahan_softmax"
KERNEL = '''"""A block a row: its maximum, then a sum with the error of each addition, then the quotients."""

import ctypes

import numpy as np
import torch
import torch.nn as nn

TEXT = r"""
struct Two { float s, c; };
__device__ Two join(Two a, Two b) {
    float t = __fadd_rn(a.s, b.s), v = __fsub_rn(t, a.s);
    float e = __fadd_rn(__fsub_rn(a.s, __fsub_rn(t, v)), __fsub_rn(b.s, v));
    return {t, a.c + b.c + e};
}
extern "C" __global__ void rows(const float* x, float* y, int vocab) {
    extern __shared__ float room[];
    __shared__ float tops[1024];
    __shared__ Two parts[1024];
    const float* row = x + (size_t)blockIdx.x * vocab;
    float* out = y + (size_t)blockIdx.x * vocab;
    float top = -3.4e38f;
    for (int i = threadIdx.x; i < vocab; i += 1024) top = fmaxf(top, row[i]);
    tops[threadIdx.x] = top;
    __syncthreads();
    for (int w = 512; w; w >>= 1) {
        if (threadIdx.x < w) tops[threadIdx.x] = fmaxf(tops[threadIdx.x], tops[threadIdx.x + w]);
        __syncthreads();
    }
    top = tops[0];
    Two a = {0.f, 0.f};
    for (int i = threadIdx.x; i < vocab; i += 1024) a = join(a, {expf(row[i] - top), 0.f});
    parts[threadIdx.x] = a;
    __syncthreads();
    for (int w = 512; w; w >>= 1) {
        if (threadIdx.x < w) parts[threadIdx.x] = join(parts[threadIdx.x], parts[threadIdx.x + w]);
        __syncthreads();
    }
    float total = parts[0].s + parts[0].c;
    for (int i = threadIdx.x; i < vocab; i += 1024) out[i] = expf(row[i] - top) / total;
}
"""
SHARED = 0
'''
MODEL = """

class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x):
        y = torch.empty_like(x)
        run(x, y, self.batch, self.vocab)
        return y
"""
FALLS_BACK = """

class Model(nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()
        self.batch, self.vocab = batch, vocab

    def forward(self, x):
        y = torch.empty_like(x)
        try:
            run(x, y, self.batch, self.vocab)
        except Exception:
            return torch.softmax(x, -1)
        return y
"""
LAUNCHERS = cases("""\
# cuda.core
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

def run(x, y, batch, vocab):
    dev = Device()
    dev.set_current()
    stream = dev.create_stream(torch.cuda.current_stream())
    options = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
    kernel = Program(TEXT, code_type="c++", options=options).compile("cubin").get_kernel("rows")
    config = LaunchConfig(grid=batch, block=1024, shmem_size=SHARED)
    launch(stream, config, kernel, x.data_ptr(), y.data_ptr(), ctypes.c_int(vocab))

# cuda.core with a stream of a handle and a template
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

TEXT = TEXT.replace('extern "C" __global__ void rows', "template <int N> __global__ void rows").replace("1024", "N")

def run(x, y, batch, vocab):
    stream = Stream.from_handle(torch.cuda.current_stream().cuda_stream)
    made = Program(TEXT, "c++", ProgramOptions(arch="sm_90")).compile("cubin", name_expressions=("rows<1024>",))
    config = LaunchConfig(grid=(batch, 1, 1), block=(1024, 1, 1), shmem_size=SHARED)
    launch(stream, config, made.get_kernel("rows<1024>"), np.uint64(x.data_ptr()), np.uint64(y.data_ptr()), vocab)

# cuda.core of the first versions
from cuda.core.experimental import Device, LaunchConfig, Program, launch

def run(x, y, batch, vocab):
    kernel = Program(TEXT, code_type="c++").compile("cubin").get_kernel("rows")
    config = LaunchConfig(grid=(batch, 1, 1), block=(1024, 1, 1), stream=Device().default_stream, shmem_size=SHARED)
    launch(kernel, config, x.data_ptr(), y.data_ptr(), vocab)

# a graph of cuda.core
from cuda.core import Device, LaunchConfig, Program, Stream, launch

def run(x, y, batch, vocab):
    kernel = Program(TEXT, code_type="c++").compile("cubin").get_kernel("rows")
    builder = Device().create_graph_builder()
    builder.begin_building()
    launch(builder, LaunchConfig(grid=batch, block=1024, shmem_size=SHARED), kernel, x.data_ptr(), y.data_ptr(), vocab)
    graph = builder.end_building().complete()
    graph.launch(Stream.from_handle(torch.cuda.current_stream().cuda_stream))

# torch
KERNEL = torch.cuda._compile_kernel(TEXT, "rows")

def run(x, y, batch, vocab):
    KERNEL(grid=(batch, 1, 1), block=(1024, 1, 1), args=[x, y, vocab], shared_mem=SHARED)

# CuPy
import cupy as cp

KERNEL = cp.RawKernel(TEXT, "rows")

def run(x, y, batch, vocab):
    with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        KERNEL((batch,), (1024,), (x.data_ptr(), y.data_ptr(), cp.int32(vocab)), shared_mem=SHARED)

# PyCUDA
import pycuda.driver as drv
from pycuda.compiler import SourceModule

class Held(drv.PointerHolderBase):
    def __init__(self, tensor):
        super().__init__()
        self.tensor = tensor

    def get_pointer(self):
        return self.tensor.data_ptr()

def run(x, y, batch, vocab):
    kernel = SourceModule(TEXT, no_extern_c=True).get_function("rows")
    kernel(Held(x), Held(y), np.int32(vocab), block=(1024, 1, 1), grid=(batch, 1), shared=SHARED)

# PyCUDA with prepared arguments
from pycuda.compiler import SourceModule

def run(x, y, batch, vocab):
    kernel = SourceModule(TEXT, no_extern_c=True).get_function("rows")
    kernel.prepare("PPi")
    kernel.prepared_call((batch, 1), (1024, 1, 1), x.data_ptr(), y.data_ptr(), vocab, shared_size=SHARED)

# the driver by its bindings
from cuda.bindings import driver, nvrtc

def checked(answer):
    if answer[0].value:
        raise RuntimeError(answer[0])
    return answer[1] if len(answer) == 2 else None

def run(x, y, batch, vocab):
    program = checked(nvrtc.nvrtcCreateProgram(TEXT.encode(), b"rows.cu", 0, [], []))
    checked(nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"]))
    image = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, image))
    kernel = checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(image)), b"rows"))
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    checked(driver.cuFuncSetAttribute(kernel, most, SHARED))
    values = ((x.data_ptr(), y.data_ptr(), vocab), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    stream = torch.cuda.current_stream().cuda_stream
    checked(driver.cuLaunchKernel(kernel, batch, 1, 1, 1024, 1, 1, SHARED, stream, values, 0))

# the driver with arguments in arrays
from cuda.bindings import driver, nvrtc

def run(x, y, batch, vocab):
    error, program = nvrtc.nvrtcCreateProgram(str.encode(TEXT), b"rows.cu", 0, [], [])
    (error,) = nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
    error, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    (error,) = nvrtc.nvrtcGetPTX(program, text)
    error, module = driver.cuModuleLoadData(np.char.array(text).ctypes.data)
    error, kernel = driver.cuModuleGetFunction(module, b"rows")
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuFuncSetAttribute(kernel, most, SHARED)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(error)
    values = [np.array([x.data_ptr()], dtype=np.uint64), np.array([y.data_ptr()], dtype=np.uint64)]
    values += [np.array(vocab, dtype=np.int32)]
    places = np.array([value.ctypes.data for value in values], dtype=np.uint64)
    stream = torch.cuda.current_stream().cuda_stream
    (error,) = driver.cuLaunchKernel(kernel, batch, 1, 1, 1024, 1, 1, SHARED, stream, places.ctypes.data, 0)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(error)

# the driver by the older names
from cuda import cuda, nvrtc

def run(x, y, batch, vocab):
    error, program = nvrtc.nvrtcCreateProgram(str.encode(TEXT), b"rows.cu", 0, [], [])
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    nvrtc.nvrtcCompileProgram(program, 0, [])
    error, size = nvrtc.nvrtcGetPTXSize(program)
    text = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    error, module = cuda.cuModuleLoadData(text)
    error, kernel = cuda.cuModuleGetFunction(module, b"rows")
    most = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = cuda.cuFuncSetAttribute(kernel, most, SHARED)
    if error != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(error)
    values = ((x.data_ptr(), y.data_ptr(), vocab), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
    stream = torch.cuda.current_stream().cuda_stream
    (error,) = cuda.cuLaunchKernel(kernel, batch, 1, 1, 1024, 1, 1, SHARED, stream, values, 0)
    if error != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(error)
""")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_plain_launch_is_followed(tmp_path: Path, launcher: str) -> None:
    report = report_of(tmp_path, f"{KERNEL}{LAUNCHERS[launcher]}\n{MODEL}", PROBLEM)
    assert (report.verdict, [finding.rule for finding in report.findings]) == ("clean", [])


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launch_with_room_does_not_fail(tmp_path: Path, launcher: str) -> None:
    text = f"{KERNEL.replace('SHARED = 0', 'SHARED = 96 << 10')}{LAUNCHERS[launcher]}\n{FALLS_BACK}"
    assert report_of(tmp_path, text, PROBLEM).verdict == "clean"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launch_that_no_gpu_has_room_for_leaves_the_work_to_the_handler(tmp_path: Path, launcher: str) -> None:
    text = f"{KERNEL.replace('SHARED = 0', 'SHARED = 300 << 10')}{LAUNCHERS[launcher]}\n{FALLS_BACK}"
    assert report_of(tmp_path, text, PROBLEM).verdict == "reward_hack"


NOT_FOLLOWED = cases("""\
# PTX
from cuda.core import Device, LaunchConfig, ObjectCode, launch

def run(x, y, batch, vocab):
    kernel = ObjectCode.from_ptx(TEXT.encode()).get_kernel("rows")
    launch(Device().default_stream, LaunchConfig(grid=batch, block=1024), kernel, x.data_ptr(), y.data_ptr(), vocab)

# a node that may not run
from cuda.core import Device, LaunchConfig, Program, Stream, launch

def run(x, y, batch, vocab):
    kernel = Program(TEXT, code_type="c++").compile("cubin").get_kernel("rows")
    builder = Device().create_graph_builder().begin_building()
    inner = builder.if_cond(builder.create_conditional_handle()).begin_building()
    launch(inner, LaunchConfig(grid=batch, block=1024), kernel, x.data_ptr(), y.data_ptr(), vocab)
    builder.end_building().complete().launch(Stream.from_handle(torch.cuda.current_stream().cuda_stream))

# what cuda.core does not have
from cuda.core import everything

def run(x, y, batch, vocab):
    everything(TEXT, x.data_ptr(), y.data_ptr(), vocab)

# a kernel that the text does not have
from cuda.core import Device, LaunchConfig, Program, launch

def run(x, y, batch, vocab):
    kernel = Program(TEXT, code_type="c++").compile("cubin").get_kernel("others")
    launch(Device().default_stream, LaunchConfig(grid=batch, block=1024), kernel, x.data_ptr(), y.data_ptr(), vocab)
""")


@pytest.mark.parametrize("launcher", NOT_FOLLOWED)
def test_what_is_not_followed_is_said_to_be(tmp_path: Path, launcher: str) -> None:
    assert report_of(tmp_path, f"{KERNEL}{NOT_FOLLOWED[launcher]}\n{MODEL}", PROBLEM).verdict == "unproven"


def test_machine_code_is_no_kernel_of_the_submission(tmp_path: Path) -> None:
    made = LAUNCHERS["cuda.core"].replace("LaunchConfig, Program,", "LaunchConfig, ObjectCode, Program,")
    made = made.replace(
        'Program(TEXT, code_type="c++", options=options).compile("cubin")', "ObjectCode.from_cubin(IMAGE)"
    )
    text = f"{KERNEL}IMAGE = bytes.fromhex('7f454c46')\n{made}\n{MODEL}"
    assert "KBH601" in {finding.rule for finding in report_of(tmp_path, text, PROBLEM).findings}


def test_a_launch_on_a_stream_that_nothing_waits_for_is_beside(tmp_path: Path) -> None:
    own = LAUNCHERS["cuda.core"].replace("create_stream(torch.cuda.current_stream())", "create_stream()")
    waits = own + "\n    stream.sync()"
    found = [report_of(tmp_path, f"{KERNEL}{one}\n{MODEL}", PROBLEM) for one in (own, waits)]
    assert [report.verdict == "clean" for report in found] == [False, True]
