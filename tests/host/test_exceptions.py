"""Exceptions of the submission: those that start inside a built-in function, and operations that always fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, GRID, HEAD, KERNEL, LEAK, TILES, classes, model, states
from host_support import lint as of_text
from linted import report_of

from kbh_lint.findings import FileReport

SOURCE = """
import torch
import torch.nn as nn


def rank(size):
    if size == 3:
        raise ValueError("not this one")
    return size


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(N, K, dtype=torch.bfloat16))

    def forward(self, x):
        try:
            CALL
        except ValueError:
            return x.to(torch.bfloat16) @ self.weight.t()
        return x
"""


@pytest.mark.parametrize("call", ["max([1, 2, 3], key=rank)", "sorted([1, 2, 3], key=rank)", "[3, 1].sort(key=rank)"])
def test_an_exception_of_a_key_function_reaches_its_handler(call: str, tmp_path: Path) -> None:
    file = report_of(tmp_path, SOURCE.replace("CALL", call), "01_fp8_gemm")
    assert "fp8-upcast-bf16-gemm" in {finding.leak_class for finding in file.findings}


# What stands before the class, and what always raises an exception that the handler takes.
RAISING = {
    "an attribute that a number has not": ("", "(5).foo", "AttributeError"),
    "an attribute of None": ("", "None.foo", "AttributeError"),
    "an argument too few": ("def f(a, b): return a\n", "f(1)", "TypeError"),
    "an argument too many": ("def f(a, *, b=1): return a\n", "f(1, 2)", "TypeError"),
    "a name that is none of its parameters": ("def f(a): return a\n", "f(1, b=2)", "TypeError"),
    "an argument to a class that takes none": ("class C: pass\n", "C(1)", "TypeError"),
    "a method without its argument": ("class C:\n    def m(self, a): pass\n", "C().m()", "TypeError"),
    "a root that is not real": ("import math\n", "math.sqrt(-1)", "ValueError"),
    "a call of a number": ("", "(5)(1)", "TypeError"),
    "the items of a number": ("", "list(5)", "TypeError"),
    "the length of a number": ("", "len(5)", "TypeError"),
    "an item of a tuple": ("", "(1, 2)[0] = 3", "TypeError"),
    "a name that nothing defines": ("", "nowhere", "NameError"),
    "a text that is no JSON": ("import json\n", "json.loads('{')", "ValueError"),
    "digits that are none": ("", "bytes.fromhex('zz')", "ValueError"),
    "pairs of unequal lists": ("", "list(zip([1], [1, 2], strict=True))", "ValueError"),
    "a field of a frozen object": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    a: int\n",
        "C(1).a = 2", "dataclasses.FrozenInstanceError",
    ),
    "a call without end": ("def f(): return f()\n", "f()", "RecursionError"),
    "a file that is not there": ("", "open('/none/such')", "OSError"),
}  # fmt: skip
NOT_RAISING = {
    "arguments by star": ("def f(a, b=1, *, c): return a\n", "f(*[1, 2], **{'c': 3})", "TypeError"),
    "arguments by name": ("def f(a, /, b, **more): return a\n", "f(1, b=2, c=3)", "TypeError"),
    "a class of a library": ("class C(dict): pass\n", "C([(1, 2)])", "TypeError"),
    "a method of a text": ("", "'a'.encode().decode().upper().value", "KeyError"),
    "object.__setattr__": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass C:\n    a: int\n",
        "object.__setattr__(C(1), 'a', 2)", "AttributeError",
    ),
}  # fmt: skip
BODY = "try:\n    {}\nexcept {}:\n    {}y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)\n"


def tried(folder: Path, before: str, statement: str, caught: str) -> FileReport:
    body = BODY.format(statement, caught, LEAK) + f"gemm[{GRID}]({ARGUMENTS}, {TILES})\nreturn y\n"
    return of_text(folder, HEAD + before + KERNEL + model(body))


@pytest.mark.parametrize("what", RAISING)
def test_the_handler_of_what_always_raises_is_looked_at(what: str, tmp_path: Path) -> None:
    report = tried(tmp_path, *RAISING[what])
    assert set(states(report).values()) != {"kept"}, states(report)


@pytest.mark.parametrize("what", NOT_RAISING)
def test_a_handler_that_nothing_reaches_decides_nothing(what: str, tmp_path: Path) -> None:
    report = tried(tmp_path, *NOT_RAISING[what])
    assert not classes(report), classes(report)
    assert set(states(report).values()) == {"kept"}, states(report)
