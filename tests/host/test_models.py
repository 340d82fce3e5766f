"""What a library or a class of objects is to the host: functions with named parameters, found by name or whole path."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.base.values import Value
from kbh_lint.host.values.modelled import Library, Methods, Owner, Site, models
from kbh_lint.host.values.objects import LibObject

NO_RUN: Any = None


class Loom(Library):
    @models("weave")
    def weave(self, site: Site, warp: Value, weft: Value = 2, *, knots: Value = 0) -> Value:
        return warp, weft, knots

    @models("loom.fine.weave")
    def fine(self, site: Site, /, *threads: Value, **named: Value) -> Value:
        return threads, named

    def other(self, site: Site) -> Value:
        return "other"


class Cloths(Methods[Owner]):
    @models("cut")
    def cut(self, site: Site, owner: Owner, at: Value) -> Value:
        return owner.attrs["length"], at


def called(path: str, *args: Value, **kwargs: Value) -> Value:
    return Loom().call(Site(NO_RUN, path, None, list(args), kwargs))


@pytest.mark.parametrize(
    ("args", "kwargs", "answer"),
    [
        ((1,), {}, (1, 2, 0)),
        ((1, 3), {}, (1, 3, 0)),
        ((1,), {"knots": 5}, (1, 2, 5)),
        ((), {"weft": 4, "warp": 3}, (3, 4, 0)),
        ((), {}, "other"),
        ((1, 2, 3), {}, "other"),
        ((1,), {"warp": 1}, "other"),
        ((1,), {"unheard": 1}, "other"),
    ],
)
def test_arguments_are_bound_as_python_binds_them(
    args: tuple[Value, ...], kwargs: dict[str, Value], answer: Value
) -> None:
    assert called("loom.weave", *args, **kwargs) == answer


def test_a_model_by_a_whole_path_comes_before_one_by_a_name() -> None:
    assert called("loom.fine.weave", 1, site=2) == ((1,), {"site": 2})
    assert called("loom.coarse.weave", 1) == (1, 2, 0)
    assert called("loom.fine.unpick", 1) == "other"


def test_methods_are_given_their_object() -> None:
    cloth = LibObject("loom.Cloth", {"length": 9})
    assert Cloths().call(Site(NO_RUN, "loom.Cloth.cut", None, [3]), cloth) == (9, 3)
    assert Cloths().call(Site(NO_RUN, "loom.Cloth.cut", None, [3, 4]), cloth) is NotImplemented
    assert Cloths().call(Site(NO_RUN, "loom.Cloth.fold", None, []), cloth) is NotImplemented
