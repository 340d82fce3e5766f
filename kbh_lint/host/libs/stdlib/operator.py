"""operator: getters become functions, operators are what they are in code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import comparisons, operators, shown, subscripts
from kbh_lint.host.libs.plain import Unfollowed
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.modelled import Site, models

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_COMPARED = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=",
             "__is__": "is", "__is_not__": "is not"}  # fmt: skip
_OF_ONE = {"neg": "-", "pos": "+", "invert": "~"}


class Operator(Unfollowed):
    """The module `operator`."""

    @models("attrgetter")
    def attrgetter(self, site: Site, *attrs: Value) -> Value:
        """Models `operator.attrgetter(*attrs)`."""
        paths = [path for path in attrs if isinstance(path, str)]
        if not paths or len(paths) < len(attrs):
            return NotImplemented
        return builtin(lambda run, args, kwargs, loc: _attributes(run, args[0], paths, loc))

    @models("itemgetter")
    def itemgetter(self, site: Site, key: Value, *more: Value) -> Value:
        """Models `operator.itemgetter(*keys)`."""
        if not more:
            return builtin(lambda run, args, kwargs, loc: subscripts.get_item(run, args[0], key, loc))
        keys = (key, *more)
        return builtin(
            lambda run, args, kwargs, loc: tuple(subscripts.get_item(run, args[0], one, loc) for one in keys)
        )

    @models("methodcaller")
    def methodcaller(self, site: Site, name: Value, /, *given: Value, **named: Value) -> Value:
        """Models `operator.methodcaller(name, ...)`."""
        called = shown.show(name)
        return builtin(
            lambda run, args, kwargs, loc: run.call(run.get_attr(args[0], called, loc), list(given), named, loc)
        )

    @models("call")
    def called(self, site: Site, obj: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `operator.call(obj, ...)`."""
        return site.run.call(obj, list(args), kwargs, site.loc)

    @models("setitem")
    def setitem(self, site: Site, a: Value, b: Value, c: Value) -> None:
        """Models `operator.setitem(a, b, c)`: `a[b] = c`."""
        subscripts.set_item(site.run, a, b, c, site.loc)

    @models("getitem")
    def getitem(self, site: Site, a: Value, b: Value) -> Value:
        """Models `operator.getitem(a, b)`: `a[b]`."""
        return subscripts.get_item(site.run, a, b, site.loc)

    @models("delitem")
    def delitem(self, site: Site, a: Value, b: Value) -> Value:
        """Models `operator.delitem(a, b)`: `del a[b]`."""
        return site.run.call(site.run.get_attr(a, "__delitem__", site.loc), [b], {}, site.loc)

    @models("contains")
    def contains(self, site: Site, a: Value, b: Value) -> Value:
        """Models `operator.contains(a, b)`: `b in a`."""
        return comparisons.compare(site.run, "in", b, a, site.loc)

    @models(*_OF_ONE)
    def unary(self, site: Site, a: Value) -> Value:
        """Models `operator.neg(a)`, `pos(a)` and `invert(a)`."""
        return operators.unary(site.run, _OF_ONE[site.name], a, site.loc)

    @models("truth", "not_")
    def truth(self, site: Site, a: Value) -> bool:
        """Models `operator.truth(a)` and `not_(a)`."""
        return site.run.truth(a, site.loc) is (site.name == "truth")

    @models("concat", "iconcat")
    def concat(self, site: Site, a: Value, b: Value) -> Value:
        """Models `operator.concat(a, b)` and `iconcat(a, b)`."""
        added = operators.binary if site.name == "concat" else operators.inplace
        return added(site.run, "+", a, b, site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): a binary operator, by its name."""
        name = site.name
        dunder = name if name.startswith("__") else f"__{name.rstrip('_')}__"
        if len(site.args) == 2 and dunder in operators.DUNDERS:
            return operators.dunder(site.run, site.args[0], dunder, site.args[1], site.loc)
        if len(site.args) == 2 and dunder in _COMPARED:
            return comparisons.compare(site.run, _COMPARED[dunder], site.args[0], site.args[1], site.loc)
        return super().other(site)


def _attributes(run: Run, owner: Value, paths: list[str], loc: ir.Loc | None) -> Value:
    """What operator.attrgetter gives of an object: an attribute, or a tuple of several."""
    found: list[Value] = []
    for path in paths:
        value = owner
        for name in path.split("."):
            value = run.get_attr(value, name, loc)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)
