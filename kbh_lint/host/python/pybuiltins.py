"""The Python built-in functions on real and abstract values."""

from __future__ import annotations

import builtins
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import iteration, operators, texts
from kbh_lint.host.python import builtin_attributes, builtin_iterables, patterns
from kbh_lint.host.torch import tensor_attributes, torchlib
from kbh_lint.host.values import bounds, equality, keys, taint, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.modelled import Builtin, Site, models
from kbh_lint.host.values.named_objects import Stream
from kbh_lint.host.values.objects import Instance, ProcessNumber, compared_as, find_method
from kbh_lint.host.values.tensors import Sort, Tensor, Unknown
from kbh_lint.source.embedded import Text, concat, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


class Numbers(Builtin):
    """The built-in functions of known numbers and bytes; an unknown stays one."""

    @models("hash")
    def hash(self, site: Site, obj: Value, /) -> Value:
        """Models `hash(obj)`: of a text, bytes, a tuple or an object a number that differs in each process."""
        value = compared_as(obj)
        keys.hashed(site.run, obj)
        if isinstance(value, (Tensor, Instance)):
            return ProcessNumber(site.run.memory.identity(value))
        if isinstance(value, (str, bytes, tuple)) and _is_plain(value):
            bounds.text(site.run, value)
            return ProcessNumber(zlib.crc32(repr(value).encode()) << 16)
        return _known(site, [value])

    @models("bool")
    def bool(self, site: Site, x: Value = False, /) -> Value:
        """Models `bool(value)`."""
        if isinstance(x, Tensor):
            return tensor_attributes.scalar(site.run, "item", [x], {}, site.loc)
        if isinstance(x, Instance):
            return site.run.truth(x, site.loc)
        return taint.presumed(True) if taint.of_library(x) else _known(site, site.args)

    @models("int")
    def int(self, site: Site, x: Value = 0, /, *base: Value, **named: Value) -> Value:
        """Models `int(x, base)`."""
        if isinstance(x, Tensor):
            return tensor_attributes.scalar(site.run, "item", [x], {}, site.loc)
        if not base and equality.is_success(x):
            return 0
        same = type(x) is ProcessNumber or isinstance(x, Stream)  # a handle
        return x if not base and same else _known(site, site.args)

    @models("float")
    def float(self, site: Site, x: Value = 0.0, /) -> Value:
        """Models `float(x)`."""
        if isinstance(x, Tensor):
            return tensor_attributes.scalar(site.run, "item", [x], {}, site.loc)
        return _known(site, site.args)

    @models("bytes", "bytearray")
    def bytes(self, site: Site, source: Value = b"", /, *how: Value, **named: Value) -> Value:
        """Models `bytes(...)`."""
        items = iteration.materialise(site.run, source, site.loc) if isinstance(source, Once) else source
        return self.number(site, items, *how) if site.args else _known(site, [])

    @models("abs", "round", "pow", "divmod", "ord", "chr", "bin", "hex", "complex")
    def number(self, site: Site, /, *given: Value, **named: Value) -> Value:
        """Models `abs`, `round`, `pow` and other functions of numbers; of a tensor by torch's function."""
        if given and isinstance(given[0], Tensor):
            return torchlib.call(site.run, f"torch.{site.name}", list(given), site.kwargs, site.loc)
        return _known(site, list(given))


def _known(site: Site, given: list[Value]) -> Value:
    """What Python's own function gives of numbers and texts, within bounds."""
    run, name = site.run, site.name
    if given and isinstance(given[0], Instance):
        own, index = (find_method(given[0], f"__{word}__") for word in (name, "index"))
        if own is not None:
            return run.call(own, given[1:], {}, site.loc)
        given = given if index is None else [run.call(index, [], {}, site.loc), *given[1:]]
    args: list[Any] = [unknowns.of_process(unknowns.merged(run, a) if doubts(a) else a) for a in given]
    if any(isinstance(a, Unknown) for a in args):
        if name in ("float", "abs") and args[0].range is not None:
            low, high = args[0].range
            ends = (low, high) if name == "float" else (0.0, max(abs(low), abs(high)))
            return Unknown(args[0].contents, name, ends, args[0].made)
        same = name in ("int", "float") and isinstance(args[0], Unknown)
        return unknowns.merged(run, *args, like=args[0] if same else None)
    try:
        _check_numbers(run, name, args, site.kwargs)
        return getattr(builtins, name)(*[str(a) if isinstance(a, Text) else a for a in args], **site.kwargs)
    except Exception as error:
        operators.failed(run, error, site.loc)
        return unknowns.merged(run, *args, why=name)


