"""Methods of Python's own values: texts, bytes, numbers, lists, dicts, sets and tuples, and of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import containers, iteration, mappings, tallies
from kbh_lint.host.effects import decoding
from kbh_lint.host.python import lib_texts
from kbh_lint.host.values import keys
from kbh_lint.host.values.containers import Tally
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.tensors import product

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def call(interp: Run, owner: Value, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Call a method of a plain value; NotImplemented for other values, and for methods that are not followed."""
    if owner is interp.builtins.get("str") and name == "maketrans":
        return lib_texts.translation(interp, args)
    if owner is interp.builtins.get("str") and args and isinstance(args[0], str):
        owner, args = args[0], args[1:]  # str.encode(text)
    if isinstance(owner, str):
        return lib_texts.TEXTS.call(Site(interp, f"str.{name}", loc, args, kwargs), owner)
    if isinstance(owner, list):
        return containers.LISTS.call(Site(interp, f"list.{name}", loc, args, kwargs), owner)
    if isinstance(owner, dict):
        of_dicts = tallies.TALLIES if isinstance(owner, Tally) else mappings.DICTS
        return of_dicts.call(Site(interp, f"dict.{name}", loc, args, kwargs), owner)
    if isinstance(owner, (set, frozenset)):
        held = set(owner) if isinstance(owner, frozenset) else owner
        return mappings.SETS.call(Site(interp, f"set.{name}", loc, args, kwargs), held)
    if isinstance(owner, (int, float)) and name in ("bit_length", "is_integer", "bit_count", "conjugate"):
        return getattr(owner, name)()
    if isinstance(owner, (tuple, range)) and name in ("index", "count"):
        if args and args[0] in owner:
            return getattr(owner, name)(*args)
        if name == "index":
            interp.may_fail("ValueError", loc)
        return 0
    if isinstance(owner, tuple) and name == "numel":
        return product(owner)
    if owner is interp.builtins.get("dict") and name == "fromkeys" and args:
        value = args[1] if len(args) > 1 else None
        return {keys.check_key(key): value for key in iteration.materialise(interp, args[0], loc)}
    if owner is interp.builtins.get("bytes") and name == "fromhex":
        return decoding.decode(interp, "binascii.unhexlify", args[0] if args else None, loc)
    if name == "from_bytes" and owner is interp.builtins.get("int"):
        return lib_texts.whole_number(interp, name, args, kwargs, loc)
    if isinstance(owner, int) and name == "to_bytes":
        return lib_texts.whole_number(interp, name, [owner, *args], kwargs, loc)
    if isinstance(owner, (bytes, bytearray)) and name not in ("decode", "append", "extend", "pop", "insert", "clear"):
        return lib_texts.bytes_method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, bytes) and name == "decode":
        return decoding.decoded(interp, owner.decode("utf-8", "replace"), loc)
    return NotImplemented
