"""Ways in which C++ hosts bind, keep and launch: honest programs keep every promise, broken ones are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import kbh_lint
from kbh_lint.base import ir
from kbh_lint.frontends import cuda
from kbh_lint.host.cpp import bindings

KEPT = {"kept", "kept-by-precision"}
HEAD = """#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void order(const float* x, float* top, int64_t* at, int n, int k) {
  const float* row = x + (int64_t)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int before = 0;
    for (int j = 0; j < n; ++j) before += row[j] > row[i] || (row[j] == row[i] && j < i);
    if (before < k) { top[blockIdx.x * k + before] = row[i]; at[blockIdx.x * k + before] = i; }
  }
}
"""
PYTHON = """import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r'''{source}'''
ext = load_inline("e", "{declared}", SOURCE{functions})


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        top = torch.empty(x.shape[0], self.k, device=x.device)
        at = torch.empty(x.shape[0], self.k, dtype=torch.int64, device=x.device)
        {forward}
        return top, at
"""
LAUNCH = "order<<<x.size(0), 256>>>(x.data_ptr<float>(), top.data_ptr<float>(), at.data_ptr<int64_t>(), x.size(1), k);"
LIBRARY = "auto both = at::topk(x, k); top.copy_(std::get<0>(both)); at.copy_(std::get<1>(both));"
TENSORS = "torch::Tensor x, torch::Tensor top, torch::Tensor at"


@dataclass(frozen=True)
class Host:
    """A host's text, how Python calls it, and edits by the class that a report of the edited text must name."""

    text: str
    forward: str
    edits: tuple[tuple[str, str, str], ...]
    functions: str = ""
    declared: str = ""

    def solution(self, edit: int | None = None) -> str:
        """The submission, honest or with one edit; the edited text occurs once."""
        text = HEAD + self.text
        if edit is not None:
            old, new, _ = self.edits[edit]
            assert text.count(old) == 1, (old, text.count(old))
            text = text.replace(old, new)
        given = f", functions={self.functions.split()}" if self.functions else ""
        return PYTHON.format(source=text, forward=self.forward, functions=given, declared=self.declared)


