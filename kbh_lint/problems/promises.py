"""Reading the promises and bans of a problem file: what each kind of promise takes, and what it may be about."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

from kbh_lint.marked import Fields, Items
from kbh_lint.problems.checks import entries, optional_items, tensor_names
from kbh_lint.problems.model import Ban, Contract, Exemption, Promise, Quantifier, Shape
from kbh_lint.problems.promise_kinds import KINDS, NAMES

STATES = ("kept", "kept-by-precision", "emulated")
LAYERS = ("source", "ptx", "sass", "counters", "run")


def read_promises(
    items: Items, path: str, contracts: Mapping[str, Contract], targets: tuple[str, ...], shapes: tuple[Shape, ...]
) -> tuple[Promise, ...]:
    """The promises of a problem with these contracts, targets and shapes. Raises DataError."""
    promises: list[Promise] = []
    taken: set[tuple[str, str]] = set()
    labels = tuple(shape.label for shape in shapes)
    for fields in entries(items, path, "a promise"):
        also = optional_items(fields, "accepts_also")
        exempt = tuple(_exemption(one, targets, labels) for one in entries(also, path, "an exemption"))
        promise = replace(_promise(fields, contracts), also=exempt)
        for contract in promise.contracts or tuple(contracts):
            if (promise.id, contract) in taken:
                raise fields.fail("id", f"the contract `{contract}` has the promise `{promise.id}` twice")
            taken.add((promise.id, contract))
        promises.append(promise)
    return tuple(promises)


def _exemption(fields: Fields, targets: tuple[str, ...], labels: tuple[str, ...]) -> Exemption:
    found = Exemption(
        fields.choice("state", STATES), _words(fields, "targets", targets), _words(fields, "shapes", labels),
        fields.text("reason"),
    )  # fmt: skip
    fields.done()
    return found


def _promise(fields: Fields, contracts: Mapping[str, Contract]) -> Promise:
    promise = Promise(
        id=fields.text("id"),
        kind=KINDS[fields.choice("kind", tuple(KINDS))],
        text=fields.text("text"),
        quantifier=cast(Quantifier, fields.choice("quantifier", ("every", "some"))),
        accepts=_words(fields, "accepts", STATES),
        settled_by=_words(fields, "settled_by", LAYERS),
        contracts=_words(fields, "contracts", tuple(contracts)) if "contracts" in fields.data else (),
        params=dict(fields.mapping("params")) if "params" in fields.data else {},
    )
    _check_params(promise, fields, tensor_names(contracts))
    fields.done()
    return promise


def _check_params(promise: Promise, fields: Fields, known: Collection[str]) -> None:
    """Refuses a parameter that no analysis of the promise's kind uses: it would promise what nobody looks at."""
    for key, value in promise.params.items():
        used = promise.kind.params.get(key)
        if used is None:
            allowed = ", ".join(promise.kind.params)
            raise fields.fail("params", f"a promise of the kind {promise.kind} takes {allowed}, not `{key}`")
        if used == NAMES and not (isinstance(value, list) and value):
            raise fields.fail("params", f"`{key}` must be a list of inputs and state")
        for one in value if isinstance(value, list) else (value,):
            if used == NAMES and one not in known:
                raise fields.fail("params", f"`{key}` names `{one}`, which is neither an input nor state")
            if used != NAMES and one not in used:
                words = ", ".join(map(str, used))
                raise fields.fail("params", f"`{key}` is `{one}`, and the analysis knows only {words}")


def _words(fields: Fields, key: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    words = fields.texts(key)
    if not words:
        raise fields.fail(key, f"{fields.what} needs `{key}`")
    for word in words:
        if word not in allowed:
            raise fields.fail(key, f"`{key}` holds `{word}`; it may hold {', '.join(allowed)}")
    return words


def read_ban(fields: Fields) -> Ban:
    """Reads an entry of `bans`: a symbol that a submission may not call. Raises DataError."""
    ban = Ban(fields.text("symbol"), fields.texts("aliases"), fields.text("reason", ""))
    fields.done()
    return ban
