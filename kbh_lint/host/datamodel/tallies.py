"""Methods of collections.Counter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import iteration, operators
from kbh_lint.host.datamodel.mappings import Dicts
from kbh_lint.host.values import bounds, keys, unknowns
from kbh_lint.host.values.modelled import Site, models

if TYPE_CHECKING:
    pass


class _Tallies(Dicts):
    """`collections.Counter`."""

    @models("update", "subtract")
    def counted(self, site: Site, owner: dict[Value, Value], given: Value = (), /, **named: Value) -> None:
        """Models `Counter.update` and `Counter.subtract`."""
        op = "+" if site.name == "update" else "-"
        counts: list[tuple[Value, Value]] = [*named.items()]
        if isinstance(given, dict):
            counts += given.items()
        else:
            counts += [(one, 1) for one in iteration.materialise(site.run, given, site.loc)]
        for key, count in counts:
            owner[keys.check_key(key)] = operators.binary(site.run, op, owner.get(key, 0), count, site.loc)

    @models("total")
    def total(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `Counter.total()`: the sum of all counts."""
        counts = _counts(owner)
        return self._unsure(site, owner) if counts is None else sum(counts.values())

    @models("elements")
    def elements(self, site: Site, owner: dict[Value, Value]) -> Value:
        """Models `Counter.elements()`: each key as often as its count says."""
        counts = _counts(owner)
        if counts is None:
            return self._unsure(site, owner)
        bounds.items(site.run, sum(max(count, 0) for count in counts.values()))
        return [key for key, count in counts.items() for _ in range(count)]

    @models("most_common")
    def most_common(self, site: Site, owner: dict[Value, Value], n: Value = None) -> Value:
        """Models `Counter.most_common(n)`: the n keys with the highest counts."""
        counts = _counts(owner)
        if counts is None:
            return self._unsure(site, owner)
        most = sorted(counts.items(), key=lambda item: -item[1])
        return most[:n] if isinstance(n, int) else most

    def _unsure(self, site: Site, owner: dict[Value, Value]) -> Value:
        return unknowns.merged(site.run, *owner.values(), why=f"Counter.{site.name}")


def _counts(owner: dict[Value, Value]) -> dict[Value, int] | None:
    """What is counted, where all numbers are known."""
    known = {key: count for key, count in owner.items() if type(count) is int}
    return known if len(known) == len(owner) else None


TALLIES = _Tallies()
