"""Methods of Python's own values: texts, bytes, numbers, lists, dicts, sets and tuples, and of their classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.by_class import ByClass
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import containers, iteration, mappings, tallies
from kbh_lint.host.effects import decoding
from kbh_lint.host.python import lib_texts
from kbh_lint.host.values import keys
from kbh_lint.host.values.containers import Tally
from kbh_lint.host.values.modelled import Library, Methods, Site, models
from kbh_lint.host.values.tensors import product

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def call(interp: Run, owner: Value, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Calls a method of a plain value; NotImplemented for other values, and for methods without a model."""
    row = _ROWS[type(owner)]
    if row is not None:
        kind, methods = row
        held = set(owner) if isinstance(owner, frozenset) else owner
        return methods.call(Site(interp, f"{kind}.{name}", loc, args, kwargs), held)
    label = getattr(owner, "__kbh_name__", "")
    return _CLASSES.call(Site(interp, f"{label}.{name}", loc, args, kwargs)) if label else NotImplemented


class _Classes(Library):
    """Functions of the built-in classes themselves, as `dict.fromkeys`."""

    @models("builtins.str.maketrans")
    def translation(self, site: Site, /, *given: Value) -> Value:
        """Models `str.maketrans(...)`."""
        return lib_texts.translation(site.run, list(given))

    @models("builtins.dict.fromkeys")
    def fromkeys(self, site: Site, iterable: Value, value: Value = None, /) -> Value:
        """Models `dict.fromkeys(keys, value)`."""
        return {keys.check_key(key): value for key in iteration.materialise(site.run, iterable, site.loc)}

    @models("builtins.bytes.fromhex")
    def fromhex(self, site: Site, string: Value, /) -> Value:
        """Models `bytes.fromhex(text)`."""
        return decoding.decode(site.run, "binascii.unhexlify", string, site.loc)

    @models("builtins.int.from_bytes")
    def from_bytes(self, site: Site, /, *given: Value, **named: Value) -> Value:
        """Models `int.from_bytes(data, ...)`."""
        return lib_texts.whole_number(site.run, site.name, list(given), named, site.loc)

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): a method of a text by its class,
        `str.encode(text)`."""
        text = site.args[0] if site.args else None
        if not isinstance(text, str) or site.path.rpartition(".")[0] != "builtins.str":
            return NotImplemented
        return lib_texts.TEXTS.call(Site(site.run, f"str.{site.name}", site.loc, site.args[1:], site.kwargs), text)


class _Numbers(Methods[int | float]):
    """Numbers."""

    @models("bit_length", "is_integer", "bit_count", "conjugate")
    def of_itself(self, site: Site, owner: int | float) -> Value:
        """Models `int.bit_length()` and the like by Python's own method."""
        return getattr(owner, site.name)()

    @models("to_bytes")
    def to_bytes(self, site: Site, owner: int | float, /, *given: Value, **named: Value) -> Value:
        """Models `int.to_bytes(...)`."""
        if not isinstance(owner, int):
            return NotImplemented
        return lib_texts.whole_number(site.run, site.name, [owner, *given], named, site.loc)


class _Tuples(Methods[Sequence[Value]]):
    """Tuples and ranges."""

    @models("index", "count")
    def index(self, site: Site, owner: Sequence[Value], value: Value, /, *ends: Value) -> Value:
        """Models `tuple.index(value)` and `tuple.count(value)`."""
        if value in owner:
            return getattr(owner, site.name)(value, *ends)
        if site.name == "index":
            site.run.may_fail("ValueError", site.loc)
        return 0

    @models("numel")
    def numel(self, site: Site, owner: Sequence[Value]) -> Value:
        """Models `torch.Size.numel()`: the number of elements of a shape."""
        return product(owner) if isinstance(owner, tuple) else NotImplemented


class _Bytes(Methods[bytes | bytearray]):
    """Bytes."""

    @models("decode")
    def decode(self, site: Site, owner: bytes | bytearray, *how: Value, **named: Value) -> Value:
        """Models `bytes.decode(...)`."""
        if not isinstance(owner, bytes):
            return NotImplemented
        return decoding.decoded(site.run, owner.decode("utf-8", "replace"), site.loc)

    def other(self, site: Site, owner: bytes | bytearray) -> Value:
        """Answers a call of a method without a model (`Methods.other`): Python's own result on known arguments; methods
        that change a bytearray are not followed."""
        if site.name in ("append", "extend", "pop", "insert", "clear", "decode"):
            return NotImplemented
        return lib_texts.bytes_method(site.run, owner, site.name, site.args, site.kwargs, site.loc)


_CLASSES = _Classes()
_ROWS = ByClass[tuple[str, Methods[Any]] | None](
    {
        str: ("str", lib_texts.TEXTS),
        list: ("list", containers.LISTS),
        Tally: ("dict", tallies.TALLIES),
        dict: ("dict", mappings.DICTS),
        set: ("set", mappings.SETS),
        frozenset: ("set", mappings.SETS),
        **dict.fromkeys((int, float), ("int", _Numbers())),
        **dict.fromkeys((tuple, range), ("tuple", _Tuples())),
        **dict.fromkeys((bytes, bytearray), ("bytes", _Bytes())),
    },
    None,
)
