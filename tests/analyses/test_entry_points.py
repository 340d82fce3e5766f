"""Files of a deck without a contract: their entry points are called with arguments made from signatures."""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

from kbh_lint import lint
from kbh_lint.base import ir
from kbh_lint.frontends.python import lower
from kbh_lint.host.explore.parameters import parameters

HEAD = """\
import dataclasses
import functools
import weakref
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n, other=0.0) + tl.load(y + at, mask=at < n, other=0.0), mask=at < n)


@triton.jit
def product(x, w, out, NARROW: tl.constexpr, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    a = tl.load(x + rows[:, None] * BLOCK + cols[None, :])
    b = tl.load(w + rows[:, None] * BLOCK + cols[None, :])
    if NARROW:
        out_tile = tl.dot(a.to(tl.float16), b.to(tl.float16))
    else:
        out_tile = tl.dot(a, b, input_precision="ieee")
    tl.store(out + rows[:, None] * BLOCK + cols[None, :], out_tile)


def _sum(x, y):
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


def _multiply(x, w, narrow):
    out = torch.empty_like(x)
    product[(1,)](x, w, out, NARROW=narrow, BLOCK=32)
    return out


"""

CACHE = "_KEPT = {}\n\n\n"

LEAKS = {
    "a sum of a list found again by the id of the list": (
        "identity-keyed-input-cache",
        CACHE
        + """
def gather(parts: list[torch.Tensor], x: torch.Tensor):
    if id(parts) not in _KEPT:
        _KEPT[id(parts)] = parts[0] + parts[1]
    return _sum(_KEPT[id(parts)], x)
""",
    ),
    "a dict's tensor found again by the id of the dict, in a method": (
        "identity-keyed-input-cache",
        """
class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.width, self.seen = config.width, [None, None]

    def advance(self, token, cache):
        if self.seen[0] != id(cache):
            self.seen = [id(cache), cache["keys"] * 2]
        return _sum(token, self.seen[1])
""",
    ),
    "a field of the caller's state found again by the state itself": (
        "identity-keyed-input-cache",
        CACHE
        + """
@dataclasses.dataclass(eq=False)
class State:
    rows: torch.Tensor
    length: int = 0


def step(x: torch.Tensor, state: State):
    if state not in _KEPT:
        _KEPT[state] = state.rows.clone()
    return _sum(x, _KEPT[state])
""",
    ),
    "a result found again by the shape alone": (
        "output-memoization",
        CACHE
        + """
def run(x):
    key = tuple(x.shape)
    if key not in _KEPT:
        _KEPT[key] = _sum(x, x)
    return _KEPT[key]
""",
    ),
    "the submission's own state in place of the caller's list": (
        "ignored-state-arguments",
        """
class Model(nn.Module):
    def prefill(self, count: int):
        self.layers = [torch.zeros(count, 32, device="cuda"), torch.zeros(count, 32, device="cuda")]
        return list(self.layers)

    def decode(self, x, layers: list[torch.Tensor]):
        for layer in self.layers:
            x = _sum(x, layer)
        return x, self.layers
""",
    ),
    "fp16 products for tensors of many rows": (
        "precision-split-checked-vs-timed",
        "def run(x, w):\n    return _multiply(x, w, x.shape[0] >= 2048)\n",
    ),
    "fp16 products in the function that takes a number of steps": (
        "precision-split-checked-vs-timed",
        """
def forward_once(x, w):
    return _multiply(x, w, False)


def rollout(x, w, steps: int):
    for _ in range(steps):
        x = _multiply(x, w, True)
    return x
""",
    ),
    "tf32 inside a context of one function": (
        "precision-split-checked-vs-timed",
        """
def score(x, w):
    return torch.matmul(x, w)


def simulate(w, count, steps):
    x = torch.ones(count, 32, device="cuda")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    for _ in range(steps):
        x = torch.matmul(x, w)
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    return {"x": x}
""",
    ),
}

