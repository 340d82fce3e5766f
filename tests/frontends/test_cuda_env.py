"""The names that C++ text defines."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.base import ir, values
from kbh_lint.frontends import cuda


def scope(text: str) -> dict[str, Any]:
    return cuda.module_env(cuda.lower(text, cuda.lines_origin(text, "k.cu"))).vars


def test_functions_are_overloads_in_order_under_plain_and_qualified_names() -> None:
    names = scope("namespace a { namespace b { void f(int); void f(float) {} template <> void f<3>(int) {} } }")
    assert names["f"] is not names.get("missing") and isinstance(names["f"], values.Overloads)
    assert [func.node.body is None for func in names["a::b::f"].funcs] == [True, False, False]
    assert [func.node for func in names["f"].funcs] == [func.node for func in names["a::b::f"].funcs]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("constexpr int A = 4;", "A", 4),
        ("static const int A = 4; constexpr int B = A * 2 + (A > 3 ? 1 : 0);", "B", 9),
        ("namespace n { constexpr int A = 1 << 4; constexpr int B = A / 3; }", "n::B", 5),
        ("constexpr int A = sizeof(float) * 8;", "A", 32),
        ("constexpr size_t A{16};", "A", 16),
        ("constexpr float A = 1.5f;", "A", 1.5),
        ("constexpr bool A = 1 < 2 && !(3 == 4);", "A", True),
        ("constexpr int A = static_cast<int>(7.5);", "A", 7),
        ("constexpr int A = std::max(3, 5) % 4;", "A", 1),
        ("#define N 64\nconstexpr int A = N - 1;", "A", 63),
        ("enum Mode { X, Y = 5, Z };", "Z", 6),
        ("enum class Mode : int { X, Y };", "Mode::Y", 1),
        ("struct S { static constexpr int K = 3; static constexpr int L = K + 1; };", "S::L", 4),
        ("constexpr int A = -7 / 2;", "A", -3),
    ],
)
def test_simple_constants_are_folded(text: str, name: str, value: object) -> None:
    assert scope(text)[name] == value


def test_what_is_not_simple_stays_a_declaration() -> None:
    names = scope("constexpr int A = f(3); __device__ int counter; __constant__ float table[4]; int n = 3;")
    assert all(isinstance(names[name], ir.Decl) for name in ("A", "counter", "table", "n"))
    assert names["table"].storage == {"__constant__"}


def test_types_are_known_by_name_and_specialisations_do_not_replace_them() -> None:
    names = scope("template <class T> struct Tr { int a; }; template <> struct Tr<float> { int b; }; using V = float4;")
    assert isinstance(names["Tr"], values.CppType) and not names["Tr"].node.specialization
    assert isinstance(names["V"].node, ir.Using)


def test_of_a_class_only_plain_numbers_are_in_the_scope_of_the_file() -> None:
    names = scope("struct S { static void run() {} static constexpr int n = 4; struct T {}; }; void S::other() {}")
    assert names["S::n"] == 4 and not names.keys() & {"S::run", "S::T", "run", "T", "n"}
    assert isinstance(names["S::other"], values.Overloads)


def test_a_method_of_a_nested_class_is_defined_outside() -> None:
    names = scope("struct S { struct T { int f(); }; }; int S::T::f() { return 1; }")
    (inner,) = names["S"].node.body
    assert inner.body[0].body is not None


@pytest.mark.parametrize("value", ["(int)1e999", "(float)" + "9" * 390, "1.0f + " + "9" * 390, "(int)(1e999 - 1e999)"])
def test_a_constant_that_no_number_holds_stays_a_declaration(value: str) -> None:
    assert isinstance(scope(f"constexpr double A = {value};")["A"], ir.Decl)
