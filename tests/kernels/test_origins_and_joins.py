"""Provenance and joins of kernel values by themselves: union, bounds, and what two values meet at."""

from __future__ import annotations

import pytest

from kbh_lint.kernels.core.facts import Origin, Origins
from kbh_lint.kernels.core.joins import join_shape, wider
from kbh_lint.kernels.core.origins import (
    CUT,
    FLOOR,
    MAX_ORIGINS,
    capped,
    choosing,
    cut_short,
    data_origins,
    flagged,
    floors,
    storages,
    union,
)
from kbh_lint.kernels.core.origins import (
    testing as of_tests,
)
from kbh_lint.kernels.core.value import LITERAL


def origin(param: str, *flags: str, dtype: str = "f32") -> Origin:
    return Origin(param, ord(param[0]), dtype, frozenset(flags))


def origins(*items: Origin) -> Origins:
    return frozenset(items)


def test_a_flag_is_added_to_each_origin_and_only_once() -> None:
    once = flagged(origins(origin("x"), origin("w", "cast")), "exp")
    assert {o.flags for o in once} == {frozenset({"exp"}), frozenset({"cast", "exp"})}
    assert flagged(once, "exp") == once
    assert flagged(frozenset(), "exp") == frozenset()


def test_addresses_and_products_are_no_data_of_a_parameter() -> None:
    found = origins(origin("x"), origin("i", "index"), origin("p", "product"), origin("e", "exp"))
    assert {o.param for o in data_origins(found)} == {"x", "p", "e"}
    assert storages(found) == {("x", ord("x"))}


def test_what_chose_between_constants_is_data_that_a_branch_tests_and_an_address_is_not() -> None:
    address = origins(origin("i", "index"))
    assert of_tests(address) == frozenset()
    assert {o.param for o in of_tests(choosing(origins(origin("x"))) | address)} == {"x"}


def test_bits_that_are_lost_are_counted_once_and_only_of_fp32() -> None:
    (lost,) = cut_short(origins(origin("x")), 16)
    assert lost.flags == {f"{CUT}16"}
    assert cut_short(origins(lost), 8) == origins(lost)
    half = origins(origin("x", dtype="f16"))
    assert cut_short(half, 8) == half


def test_maxima_on_the_way_are_read_from_an_origin() -> None:
    assert sorted(floors(origin("n", f"{FLOOR}0", f"{FLOOR}-3", "index"))) == [-3, 0]


def test_a_union_that_adds_nothing_is_the_same_object_so_that_walks_end() -> None:
    both = origins(origin("x"), origin("w"))
    assert union(both, origins(origin("x"))) is both
    assert union(both, frozenset()) is both
    assert union(frozenset(), both) is both
    assert union(origins(origin("x")), origins(origin("w"))) == both


def test_too_many_origins_are_united_by_parameter_and_lose_no_parameter() -> None:
    many = origins(*(origin(name, f"flag{n}", f"{CUT}{n}") for name in "xw" for n in range(MAX_ORIGINS)))
    few = capped(many)
    assert {o.param for o in few} == {"x", "w"} and len(few) == 2
    assert all("flag0" in o.flags and not any(flag.startswith(CUT) for flag in o.flags) for o in few)


@pytest.mark.parametrize(
    ("one", "other", "met"),
    [
        ("f16", "f32", "f32"),
        ("i64", "f16", "f16"),
        ("i32", "i64", "i64"),
        ("?", "bf16", "bf16"),
        (LITERAL, "e4m3", "e4m3"),
        ("f32", "f32", "f32"),
    ],
)
def test_element_types_meet_at_floats_first_and_then_at_the_wider(one: str, other: str, met: str) -> None:
    assert wider(one, other) == wider(other, one) == met


def test_shapes_keep_the_sizes_on_which_they_agree() -> None:
    assert join_shape((16, 32), (16, 64)) == (16, None)
    assert join_shape((16, 32), (16, 32)) == (16, 32)
    assert join_shape(None, (8,)) == (8,)
    assert join_shape((8,), (8, 8)) == (8,)