def _is_plain(value: Value, depth: int = 0) -> bool:
    """Whether a value is a text or a number that is known, or a small tuple of such."""
    if isinstance(value, tuple):
        return depth < 4 and len(value) <= bounds.FREE_ITEMS and all(_is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, (str, bytes, int, float)) and not doubts(value)


def _check_numbers(interp: Run, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
    """Refuses what would make a number or a text without end, and pays for what takes long."""
    given = [*args, *kwargs.values()]
    if name == "pow":
        bounds.modular(interp, *given) if len(given) > 2 else bounds.power(*given)
    elif name == "round" and len(given) > 1 or name in ("bytes", "bytearray"):
        bounds.width(given[-1] if given else 0)
    elif name in ("int", "divmod"):
        bounds.digits(*given)
    elif name == "hash" and args:
        keys.check_key(args[0])


class Texts(Builtin):
    """The built-in functions that show values, and those that run texts."""

    @models("str")
    def str(self, site: Site, object: Value = "", /, *how: Value, **named: Value) -> Value:
        """Models `str(value)`."""
        return _text(site.run, object, site.loc)

    @models("repr")
    def repr(self, site: Site, obj: Value, /) -> Value:
        """Models `repr(value)`."""
        if isinstance(obj, str) and not doubts(obj):
            bounds.text(site.run, obj)
            return repr(str(obj))
        if isinstance(obj, (Instance, list, tuple, dict)):
            return texts.of(site.run, obj, site.loc, "repr")
        return _text(site.run, obj, site.loc)

    @models("id")
    def id(self, site: Site, obj: Value, /) -> Value:
        """Models `id(obj)`: a number that differs in each process."""
        return ProcessNumber(site.run.memory.identity(obj))

    @models("print")
    def print(
        self,
        site: Site,
        /,
        *values: Value,
        sep: Value = " ",
        end: Value = "\n",
        file: Value = None,
        flush: Value = None,
    ) -> None:
        """Models `print(...)`: writes a text where `file` is an object of the submission."""
        if isinstance(file, Instance):  # a text that is written line by line
            words = [_text(site.run, value, site.loc) for value in values]
            line: list[Any] = [part for i, word in enumerate(words) for part in ((sep, word) if i else (word,))]
            written: list[Any] = [*line, end]
            text = concat(written)
            site.run.call(site.run.get_attr(file, "write", site.loc), [text], {}, site.loc)

    @models("exec", "eval")
    def exec(
        self, site: Site, source: Value = None, globals: Value = None, locals: Value = None, **named: Value
    ) -> Value:
        """Models `exec(source, globals, locals)` and `eval`."""
        return site.run.run_text(source, globals, site.loc, locals)

    @models("super")
    def super(self, site: Site, *given: Value) -> Value:
        """Models `super` used as a value: unknown."""
        return Unknown()

    @models("locals", "globals")
    def names(self, site: Site) -> Value:
        """Models `locals()` and `globals()` called as values: an empty dict."""
        return {}


def _text(run: Run, value: Value, loc: ir.Loc | None) -> Value:
    """str(value)."""
    if isinstance(value, int):
        run.burn(value.bit_length() // 64)  # quadratic in the digits
    return value if isinstance(value, (str, Unknown)) else texts.of(run, value, loc)


_FUNCTIONS: dict[str, Any] = {
    **Numbers.functions_by_name(),
    **Texts.functions_by_name(),
    **builtin_iterables.Iterables.functions_by_name(),
    **builtin_attributes.Attributes.functions_by_name(),
    **patterns.BUILTINS,
}
for _name in "int float bool str list tuple dict set bytes type complex frozenset range".split():
    _FUNCTIONS[_name].__kbh_name__ = f"builtins.{_name}"


def table() -> dict[str, Any]:
    """Returns the built-in names and their values."""
    return {
        **_FUNCTIONS,
        "object": Sym("builtins.object"),
        "Ellipsis": Ellipsis,
        "NotImplemented": Unknown((), "NotImplemented", sort=Sort.NOT_IMPLEMENTED),
    }


def math_call(interp: Run, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Models a function of Python's math module on known numbers."""
    if any(isinstance(a, (Unknown, Tensor)) for a in args):
        return unknowns.merged(interp, *args)
    if name == "prod" and args:
        total: Any = 1
        for item in iteration.materialise(interp, args[0], None):
            interp.burn()
            total = operators.binary(interp, "*", total, item, None)
        return total
    try:
        if name in ("factorial", "comb", "perm"):
            bounds.argument(*args)
        elif name == "lcm":
            bounds.argument(16 * len(args))
        return getattr(math, name)(*args)
    except Exception as error:
        operators.failed(interp, error, loc)
        return unknowns.merged(interp, *args, why=f"math.{name}")
