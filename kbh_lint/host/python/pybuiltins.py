"""The Python built-in functions on real and abstract values."""

from __future__ import annotations

import builtins
import math
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import iteration, operators, texts
from kbh_lint.host.python import builtin_attributes, builtin_iterables, patterns
from kbh_lint.host.torch import tensor_attributes, torchlib
from kbh_lint.host.values import bounds, equality, keys, taint, unknowns
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import Instance, ProcessNumber, compared_as
from kbh_lint.host.values.tensors import Sort, Tensor, Unknown
from kbh_lint.source.embedded import Text, concat, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def _numbers(name: str) -> Callable[..., Any]:
    """int, float, abs, round, pow, divmod ... on known numbers; an unknown stays one."""
    real = getattr(builtins, name)

    @builtin
    def run(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
        if name == "hash" and args:
            args = [compared_as(args[0]), *args[1:]]
        if name == "hash" and args and isinstance(args[0], (Tensor, Instance)):
            return ProcessNumber(interp.memory.identity(args[0]))
        if name == "hash" and args and isinstance(args[0], (str, bytes, tuple)) and _is_plain(args[0]):
            bounds.text(interp, args[0])
            return ProcessNumber(zlib.crc32(repr(args[0]).encode()) << 16)
        if args and isinstance(args[0], Tensor):
            if name in ("int", "float", "bool"):
                got = tensor_attributes.scalar(interp, "item", [args[0]], {}, loc)
                return got
            return torchlib.call(interp, f"torch.{name}", args, kwargs, loc)
        args = [unknowns.merged(interp, a) if doubts(a) else a for a in args]
        if args and isinstance(args[0], Once) and name.startswith("byte"):
            args = [iteration.materialise(interp, args[0], loc)]
        if name == "bool" and args and isinstance(args[0], Instance):
            return interp.truth(args[0], loc)
        if name == "bool" and args and taint.of_library(args[0]):
            return taint.presumed(True)
        if name == "int" and len(args) == 1 and equality.is_success(args[0]):
            return 0
        if name == "int" and len(args) == 1 and type(args[0]) is ProcessNumber:
            return args[0]
        args = [unknowns.of_process(a) for a in args]
        if any(isinstance(a, Unknown) for a in args):
            if name in ("float", "abs") and args[0].range is not None:
                low, high = args[0].range
                ends = (low, high) if name == "float" else (0.0, max(abs(low), abs(high)))
                return Unknown(args[0].contents, name, ends, args[0].made)
            same = name in ("int", "float") and isinstance(args[0], Unknown)
            return unknowns.merged(interp, *args, like=args[0] if same else None)
        try:
            _check_numbers(interp, name, args, kwargs)
            return real(*[str(a) if isinstance(a, Text) else a for a in args], **kwargs)
        except Exception as error:
            operators.failed(interp, error, loc)
            return unknowns.merged(interp, *args, why=name)

    return run


def _is_plain(value: Value, depth: int = 0) -> bool:
    """Whether a value is a text or a number that is known, or a small tuple of such."""
    if isinstance(value, tuple):
        return depth < 4 and len(value) <= bounds.FREE_ITEMS and all(_is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, (str, bytes, int, float)) and not doubts(value)


def _check_numbers(interp: Run, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
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


@builtin
def _str(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if not args:
        return ""
    if isinstance(args[0], int):
        interp.burn(args[0].bit_length() // 64)  # quadratic in the digits
    return args[0] if isinstance(args[0], (str, Unknown)) else texts.of(interp, args[0], loc)


@builtin
def _repr(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args and isinstance(args[0], str) and not doubts(args[0]):
        bounds.text(interp, args[0])
        return repr(str(args[0]))
    if args and isinstance(args[0], (Instance, list, tuple, dict)):
        return texts.of(interp, args[0], loc, "repr")
    return _str(interp, args, kwargs, loc)


@builtin
def _id(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return ProcessNumber(interp.memory.identity(args[0]))


@builtin
def _print(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    file = kwargs.get("file")
    if isinstance(file, Instance):  # a text that is written line by line
        words = [_str(interp, [arg], {}, loc) for arg in args]
        line = [part for i, word in enumerate(words) for part in ((kwargs.get("sep", " "), word) if i else (word,))]
        text = concat([*line, kwargs.get("end", "\n")])
        interp.call(interp.get_attr(file, "write", loc), [text], {}, loc)
    return None


@builtin
def _exec(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return interp.run_text(args, loc)


def table() -> dict[str, Any]:
    """The built-in names."""
    names: dict[str, Any] = {
        n: _numbers(n)
        for n in (
            "int",
            "float",
            "bool",
            "abs",
            "round",
            "pow",
            "divmod",
            "ord",
            "chr",
            "bin",
            "hex",
            "hash",
            "complex",
            "bytes",
            "bytearray",
        )
    }
    names.update(
        **builtin_iterables.ITERABLES, **builtin_attributes.ATTRIBUTES, **patterns.BUILTINS,
        str=_str, repr=_repr, id=_id, print=_print, exec=_exec, eval=_exec, super=builtin(lambda *a: Unknown()),
        locals=builtin(lambda *a: {}), globals=builtin(lambda *a: {}),
        object=Sym("builtins.object"), Ellipsis=Ellipsis,
        NotImplemented=Unknown((), "NotImplemented", sort=Sort.NOT_IMPLEMENTED),
    )  # fmt: skip
    for name in (
        "int",
        "float",
        "bool",
        "str",
        "list",
        "tuple",
        "dict",
        "set",
        "bytes",
        "type",
        "complex",
        "frozenset",
        "range",
    ):
        names[name].__kbh_name__ = f"builtins.{name}"
    return names


def math_call(interp: Run, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """math.NAME on known numbers."""
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