HONEST = {
    "the list is summed on each call": "def gather(parts: list[torch.Tensor], x: torch.Tensor):\n"
    "    return _sum(parts[0] + parts[1], x)\n",
    "a cache that grows by each token": """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.total = torch.zeros(width, device="cuda")

    def step(self, token):
        self.total = _sum(token, self.total)
        return self.total
""",
    "state goes in and comes out": """
class Model(nn.Module):
    def start(self, count):
        return {"keys": torch.zeros(count, 32, device="cuda")}

    def step(self, token, state):
        state["keys"] = _sum(state["keys"], token)
        return state["keys"], state
""",
    "a state that is read before this call's token is added to it": """
def step(token: torch.Tensor, state: torch.Tensor):
    out = state * 2
    state += token
    return out
""",
    "a workspace by shape, written on each call": CACHE
    + """
def run(x, y):
    key = (tuple(x.shape), x.dtype)
    if key not in _KEPT:
        _KEPT[key] = torch.empty_like(x)
    out = _KEPT[key]
    add[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out
""",
    "a mask that is not used beside a table of its own": """
class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.table = torch.arange(width, device="cuda").cos()

    def forward(self, x, mask):
        return _sum(x, self.table)
""",
    "the model keeps what it was given and returns something else": """
class Model(nn.Module):
    def prefill(self, prompt):
        self.keys = prompt * 2
        return prompt.sum()

    def decode(self, token, mask):
        return _sum(token, self.keys)
""",
    "fp16 products at every size": "def run(x, w):\n    return _multiply(x, w, x.shape[0] >= 0)\n",
    "one precision, as the caller says": "def run(x, w, narrow: bool = False):\n    return _multiply(x, w, narrow)\n",
    "a reference beside the kernel": """
def reference(x, w):
    return x.float() @ w.float()


def run(x, w):
    return _multiply(x, w, True)
""",
    "tf32 for the whole process": """
torch.backends.cuda.matmul.allow_tf32 = True


def score(x, w):
    return torch.matmul(x, w)


def simulate(x, w, steps):
    for _ in range(steps):
        x = torch.matmul(x, w)
    return x
""",
    "a benchmark that sets tf32 for what it compares with": """
def run(x, w):
    return _multiply(x, w, True)


def bench(x, w):
    torch.set_float32_matmul_precision("high")
    other = x @ w
    return torch.allclose(run(x, w), other)
""",
    "a helper that is given what it does not look at": CACHE
    + """
def plan(count: int, device="cuda"):
    if count not in _KEPT:
        _KEPT[count] = torch.arange(count, device=device)
    return _KEPT[count]


def run(x, scratch):
    return _sum(x, plan(128))
""",
    "sizes choose tiles": """
def run(x, y):
    out = torch.empty_like(x)
    block = 128 if x.shape[0] < 4096 else 512
    add[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK=block)
    return out
""",
}


def flags(code: str, folder: Path) -> list[tuple[str, str]]:
    path = folder / "answer.py"
    path.write_text(HEAD + code)
    report = lint([path], raise_errors=True).files[0]
    assert report.verdict == "unproven" or report.findings
    shown = (HEAD + code).splitlines()
    assert all(shown[f.span.line - 1].strip() for f in report.findings)
    return [(f.leak_class, f.verdict) for f in report.findings if f.verdict in ("rubric_leak", "reward_hack", "bug")]


@pytest.mark.parametrize("case", LEAKS)
def test_a_leak_behind_an_entry_point_is_told_without_a_contract(case: str, tmp_path: Path) -> None:
    leak_class, code = LEAKS[case]
    assert leak_class in [known for known, _ in flags(code, tmp_path)]


