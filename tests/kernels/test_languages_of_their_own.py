"""What a kernel may call are the operations of its own language; those of another are not read, in no language."""

from __future__ import annotations

import pytest

from kbh_lint import registry
from kbh_lint.base import ir, values
from kbh_lint.frontends import python
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import KernelFacts

BUFFER = values.Buffer("f32", 1, "f32")
MARKS = {"triton": "", "cute": "cute.kernel", "tilelang": "tilelang"}
OWN = {"triton": "triton.language.load", "cute": "cutlass.cute.basic_copy", "tilelang": "tilelang.language.copy"}
OTHERS = [
    ("triton", "cutlass.cute.basic_copy"),
    ("triton", "tilelang.language.copy"),
    ("cute", "triton.language.load"),
    ("cute", "tilelang.language.copy"),
    ("tilelang", "triton.language.load"),
    ("tilelang", "cutlass.cute.basic_copy"),
]


def called(language: str, path: str) -> KernelFacts:
    """What is found of a kernel that calls `path` with two buffers."""
    module, _, name = path.rpartition(".")
    body = python.lower(f"def kernel(x, y):\n    other.{name}(x, y)\n", "kernel.py").body
    (node,) = (statement for statement in body if isinstance(statement, ir.FuncDef))
    func = values.Func(node, values.Env({"other": values.Sym(module)}), language=MARKS[language])
    return analyze(func, {"x": BUFFER, "y": BUFFER})


@pytest.mark.parametrize("language", OWN)
def test_an_operation_of_the_kernels_language_is_read(language: str) -> None:
    facts = called(language, OWN[language])
    assert (facts.unread, {load.param for load in facts.loads}) == ([], {"x"})


@pytest.mark.parametrize(("language", "path"), OTHERS)
def test_an_operation_of_another_language_is_not_read(language: str, path: str) -> None:
    facts = called(language, path)
    assert [reason for reason, _ in facts.unread] == [f"a call of {path}"]
    assert facts.stores == []


@pytest.mark.parametrize("language", OWN)
def test_what_an_operation_does_to_numbers_is_known_of_the_language_alone(language: str) -> None:
    dialect = registry.of_kernel(MARKS[language]).dialect
    assert {path for path in OWN.values() if dialect.builtin(path) is not None} == {OWN[language]}
    assert dialect.builtin("math.exp") is not None


def test_a_tilelang_value_has_no_methods_of_cutes() -> None:
    body = python.lower("def kernel(x, y):\n    y.store(x.load())\n", "kernel.py").body
    (node,) = (statement for statement in body if isinstance(statement, ir.FuncDef))
    arguments = {"x": BUFFER, "y": BUFFER}
    facts = {mark: analyze(values.Func(node, values.Env(), language=mark), arguments) for mark in MARKS.values()}
    assert facts["cute.kernel"].unread == [] and [s.param for s in facts["cute.kernel"].stores] == ["y"]
    assert facts["tilelang"].unread and facts["tilelang"].stores == []
