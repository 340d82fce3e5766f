"""A fact of C++ is the same wherever C++ is interpreted: on the host, in kernels, on numbers, for ends of stores."""

from __future__ import annotations

import pytest
from cpp_facts import ROWS, Row

from kbh_lint.base import ir, values
from kbh_lint.base.values import Buffer
from kbh_lint.frontends import cuda, python
from kbh_lint.host.run import Run
from kbh_lint.host.values.session import Session
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.extents.stores import store_extents
from kbh_lint.kernels.numeric.compensation import evaluate

HEAD = "#include <torch/extension.h>\n#include <type_traits>\n"
# Which of two branches runs tells the answer; `YES` and `NO` are what they do.
KERNEL = """
__global__ void kernel(float* yes_, float* no_) {
  CODE
  if (r == ANSWER) { YES } else { NO }
}
"""
SUM = """
__global__ void kernel(const float* x_, float* y_, int n_) {
  float top_ = -INFINITY, s_ = 0.f, c_ = 0.f;
  for (int i_ = threadIdx.x; i_ < n_; i_ += blockDim.x) top_ = fmaxf(top_, x_[i_]);
  CODE
  for (int i_ = threadIdx.x; i_ < n_; i_ += blockDim.x) {
    float e_ = __expf(x_[i_] - top_);
    if (r == ANSWER) { YES } else { NO }
  }
  y_[threadIdx.x] = s_ - c_;
}
"""
ENDS = """
__global__ void kernel(float* y_, int n_) {
  CODE
  int i_ = blockIdx.x * blockDim.x + threadIdx.x;
  if (i_ < n_ - r) y_[i_] = 1.f;
}
"""
CAREFUL = "float v_ = e_ - c_, t_ = s_ + v_; c_ = (t_ - s_) - v_; s_ = t_;"
PLAIN = "s_ += e_;"
COUNT = 4096


def lowered(text: str, row: Row) -> tuple[values.Env, ir.Module]:
    text = HEAD + row.file + "\n" + text.replace("CODE", row.code).replace("ANSWER", str(row.r))
    text = text.replace("D ", "__host__ __device__ ").replace("struct __host__ __device__ ", "struct D ")
    module = cuda.lower(text, cuda.lines_origin(text, "facts.cu"))
    assert module.unread == [], module.unread
    return cuda.module_env(module), module


def function(text: str, row: Row, name: str = "kernel") -> values.Func:
    env, _ = lowered(text, row)
    func: values.Func = env.vars[name].funcs[-1]
    return func


def host(row: Row) -> str:
    func = function("int answer() { CODE return r; }", row, "answer")
    runner = Run(Session(python.lower("", "x.py"), {}, None, raise_errors=True), {})
    value = runner.cpp.call(func, [], None)
    if runner.trace.unread:
        return f"unknown: {runner.trace.unread}"
    if isinstance(value, bool | int):
        return "right" if value == row.r else f"wrong: {value}"
    return f"unknown: {value!r} {getattr(value, 'why', '')}"


def abstract(row: Row) -> str:
    func = function(KERNEL.replace("YES", "yes_[0] = 1.f;").replace("NO", "no_[0] = 1.f;"), row)
    args = {name: Buffer("f32", i, "f32") for i, name in enumerate(("yes_", "no_"))}
    found = analyze(func, args)
    stored = {store.param for store in found.stores}
    if found.unread:
        return f"unknown: {found.unread}"
    return {"yes_": "right", "no_": "wrong"}.get("".join(stored), f"unknown: {sorted(stored)}")


def numeric(row: Row) -> str:
    args = {"x_": Buffer("f32", 0, "f32"), "y_": Buffer("f32", 1, "f32"), "n_": 32768}
    states: list[str] = []
    for yes, no in ((CAREFUL, PLAIN), (PLAIN, CAREFUL)):
        func = function(SUM.replace("YES", yes).replace("NO", no), row)
        found = evaluate(func, args, block=(256, 1, 1))
        states.append("unknown" if found.unread else found.state)
    return {("effective", "absent"): "right", ("absent", "effective"): "wrong"}.get(tuple(states), f"unknown: {states}")


def extents(row: Row) -> str:
    func = function(ENDS, row)
    found = store_extents(func, {"y_": Buffer("f32", 0, "f32"), "n_": COUNT}, (COUNT // 256, 1, 1), (256, 1, 1))
    ends, right = sorted(set(found.ends.values())), min(COUNT - row.r, COUNT)
    if not ends or ends[0] > right:  # further than they reach is said where the number is not known
        return f"unknown: {ends}"
    return "right" if ends == [right] else f"wrong: {ends}"


DOMAINS = {"host": host, "abstract": abstract, "numeric": numeric, "extents": extents}
CASES = [
    pytest.param(row, name, id=f"{row.name}-{name}", marks=[pytest.mark.xfail(strict=True)] if name in row.gap else [])
    for row in ROWS
    for name in row.only
]


@pytest.mark.share(6)
@pytest.mark.parametrize(("row", "domain"), CASES)
def test_a_fact_of_cpp_is_told_as_it_is(row: Row, domain: str) -> None:
    said = DOMAINS[domain](row)
    if domain in row.unknown or domain == "extents":  # of the ends of stores, what is further is not wrong
        assert not said.startswith("wrong"), said
    else:
        assert said == "right"


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) == len(set(names))
