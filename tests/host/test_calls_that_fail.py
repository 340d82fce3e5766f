"""Calls that Python refuses: with other arguments than a function takes, and of modules that torch never began."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import HEAD, KERNEL, WORK, lint, model

FORWARD, BEGIN = "    def forward(self, x):", "super().__init__()"
MAKER = """\
    def make(self, rows, columns, *, kind=torch.bfloat16):
        return torch.empty((rows, columns), dtype=kind)

"""
LAUNCH = WORK.partition("\n")[2] + "return y\n"
TWICE = """\
def twice(work):
    def made(self, size, **more):
        return work(self, size, size, **more)
    return made


class Model(nn.Module):"""


def text(call: str, maker: str = MAKER) -> str:
    made = HEAD + KERNEL + model(f"y = {call}\n" + LAUNCH)
    assert FORWARD in made
    return made.replace(FORWARD, maker + FORWARD)


def rules_of(tmp_path: Path, program: str) -> set[str]:
    return {finding.rule for finding in lint(tmp_path, program).findings}


@pytest.mark.parametrize("call, fails", [
    ("self.make(M, N)", False),
    ("self.make(M, columns=N)", False),
    ("self.make(*(M, N))", False),
    ("self.make(*(M,), **{'columns': N})", False),
    ("self.make(M, N, kind=torch.bfloat16)", False),
    ("Model.make(self, M, N)", False),
    ("(lambda rows, columns=N: self.make(rows, columns))(M)", False),
    ("self.make(M)", True),
    ("self.make(M, N, torch.bfloat16)", True),
    ("self.make(M, N, shape=M)", True),
    ("Model.make(M, N)", True),
    ("(lambda rows, columns: self.make(rows, columns))(M)", True),
])  # fmt: skip
def test_arguments_fit(tmp_path: Path, call: str, fails: bool) -> None:
    assert ("KBH710" in rules_of(tmp_path, text(call))) == fails


def test_a_handler_catches_it(tmp_path: Path) -> None:
    body = "try:\n    y = self.make(M)\nexcept TypeError:\n    y = torch.empty((M, N), dtype=torch.bfloat16)\n"
    made = HEAD + KERNEL + model(body + LAUNCH)
    assert "KBH710" not in rules_of(tmp_path, made.replace(FORWARD, MAKER + FORWARD))


def test_decorators_change_what_is_taken(tmp_path: Path) -> None:
    program = text("self.make(M)", "    @twice\n" + MAKER).replace("class Model(nn.Module):", TWICE)
    assert "KBH710" not in rules_of(tmp_path, program)


BASE = "class Base(nn.Module):\n    def __init__(self):\n        INIT\n\n\nclass Model(Base):"


@pytest.mark.parametrize("begin, base, fails", [
    ("super(Model, self).__init__()", "", False),
    ("nn.Module.__init__(self)", "", False),
    ("getattr(super(), '__init__')()", "", False),
    (BEGIN, BASE.replace("INIT", BEGIN), False),
    ("pass", "", True),
    (BEGIN, BASE.replace("INIT", "self.size = 3"), False),  # which is not followed through the bases
    ("pass", BASE.replace("INIT", "self.size = 3"), True),
])  # fmt: skip
def test_a_module_is_begun(tmp_path: Path, begin: str, base: str, fails: bool) -> None:
    program = HEAD + KERNEL + model(WORK + "return y\n")
    assert BEGIN in program
    program = program.replace(BEGIN, begin).replace("class Model(nn.Module):", base or "class Model(nn.Module):")
    assert ("KBH710" in rules_of(tmp_path, program)) == fails
