"""What names of C++ host code mean: aliases, templates and their specialisations, members of classes."""

from __future__ import annotations

import pytest

from kbh_lint.base import ir
from kbh_lint.base.values import Env
from kbh_lint.frontends import python
from kbh_lint.host.cpp import arguments, construction, types
from kbh_lint.host.cpp.interpreter import Cpp
from kbh_lint.host.cpp.texts import build_env
from kbh_lint.host.run import Run
from kbh_lint.host.values.cpp_objects import Dim3, TensorOptions
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.session import Session

TEXT = """
using Half = __half;
template <typename T> using Same = T;
template <typename T> struct Traits { using Type = float; static constexpr int lanes = 4; };
template <> struct Traits<__half> { using Type = __half2; static constexpr int lanes = 2; };
struct Shape { int rows = 3; int columns; };
using Wide = std::conditional_t<true, double, float>;
"""


@pytest.fixture
def cpp() -> tuple[Cpp, Env]:
    run = Run(Session(python.lower("", "solution.py"), {}, (9, 0)), {})
    env, _ = build_env(run, [TEXT], [], 90)
    return run.cpp, env


def ref(name: str, *args: str, member: tuple[str, ...] = ()) -> ir.TypeRef:
    return ir.TypeRef(name, tuple(ir.TypeRef(arg, (), ()) for arg in args), (), member)


@pytest.mark.parametrize(
    ("written", "element"),
    [
        (ref("Half"), "f16"),
        (ref("Same", "double"), "f64"),
        (ref("Traits", "float", member=("Type",)), "f32"),
        (ref("Traits", "Half", member=("Type",)), "f16"),
        (ref("Wide"), "f64"),
        (ref("Shape"), None),
    ],
)
def test_a_type_stands_for_an_element_type(cpp: tuple[Cpp, Env], written: ir.TypeRef, element: str | None) -> None:
    assert types.element(cpp[0], written, cpp[1]) == element


@pytest.mark.parametrize(("argument", "lanes"), [("float", 4), ("Half", 2)])
def test_a_constant_is_that_of_the_specialisation(cpp: tuple[Cpp, Env], argument: str, lanes: int) -> None:
    assert types.static_member(cpp[0], ref("Traits", argument, member=("lanes",)), cpp[1]) == lanes


def test_a_struct_has_its_fields_with_what_the_class_gives_them(cpp: tuple[Cpp, Env]) -> None:
    made = construction.construct(cpp[0], ref("Shape"), [], cpp[1], None)
    assert made.path == "struct:Shape" and made.attrs["rows"] == 3


def test_parentheses_of_a_vector_count_and_braces_list(cpp: tuple[Cpp, Env]) -> None:
    vector = ref("std::vector", "int")
    assert construction.construct(cpp[0], vector, [3], cpp[1], None) == [0, 0, 0]
    assert construction.construct(cpp[0], vector, [3], cpp[1], None, braces=True) == [3]


def test_a_dim3_fills_up_with_ones(cpp: tuple[Cpp, Env]) -> None:
    made = construction.construct(cpp[0], ref("dim3"), [8, 2], cpp[1], None)
    assert isinstance(made, Dim3) and made.attrs == {"x": 8, "y": 2, "z": 1}


def test_options_of_tensors_become_keywords() -> None:
    options = TensorOptions("TensorOptions", {"dtype": None})
    assert arguments.torch_args([1, options]) == ([1], {})
    assert arguments.is_options(options) and not arguments.is_options(LibObject("dim3"))
