"""Launches that are analysed once, by what tells them apart."""

from __future__ import annotations

from itertools import count

from kbh_lint.base.values import Buffer, Env, Scalar
from kbh_lint.host.gpu.kernel_cache import normal_key
from kbh_lint.host.values.tensors import Content, Storage, Tensor, Unknown


def test_launches_on_other_tensors_are_alike_and_numbers_of_other_types_are_not() -> None:
    def key(storage: int, value: object) -> object:
        return normal_key({"x": Buffer("f32", storage, "f32"), "n": Scalar(value), "c": (value, "a")})

    assert key(7, 1) == key(9, 1)
    assert len({key(7, value) for value in (1, 1.0, True, 2)}) == 4


def test_an_object_among_the_arguments_is_equal_to_itself_alone() -> None:
    one, other = Env(), Env()
    assert normal_key({"f": one}) == normal_key({"f": one}) != normal_key({"f": other})


def test_the_text_of_a_value_does_not_repeat_all_it_came_from() -> None:
    idents = count()
    value = Tensor(Storage(idents), "f32", (1,))
    for _ in range(60):
        made = Content(value.storage, "f32", 1, notes={"from": [value, value]})
        value = Tensor(Storage(idents, content=made), "f32", (1,))
    assert len(str([value, Unknown((made, made))])) < 100