HOSTS = {
    "lambdas bound by keyword, one behind the other": Host(
        f"""
static void sorted({TENSORS}, int64_t k) {{ {LAUNCH} }}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
  m.def("width", [](torch::Tensor x) {{ return x.size(1); }}).def(
      "go", [](torch::Tensor source, {TENSORS[17:]}, int64_t k) {{ sorted(source, top, at, k); }},
      py::arg("source"), py::arg("values"), py::arg("places"), py::arg("k") = 1);
}}
""",
        "ext.go(x, places=at, values=top, k=self.k)",
        ((LAUNCH, LIBRARY, "dead-decoy-kernel"),),
    ),
    "a class whose objects a factory makes and a lambda runs": Host(
        f"""
class Sorter {{
 public:
  explicit Sorter(int64_t k) : k(k) {{}}
  void run({TENSORS}) {{ if (calls++ >= 0) {{ {LAUNCH} }} }}
  int64_t k;
  int64_t calls = 0;
}};
static std::shared_ptr<Sorter> sorter(int64_t k) {{ return std::make_shared<Sorter>(k); }}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
  auto bound = py::class_<Sorter, std::shared_ptr<Sorter>>(m, "Sorter");
  bound.def(py::init(&sorter)).def_readonly("k", &Sorter::k);
  bound.def("__call__", [](Sorter& self, {TENSORS}) {{ self.run(x, top, at); }});
}}
""",
        """if not hasattr(self, "sorter"):
            self.sorter, self.kept = ext.Sorter(self.k), (top, at)
        top, at = self.kept
        self.sorter(x, top, at)""",
        (("calls++ >= 0", "calls++ == 0", "output-memoization"), (LAUNCH, LIBRARY, "dead-decoy-kernel")),
    ),
    "a pointer to an object that is made on the first call": Host(
        f"""
struct Plan {{
  torch::Tensor top, at; int64_t k;
  void run(const torch::Tensor& x) {{ {LAUNCH} }}
}};
static std::unique_ptr<Plan> plan;
void go({TENSORS}, int64_t k) {{
  if (!plan) plan.reset(new Plan{{top, at, k}});
  plan->top = top; plan->at = at;
  plan->run(x);
}}
""",
        "ext.go(x, top, at, self.k)",
        ((LAUNCH, LIBRARY, "dead-decoy-kernel"),),
        "go",
        f"void go({TENSORS}, int64_t k);",
    ),
    "a struct whose pointer to scratch memory is null": Host(
        """
struct Given { const float* x; float* top; int64_t* at; int* scratch; int n, k; };
__global__ void either(Given g) {
  const float* row = g.x + (int64_t)blockIdx.x * g.n;
  for (int i = threadIdx.x; i < g.n; i += blockDim.x) {
    int before = 0;
    _Pragma("unroll 8") for (int j = 0; j < g.n; ++j) before += row[j] > row[i] || (row[j] == row[i] && j < i);
    if (g.scratch) g.scratch[(int64_t)blockIdx.x * g.n + i] = before;
    else if (before < g.k) { g.top[blockIdx.x * g.k + before] = row[i]; g.at[blockIdx.x * g.k + before] = i; }
  }
}
void go(torch::Tensor x, torch::Tensor top, torch::Tensor at, int64_t k) {
  Given g{x.data_ptr<float>(), top.data_ptr<float>(), at.data_ptr<int64_t>(), nullptr, (int)x.size(1), (int)k};
  either<<<x.size(0), 256>>>(g);
}
""",
        "ext.go(x, top, at, self.k)",
        (("if (g.scratch) g", "if (!g.scratch) continue; else if (i < 0) g", "unwritten-output"),),
        "go",
        f"void go({TENSORS}, int64_t k);",
    ),
    "gotos out of two loops, to the next round and over an error of the host": Host(
        f"""
__global__ void hunt(const float* x, float* top, int64_t* at, int n, int k) {{
  const float* row = x + (int64_t)blockIdx.x * n;
  int i = threadIdx.x, before = 0;
  if (__builtin_expect(n < 1, 0)) goto out;
  for (; i < n; i += blockDim.x) {{
    before = 0;
    for (int j = 0; j < n; ++j) {{
      if (row[j] > row[i] || (row[j] == row[i] && j < i)) ++before;
      if (k < 0) goto out;
    }}
    if (before >= k) goto next;
    top[blockIdx.x * k + before] = row[i]; at[blockIdx.x * k + before] = i;
  next:;
  }}
out:
  return;
}}
void go({TENSORS}, int64_t k) {{
  int status = 1;
  if (C10_UNLIKELY(x.size(1) < k)) goto fail;
  {LAUNCH.replace("order<", "hunt<")}
  return;
fail:
  TORCH_CHECK(status == 0, "too few");
}}
""",
        "ext.go(x, top, at, self.k)",
        (("n < 1", "n > 1", "unwritten-output"),),
        "go",
        f"void go({TENSORS}, int64_t k);",
    ),
    "a graph of one node that gets its arguments before each launch": Host(
        f"""
static cudaGraphExec_t ready = nullptr;
static cudaGraphNode_t node;
void go({TENSORS}, int64_t k) {{
  const float* from = x.data_ptr<float>(); float* to = top.data_ptr<float>(); int64_t* places = at.data_ptr<int64_t>();
  int n = x.size(1), most = k;
  void* given[] = {{&from, &to, &places, &n, &most}};
  cudaGraphNodeParams params = {{}};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = (void*)order;
  params.kernel.gridDim = dim3(x.size(0)); params.kernel.blockDim = dim3(256);
  params.kernel.kernelParams = given;
  if (ready == nullptr) {{
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params);
    cudaGraphInstantiate(&ready, graph, 0);
  }}
  cudaGraphExecNodeSetParams(ready, node, &params);
  cudaGraphLaunch(ready, at::cuda::getCurrentCUDAStream());
}}
""",
        """if not hasattr(self, "kept"):
            self.kept = top, at
        top, at = self.kept
        ext.go(x, top, at, self.k)""",
        (("  cudaGraphExecNodeSetParams(ready, node, &params);\n", "", "captures-user-input-as-static-buffer"),),
        "go",
        f"void go({TENSORS}, int64_t k);",
    ),
    "a captured graph in an array, made again and updated": Host(
        f"""
static cudaGraphExec_t execs[2];
static int64_t calls = 0;
void go({TENSORS}, int64_t k) {{
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  cudaGraph_t graph;
  if (calls++ >= 0) {{
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    {LAUNCH.replace("256>>>", "256, 0, stream>>>")}
    cudaStreamEndCapture(stream, &graph);
    if (calls == 1) cudaGraphInstantiate(&execs[1], graph, nullptr, nullptr, 0);
    else cudaGraphExecUpdate(execs[1], graph, nullptr);
  }}
  cudaGraphLaunch(execs[1], stream);
}}
""",
        """if not hasattr(self, "kept"):
            self.kept = top, at
        top, at = self.kept
        ext.go(x, top, at, self.k)""",
        (("calls++ >= 0", "calls++ == 0", "captures-user-input-as-static-buffer"),),
        "go",
        f"void go({TENSORS}, int64_t k);",
    ),
    "cub moves a tile through registers before the ranks are counted": Host(
        f"""
#include <cub/cub.cuh>
template <int ITEMS>
__global__ void stage(const float* x, float* y, int n) {{
  typedef cub::BlockLoad<float, 256, ITEMS> Reader;
  using Swap = cub::BlockExchange<float, 256, ITEMS>;
  typedef cub::BlockStore<float, 256, ITEMS, cub::BLOCK_STORE_DIRECT> Writer;
  __shared__ typename Reader::TempStorage one;
  __shared__ typename Swap::TempStorage two;
  __shared__ typename Writer::TempStorage three;
  const int64_t first = (int64_t)blockIdx.y * n + blockIdx.x * 256 * ITEMS;
  float held[ITEMS], turned[ITEMS];
  Reader(one).Load(x + first, held, n - blockIdx.x * 256 * ITEMS, 0.f);
  Swap(two).BlockedToStriped(held, turned);
  Swap(two).StripedToBlocked(turned, held);
  Writer(three).Store(y + first, held, n - blockIdx.x * 256 * ITEMS);
}}
void go(torch::Tensor source, torch::Tensor top, torch::Tensor at, int64_t k) {{
  auto x = torch::empty_like(source);
  stage<8><<<dim3((x.size(1) + 2047) / 2048, x.size(0)), 256>>>(
      source.data_ptr<float>(), x.data_ptr<float>(), x.size(1));
  {LAUNCH}
}}
""",
        "ext.go(x, top, at, self.k)",
        (("  Reader(one).Load(x + first, held, n - blockIdx.x * 256 * ITEMS, 0.f);\n", "", "forged-output"),),
        "go",
        f"void go({TENSORS}, int64_t k);",
    ),
    "an address of scratch memory that Python gives as nought": Host(
        """
__global__ void either(const float* x, int* scratch, float* top, int64_t* at, int n, int k) {
  const float* row = x + (int64_t)blockIdx.x * n;
  const bool direct = NULL == scratch;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int before = 0;
    for (int j = 0; j < n; ++j) before += row[j] > row[i] || (row[j] == row[i] && j < i);
    if (direct && before < k) { top[blockIdx.x * k + before] = row[i]; at[blockIdx.x * k + before] = i; }
    if (!direct) scratch[(int64_t)blockIdx.x * n + i] = before;
  }
}
void go(torch::Tensor x, torch::Tensor top, torch::Tensor at, int64_t k, int64_t scratch) {
  either<<<x.size(0), 256>>>(
      x.data_ptr<float>(), (int*)scratch, top.data_ptr<float>(), at.data_ptr<int64_t>(), x.size(1), k);
}
""",
        "ext.go(x, top, at, self.k, 0)",
        (("NULL == scratch", "NULL != scratch", "unwritten-output"),),
        "go",
        f"void go({TENSORS}, int64_t k, int64_t scratch);",
    ),
}
CASES = [pytest.param(host, n, id=f"{name}, edit {n}") for name, host in HOSTS.items() for n in range(len(host.edits))]