def test_classes_of_tensors_are_tensors_and_methods_of_unknown_classes_are_not() -> None:
    module = lower(
        "def invert(chosen: torch.LongTensor | None, kept: 'torch.BoolTensor', w: nn.Parameter, plan: Plan, n: int):\n"
        "    return chosen.new_zeros(plan.shape[0]), plan.weights, plan.made(n), kept, w\n"
    )
    invert = next(node for node in module.body if isinstance(node, ir.FuncDef))
    found = {one.name: one for one in parameters(invert, {}, method=False)}
    assert {name: (one.kind, one.dtype) for name, one in found.items() if one.kind == "tensor"} == {
        "chosen": ("tensor", "i64"), "kept": ("tensor", "bool"), "w": ("tensor", "f32"),
    }  # fmt: skip
    assert (found["plan"].kind, found["plan"].cls) == ("object", "Plan")
    assert found["plan"].attrs == {"shape", "weights", "made"} and found["plan"].methods == {"made"}


@pytest.mark.parametrize("case", HONEST)
def test_an_honest_entry_point_is_unproven_and_nothing_more(case: str, tmp_path: Path) -> None:
    assert flags(HONEST[case], tmp_path) == []


WRAPPED = """
def timed(work):
    @functools.wraps(work)
    def run(*args, **kwargs):
        return work(*args, **kwargs)

    return run
"""
DECODER = """
class DECODER(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.held = {}

    MARK
    def advance(self, token, cache):
        WORK
        return _sum(token, rows)
"""
BY_ID = "rows = self.held.setdefault(id(cache), cache['keys'] * 2)"
EACH_TIME = "rows = cache['keys'] * 2"


@pytest.mark.parametrize(("work", "found"), [(BY_ID, True), (EACH_TIME, False)])
@pytest.mark.parametrize("how", ["a decorator", "a base"])
def test_entry_points_behind_a_decorator_or_in_a_base_are_called(
    how: str, work: str, found: bool, tmp_path: Path
) -> None:
    decorated = how == "a decorator"
    code = DECODER.replace("MARK", "@timed" if decorated else "").replace("WORK", work)
    code = code.replace("DECODER", "Decoder" if decorated else "_Base")
    code = WRAPPED + code if decorated else code + "\n\nclass Decoder(_Base):\n    pass\n"
    assert ("identity-keyed-input-cache" in [known for known, _ in flags(code, tmp_path)]) is found


@pytest.mark.parametrize(("work", "found"), [(BY_ID, True), (EACH_TIME, False)])
@pytest.mark.parametrize("how", ["beside", "named"])
def test_entry_points_of_a_file_beside_and_of_a_name_that_others_bind(
    how: str, work: str, found: bool, tmp_path: Path
) -> None:
    code = DECODER.replace("MARK", "").replace("WORK", work).replace("DECODER", "Decoder")
    if how == "beside":
        (tmp_path / "parts.py").write_text(HEAD + code, encoding="utf-8")
        report = report_of(tmp_path, "from parts import Decoder\n")
        assert ("identity-keyed-input-cache" in [one.leak_class for one in report.findings]) is found, report
        return
    code += "\n\ndef _others(x):\n    for advance in range(2):\n        x = x + advance\n    return x\n"
    assert ("identity-keyed-input-cache" in [known for known, _ in flags(code, tmp_path)]) is found


@pytest.mark.parametrize("known", [True, False])
def test_names_that_are_made_at_module_level(known: bool, tmp_path: Path) -> None:
    """`globals()[name] = ...`: a name that nobody knows may be any, so that what the file's others mean is open."""
    names = '("relu", "exp")' if known else 'importlib.import_module("some_backend").names()'
    text = f"""import importlib
import torch
for _name in {names}:
    globals()[_name] = getattr(torch, _name)


class Model(torch.nn.Module):
    def __init__(self, batch, vocab):
        super().__init__()

    def forward(self, x):
        return exp(x)
"""
    path = tmp_path / "solution.py"
    path.write_text(text, encoding="utf-8")
    for problem in (None, "04_kahan_softmax"):
        report = lint([path], problem=problem, raise_errors=True).files[0]
        if problem:
            assert (report.verdict == "unproven") is not known, report.findings
