"""CUDA text that was rewritten compiles to the same PTX, names aside."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kbh_lint.rewrite.compose import apply, evasions
from kbh_lint.rewrite.cuda.text import texts
from kbh_lint.rewrite.program import Program
from kbh_lint.rewrite.tree import source_of

IDIOMS = Path(__file__).parents[1] / "idioms"
NVCC = shutil.which("nvcc")
ALL = (
    "cuda-launch-call", "cuda-while", "cuda-dereference", "cuda-macro-strings", "cuda-split-strings",
    "cuda-rename", "cuda-using", "cuda-macros", "cuda-helpers", "cuda-template", "cuda-comments", "cuda-compact",
)  # fmt: skip


def ptx(program: Program, arch: str, folder: Path) -> list[str]:
    """The instructions of a program's CUDA text. Names are numbered as they come, places in the source left out."""
    folder.mkdir()
    path = folder / "kernel.cu"
    path.write_text("\n".join(texts(program, source_of(program))), encoding="utf-8")
    out = folder / "kernel.ptx"
    command = [str(NVCC), "-ptx", f"-arch={arch}", "-std=c++17", f"-I{IDIOMS / 'stub'}", "-o", str(out), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    text = re.sub(r"//.*|^\.(loc|file|section).*", "", out.read_text(encoding="utf-8"), flags=re.M)
    numbers: dict[str, str] = {}
    text = re.sub(r"\b_Z[\w$]+", lambda match: numbers.setdefault(match[0], f"name{len(numbers)}"), text)
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
@pytest.mark.parametrize(("name", "arch"), [("int4/cuda_lop3", "sm_90a")])
def test_all_rewrites_of_a_cuda_text_together_leave_its_ptx(name: str, arch: str, tmp_path: Path) -> None:
    program = Program((IDIOMS / f"{name}.py").read_text(encoding="utf-8"))
    before, applied = ptx(program, arch, tmp_path / "before"), []
    for rewrite in ALL:
        try:
            program = apply(evasions()[rewrite], program, 7)
        except Exception as error:
            assert type(error).__name__ == "NotApplicable", rewrite
            continue
        applied.append(rewrite)
    assert {"cuda-rename", "cuda-using", "cuda-compact", *ALL[:4]} <= set(applied)
    assert ptx(program, arch, tmp_path / "after") == before, applied
    assert len(before) > 50


WORK = re.compile(
    r"(?:@!?%p\d+ )?((?:fma|mma|wgmma|ex2|st\.global|(?:add|sub|mul|div|max)\.[\w.]*f(?:16|32|64)|cvt\.[\w.]*f)[\w.]*)"
)


def work(program: Program, folder: Path) -> Counter[str]:
    """How often each instruction of arithmetic, and each store, stands in a program's PTX."""
    return Counter(found[1] for line in ptx(program, "sm_90a", folder) if (found := WORK.match(line)))


MOVED = (
    "cuda-launch-array", "cuda-launch-config", "cuda-launch-wrapper", "cuda-namespace", "cuda-functor", "cuda-traits",
    "cuda-dispatch",
)  # fmt: skip
STAYS = ("cuda-params-struct", "cuda-launch-wrapper", "cuda-namespace", "cuda-dispatch")  # one form where they apply
# Kernels that are templates in a namespace, an attribute of one, and an argument that is a struct.
TEMPLATES = """
CUDA = r'''
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
namespace own {
template <typename T, int N> struct Pair { T v[N]; };
template <typename T, int N>
__device__ __forceinline__ T total(const Pair<T, N>& p) {
  T s = 0;
  for (int i = 0; i < N; ++i) s += p.v[i];
  return s;
}
template <typename T, int N, bool LAST>
__global__ void __launch_bounds__(32 * N) fold(const T* __restrict__ x, T* y, const Pair<T, N> with, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = LAST ? x[i] * total(with) : x[i] * (T)by;
}
at::Tensor run(at::Tensor x) {
  auto y = at::empty_like(x);
  const int n = x.numel();
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  cudaFuncSetAttribute(own::fold<float, 2, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 16);
  Pair<float, 2> with{{1.f, 2.f}};
  const float* from = x.data_ptr<float>();
  if (n > 100)
    fold<float, 2, true><<<(n + 63) / 64, 64, 1 << 16, stream>>>(from, y.data_ptr<float>(), with, n, 1);
  else fold<float, 2, false><<<dim3(1, 1), 64>>>(from, y.data_ptr<float>(), {{1.f, 2.f}}, n, 2.f);
  return y;
}
}  // namespace own
'''
"""


def unnamed(program: Program) -> str:
    """A program's text in which all names that are made up are one."""
    return re.sub(r"\b(?:[a-z][aeiou]){4}(?=\b|_)", "name", program.main)


def original(name: str) -> Program:
    return Program(TEMPLATES if name == "templates" else (IDIOMS / f"{name}.py").read_text(encoding="utf-8"))


@cache
def work_before(name: str) -> Counter[str]:
    """What a program does as it is; many rewrites are held against it."""
    with TemporaryDirectory() as folder:
        return work(original(name), Path(folder, "before"))


@pytest.mark.share(4)
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
@pytest.mark.parametrize(("rewrite", "name"), [
    *[(rewrite, name) for rewrite in ("cuda-params-struct", "cuda-views")
      for name in ("int4/cuda_lop3", "int4/cuda_mma", "fp8/mma_sync", "kahan/cuda_kahan")],
    *[(rewrite, name) for rewrite in MOVED for name in ("int4/cuda_mma", "templates")],
])  # fmt: skip
def test_kernels_and_launches_written_otherwise_leave_the_arithmetic(rewrite: str, name: str, tmp_path: Path) -> None:
    """Loads of the arguments differ, and the order that the compiler chooses."""
    program = original(name)
    made = {unnamed(one): one for one in (apply(evasions()[rewrite], program, seed) for seed in range(6))}
    assert len(made) > (rewrite not in STAYS)
    before = work_before(name)
    for number, one in enumerate(list(made.values())[:3]):
        assert work(one, tmp_path / f"after{number}") == before, one.main
    assert sum(before.values()) > 1


def test_a_kernel_that_something_else_may_launch_keeps_its_arguments() -> None:
    text = (
        'CUDA = r"""\n__global__ void k(float* x, int n) { x[0] = n; }\nvoid run(float* x, cudaLaunchConfig_t* c) {\n'
    )
    program = Program(text + '  cudaLaunchKernelEx(c, k, x, 3);\n  k<<<1, 1>>>(x, 4);\n}\n"""\n')
    for seed in range(6):
        new = apply(evasions()["cuda-functor"], program, seed).main
        assert "static __device__" in new and ", x, 3);" in new and ">>>(x, 4);" in new