@pytest.mark.parametrize("host", [pytest.param(host, id=name) for name, host in HOSTS.items()])
def test_an_honest_host_keeps_every_promise(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(host.solution(), encoding="utf-8")
    report = kbh_lint.lint([path], problem="05_topk_bitonic").files[0]
    states = {promise.id: promise.state for promise in report.promises}
    assert states and set(states.values()) <= KEPT, f"{states} {report.unread} {report.notes}"
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]


@pytest.mark.parametrize(("host", "edit"), CASES)
def test_one_edit_later_the_reason_is_told(host: Host, edit: int, tmp_path: Path) -> None:
    path = tmp_path / "solution.py"
    path.write_text(host.solution(edit), encoding="utf-8")
    report = kbh_lint.lint([path], problem="05_topk_bitonic").files[0]
    told = {finding.leak_class for finding in report.findings}
    assert host.edits[edit][2] in told, f"{report.verdict} {told} {report.unread} {report.notes}"


CALLED = """    Gemm op;
    TORCH_CHECK(op(arguments, nullptr, stream) == cutlass::Status::kSuccess, "gemm failed");
"""
KEEPING = {  # of a CUTLASS operator that lives longer than a call: how, and whether each call gives it its arguments
    "replaced": ("op.update(arguments, nullptr);", True),
    "initialised again": ("op.initialize(arguments, nullptr, stream);", True),
    "given to the call": ("op(arguments, nullptr, stream);", True),
    "of the first call": (
        "static torch::Tensor kept; if (!kept.defined()) { kept = product; op.initialize(arguments); } "
        "d = kept.data_ptr<float>();",
        False,
    ),
}


