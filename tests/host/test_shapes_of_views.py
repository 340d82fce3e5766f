"""Shapes of views by themselves, against what torch documents."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.host.torch.tensor_views import in_order
from kbh_lint.host.torch.view_shapes import bitcast, pieces


@pytest.mark.parametrize(
    ("name", "shape", "arguments", "wanted"),
    [
        ("chunk", (10, 4), (3,), [(4, 4), (4, 4), (2, 4)]),
        ("chunk", (10, 4), (3, 1), [(10, 2), (10, 2)]),
        ("split", (10,), (4,), [(4,), (4,), (2,)]),
        ("split", (2, 10), ([1, 9], -1), [(2, 1), (2, 9)]),
        ("tensor_split", (10,), (4,), [(3,), (3,), (2,), (2,)]),
        ("tensor_split", (10, 2), ([3, 7],), [(None, 2)] * 3),
        ("unbind", (2, 3), (), [(3,), (3,)]),
        ("unbind", (2, 3), (1,), [(2,)] * 3),
        ("chunk", (None, 4), (2,), [(None, 4)] * 2),
        ("split", None, (4,), [None, None]),
    ],
)
def test_a_tensor_is_cut_as_torch_cuts_it(name: str, shape: Any, arguments: tuple[Any, ...], wanted: list[Any]) -> None:
    assert pieces(name, shape, arguments) == wanted


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [("f32", "bf16", (4, 16)), ("bf16", "f32", (4, 4)), ("e4m3", "i8", (4, 8)), ("i8", "i32", (4, 2))],
)
def test_a_view_as_another_type_changes_the_last_size_by_its_bits(old: str, new: str, wanted: tuple[int, ...]) -> None:
    assert bitcast((4, 8), old, new) == wanted


def test_a_view_as_another_type_of_unknown_size_stays_unknown() -> None:
    assert bitcast((4, None), "f32", "bf16") == (4, None)
    assert bitcast((), "f32", "i32") == ()
    assert bitcast(None, "f32", "i32") is None


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "wanted"),
    [
        ("transpose", [], {"dim0": 0, "dim1": -1}, [0, -1]),
        ("transpose", [0], {"dim1": 1}, [0, 1]),
        ("swapaxes", [], {"axis0": 1, "axis1": 2}, [1, 2]),
        ("flatten", [], {"end_dim": 1}, [0, 1]),
        ("split", [4], {"dim": 1}, [4, 1]),
        ("split", [], {"split_size_or_sections": [1, 2]}, [[1, 2]]),
        ("view", [], {"dtype": "torch.int32"}, ["torch.int32"]),
        ("unsqueeze", [], {"axis": 2}, [2]),
    ],
)
def test_arguments_by_name_stand_where_torch_has_them(
    name: str, args: list[Any], kwargs: dict[str, Any], wanted: list[Any]
) -> None:
    assert in_order(name, args, kwargs) == wanted