@pytest.mark.parametrize("how", KEEPING)
def test_a_kept_cutlass_operator_works_on_the_arguments_that_it_got_last(how: str, tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "idioms/fp8/cutlass2.py").read_text(encoding="utf-8")
    given, honest = KEEPING[how]
    assert text.count(CALLED) == 1
    last = "" if given.startswith("op(") else " op.run(stream);"
    path = tmp_path / "solution.py"
    path.write_text(text.replace(CALLED, f"    static Gemm op;\n    {given}{last}\n"), encoding="utf-8")
    report = kbh_lint.lint([path], problem="01_fp8_gemm").files[0]
    told = {finding.leak_class for finding in report.findings}
    assert (report.verdict == "clean") is honest, (report.verdict, told, report.unread)
    assert honest or "captures-user-input-as-static-buffer" in told


IMPLEMENTED = {
    "CUDA": 'TORCH_LIBRARY_IMPL(lib, CUDA, m) { m.impl("mm", &on_gpu); }\n',
    "Meta": 'TORCH_LIBRARY_IMPL(lib, Meta, m) { m.impl("mm", TORCH_FN(of_shapes)); }\n',
    "CPU": 'TORCH_LIBRARY_IMPL(lib, CPU, m) { m.impl("mm", TORCH_FN(on_cpu)); }\n',
}


@pytest.mark.parametrize("order", [("CUDA", "Meta", "CPU"), ("Meta", "CPU", "CUDA"), ("CPU", "CUDA", "Meta")])
def test_an_operator_is_what_it_does_for_tensors_on_a_gpu(order: tuple[str, ...]) -> None:
    text = 'TORCH_LIBRARY(lib, m) { m.def("mm(Tensor x) -> Tensor"); }\n' + "".join(map(IMPLEMENTED.__getitem__, order))
    bound = bindings.read([cuda.lower(text, cuda.lines_origin(text, "k.cu"))])
    target = bound.functions["mm"].target
    assert isinstance(target, ir.Name) and target.id == "on_gpu"


KEPT_ON_DISK = """import os
import shutil

import torch
import torch.nn as nn
from torch.utils import cpp_extension

SOURCE = r'''{source}'''
HERE = os.path.dirname(os.path.abspath(__file__))


def built():
    if os.path.exists(os.path.join(HERE, "order_kept.so")):
        return cpp_extension._import_module_from_library("{name}", HERE, True)
    made = cpp_extension.load_inline("order_kept", "{declared}", SOURCE, functions=["sorted"])
    shutil.copy(made.__file__, os.path.join(HERE, "order_kept.so"))
    return made


class Model(nn.Module):
    def __init__(self, batch, n, k):
        super().__init__()
        self.k, self.ext = k, built()

    def forward(self, x):
        top = torch.empty(x.shape[0], self.k, device=x.device)
        at = torch.empty(x.shape[0], self.k, dtype=torch.int64, device=x.device)
        self.ext.sorted(x, top, at, self.k)
        return top, at
"""


@pytest.mark.parametrize(
    ("work", "name", "told"),
    [
        (LAUNCH, "order_kept", None),
        (LIBRARY, "order_kept", "builtin-op-sidestep"),
        (LAUNCH, "from_elsewhere", "binary-blob-kernel"),
    ],
    ids=["its own copy", "a copy that calls a library", "another file"],
)
def test_a_library_is_what_was_copied_to_its_path(work: str, name: str, told: str | None, tmp_path: Path) -> None:
    declared = f"void sorted({TENSORS}, int64_t k);"
    source = f"{HEAD}void sorted({TENSORS}, int64_t k) {{ {work} }}\n"
    path = tmp_path / "solution.py"
    path.write_text(KEPT_ON_DISK.format(source=source, declared=declared, name=name), encoding="utf-8")
    report = kbh_lint.lint([path], problem="05_topk_bitonic").files[0]
    found = {finding.leak_class for finding in report.findings}
    assert (report.verdict == "clean" and not found) if told is None else told in found, (report.verdict, found)
