"""Texts and bytes of the standard library: templates, the fields of str.format, packed numbers, what bytes can do."""

from __future__ import annotations

import hashlib
import re
import string
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import exceptions, iteration, operators, prelude, shown, subscripts, texts
from kbh_lint.host.values import bounds, taint, unknowns
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.modelled import Methods, Site, models
from kbh_lint.host.values.objects import Instance
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source import embedded
from kbh_lint.source.embedded import Text, concat, cut, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_FIELD_NAME: Any = vars(string)["_string"].formatter_field_name_split  # what the class of the library uses
MAX_FORMAT = 256  # characters of a format of packed numbers, which may name long runs of them
_BYTES = frozenset(
    "hex find rfind index count split rsplit splitlines strip lstrip rstrip startswith endswith replace join upper "
    "lower ljust rjust partition rpartition isdigit isalpha removeprefix removesuffix zfill title".split()
)


@builtin
def substituted(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `string.Template.substitute`: the fields of a text are replaced; the result remembers where its parts were
    written."""
    text, values, mark, safe = args
    if not isinstance(text, str) or not isinstance(values, dict) or not isinstance(mark, str) or doubts(text):
        return unknowns.merged(interp, text, why="string.Template")
    sign = re.escape(str(mark))
    field = re.compile(rf"{sign}(?:({sign})|([A-Za-z_]\w*)|\{{([A-Za-z_]\w*)\}})")
    parts: list[str] = []
    at = 0
    for found in field.finditer(str(text)):
        bounds.text(interp, "")
        name = found[2] or found[3]
        if name is not None and name not in values:
            if safe is True:
                continue
            exceptions.raise_("KeyError", [name], loc)
        parts.append(cut(text, at, found.start()))
        parts.append(str(mark) if name is None else texts.of(interp, values[name], loc))
        at = found.end()
    return concat([*parts, cut(text, at, len(text))])


@builtin
def packing(interp: Run, args: list[Any], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `struct.pack`, `unpack` and the like for interpreted library code; the first argument is the function's
    name."""
    return packed(interp, args[0], args[1:], loc)


@builtin
def hashed(interp: Run, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None) -> Value:
    """Returns the hash of bytes; the first argument names the hash function. Where the bytes are not known, an unknown
    value computed from them."""
    name, given, size, as_text = args
    parts = given if isinstance(given, list) else [given]
    plain = [part.encode() if isinstance(part, str) else part for part in parts if not doubts(part)]
    known = [bytes(part) for part in plain if isinstance(part, (bytes, bytearray))]
    if len(known) == len(parts):
        made = _hash(interp, name, known, size)
        if made is not None:
            return made.hex() if as_text else made
    open_ = [value for part in parts for value in doubts(part)]
    if as_text and open_ and all(isinstance(part, (bytes, bytearray, str)) for part in parts):
        seen = "".join(str(part) for part in parts)  # a name, if not known which
        return embedded.doubted(hashlib.sha256(seen.encode()).hexdigest()[:40], open_[0])
    return unknowns.merged(interp, *parts, why=f"hashlib.{name}", reading=f"hashlib.{name}")


def _hash(interp: Run, name: Value, parts: list[bytes], size: Value) -> bytes | None:
    """The hash; None where there is no such function, or none that gives so many bytes."""
    if not isinstance(name, str) or type(size) is not int and size is not None:
        return None
    for part in parts:
        bounds.items(interp, len(part) // 64)
    try:
        if size is not None and name == "blake2b":
            return hashlib.blake2b(b"".join(parts), digest_size=size).digest()
        if size is not None:
            return hashlib.blake2s(b"".join(parts), digest_size=size).digest()
        return hashlib.new(name, b"".join(parts), usedforsecurity=False).digest()
    except (TypeError, ValueError):
        return None


@builtin
def replacements(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `string.Formatter.parse`: literal texts, each with the field behind it."""
    if not isinstance(args[0], str) or doubts(args[0]):
        return unknowns.merged(interp, args[0], why="string.Formatter")
    return [list(row) for row in string.Formatter().parse(str(args[0]))]


@builtin
def named(interp: Run, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """What the field of a format names first, and the attributes and items behind that, `(True, name)` of one."""
    first, rest = _FIELD_NAME(str(args[0]))
    return [first, [list(row) for row in rest]]


prelude.NATIVE.update({"__substituted__": substituted, "__packing__": packing, "__hashed__": hashed})
prelude.NATIVE.update({"__replacements__": replacements, "__named__": named})


def packed(interp: Run, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Models `struct.pack`, `unpack`, `unpack_from` and `calcsize`, on known numbers and bytes."""
    path = f"struct.{name}"
    args = [str(arg) if isinstance(arg, str) and not doubts(arg) else arg for arg in args]
    real = getattr(struct, name, None)
    short = args and isinstance(args[0], (str, bytes)) and len(args[0]) <= MAX_FORMAT
    plain = short and all(isinstance(arg, (int, float, str, bytes, bytearray)) for arg in args)
    if not plain or name not in ("pack", "unpack", "unpack_from", "calcsize"):
        return unknowns.merged(interp, *args, why=path)
    try:
        bounds.items(interp, struct.calcsize(args[0]))
        return real(*args) if real is not None else Unknown((), path)
    except Exception as error:
        operators.failed(interp, error, loc)
        return unknowns.merged(interp, *args, why=path)


def bytes_method(
    interp: Run,
    owner: bytes | bytearray,
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    loc: ir.Loc | None,
) -> Value:
    """Calls a method of known bytes."""
    if name == "join" and len(args) == 1 and isinstance(args[0], (list, tuple)):
        args = [list(args[0])]
    flat = args[0] if name == "join" and args and isinstance(args[0], list) else args
    if name not in _BYTES or kwargs or not all(isinstance(arg, (int, bytes, bytearray, str)) for arg in flat):
        return unknowns.merged(interp, owner, *args, why=f"bytes.{name}")
    try:
        bounds.items(interp, len(owner))
        for arg in args:
            bounds.width(arg)
        return getattr(owner, name)(*args)
    except Exception as error:
        operators.failed(interp, error, loc)
        return unknowns.merged(interp, owner, *args, why=f"bytes.{name}")


def translation(interp: Run, args: list[Any]) -> Value:
    """Models `str.maketrans(...)`."""
    given = [str(arg) if isinstance(arg, str) else arg for arg in args]
    held = given[0].values() if given and isinstance(given[0], dict) else ()
    if any(isinstance(part, Unknown) or doubts(part) for part in (*args, *held)):
        return unknowns.merged(interp, *args, why="str.maketrans")
    try:
        return str.maketrans(*given)
    except (TypeError, ValueError):
        return unknowns.merged(interp, *args, why="str.maketrans")


def whole_number(interp: Run, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Value:
    """Models `int.to_bytes` (with the number as first argument) and `int.from_bytes`, on known values."""
    if name == "from_bytes" and args and isinstance(args[0], (list, tuple)):
        args = [bytes(args[0]) if all(type(item) is int for item in args[0]) else Unknown(), *args[1:]]
    given = [str(arg) if isinstance(arg, str) else arg for arg in args]
    if not given or not all(isinstance(arg, (int, bytes, bytearray, str)) for arg in (*given, *kwargs.values())):
        return unknowns.merged(interp, *args, why=f"int.{name}")
    try:
        bounds.width(given[1] if name == "to_bytes" and len(given) > 1 else len(given[0]) if name != "to_bytes" else 1)
        kwargs = {key: str(value) if isinstance(value, str) else value for key, value in kwargs.items()}
        return getattr(int, name)(*given, **kwargs)
    except Exception as error:
        operators.failed(interp, error, loc)
        return unknowns.merged(interp, *args, why=f"int.{name}")


def shown_as(interp: Run, value: Value, spec: Value, loc: ir.Loc | None) -> Value:
    """Models `format(value, spec)`."""
    if isinstance(value, Unknown) or not isinstance(spec, str) or doubts(spec):
        return unknowns.merged(interp, value, spec, why="builtins.format")
    return _shown(interp, value, "", str(spec), loc)


def formatted(interp: Run, text: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Models `text.format(...)`; the result remembers where its parts were written."""
    if not isinstance(text, str) or "{" not in text and "}" not in text:
        return text
    return _fields(interp, text, args, kwargs, loc, [0], 0)


def _fields(
    interp: Run,
    text: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    loc: ir.Loc | None,
    auto: list[int],
    depth: int,
) -> str:
    parts: list[str] = []
    plain = str(text)
    i = start = 0
    while i < len(plain):
        if plain[i : i + 2] in ("{{", "}}") and depth == 0:
            parts += [cut(text, start, i), plain[i]]
            i += 2
            start = i
            continue
        if plain[i] != "{":
            i += 1
            continue
        end, level = i + 1, 1
        while end < len(plain) and level:
            level += {"{": 1, "}": -1}.get(plain[end], 0)
            end += 1
        if level:
            break
        parts.append(cut(text, start, i))
        field, colon, spec = plain[i + 1 : end - 1].partition(":")
        field, _, conversion = field.partition("!")
        value = _field(interp, field, args, kwargs, loc, auto)
        if "{" in spec and depth < 2:
            spec = str(_fields(interp, spec, args, kwargs, loc, auto, depth + 1))
        parts.append(_shown(interp, value, conversion, spec, loc))
        i = start = end
    return concat([*parts, cut(text, start, len(text))])


_STEPS = re.compile(r"\.(\w+)|\[([^\]]*)\]")


def _field(
    interp: Run, field: str, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None, auto: list[int]
) -> Value:
    """The value that a field names: an argument, and attributes and items of it."""
    first = re.split(r"[.\[]", field, maxsplit=1)[0]
    if first == "" or first.isdigit():
        at = int(first) if first else auto[0]
        auto[0] += first == ""
        value: Any = args[at] if at < len(args) else ""
    else:
        value = kwargs.get(first, f"{{{field}}}")
    for name, key in _STEPS.findall(field[len(first) :]):
        if name:
            value = interp.get_attr(value, name, loc)
        else:
            value = subscripts.get_item(interp, value, int(key) if key.isdigit() else key, loc)
    return value


def _shown(interp: Run, value: Value, conversion: str, spec: str, loc: ir.Loc | None) -> str:
    """A value as a field prints it."""
    if conversion:
        if isinstance(value, str) and not doubts(value) and conversion in "ra":
            value = repr(str(value))
        else:
            value = texts.of(interp, value, loc, "repr" if conversion in "ra" else "str")
    if isinstance(value, Instance):
        return texts.of(interp, value, loc, "format", spec)
    if isinstance(value, str) and not spec:
        return value
    try:
        bounds.format_spec(spec)
        if isinstance(value, (int, float, str)) and not doubts(value):
            return format(str(value) if isinstance(value, str) else value, spec)
    except (ValueError, TypeError):
        pass
    return texts.of(interp, value, loc) if isinstance(value, (list, tuple, dict)) else shown.show(value)


_PLAIN_OF_TEXTS = frozenset(
    "startswith endswith lower upper split rsplit splitlines find rfind index count isdigit isalpha isidentifier "
    "title capitalize zfill ljust rjust center partition rpartition isspace isupper islower removeprefix "
    "removesuffix isnumeric isalnum expandtabs swapcase casefold".split()
)


class _Texts(Methods[str]):
    """Methods of texts; results of those that build code remember where their parts were written."""

    def call(self, site: Site, owner: str) -> Value:
        """Calls a method of a text; with unknown arguments the result is unknown."""
        if site.name not in ("format", "join") and any(isinstance(a, Unknown) for a in site.args):
            return unknowns.merged(site.run, *site.args)
        if site.name in _PLAIN_OF_TEXTS and any(map(embedded.doubts, (owner, *site.args))):
            return unknowns.merged(site.run, owner, *site.args, why=site.path)
        return super().call(site, owner)

    @models("join")
    def join(self, site: Site, owner: str, iterable: Value, /) -> Value:
        """Models `str.join(items)`."""
        if taint.symbol_of(iterable):
            return unknowns.merged(site.run, iterable)
        flat: list[str] = []
        for i, part in enumerate(iteration.iterate(site.run, iterable, None)):
            if i:
                flat.append(owner)
            flat.append(part if isinstance(part, str) else shown.show(part))
        return concat(flat)

    @models("replace")
    def replace(self, site: Site, owner: str, old: Value, new: Value, count: Value = -1, /) -> Value:
        """Models `str.replace(old, new)`."""
        text, found = new if isinstance(new, str) else shown.show(new), str.count(owner, str(old))
        bounds.items(site.run, found)
        if len(text) * (found or 1) > embedded.MAX_TEXT:
            raise bounds.TooLarge("a text grew past the bound")
        return embedded.replace(owner, str(old), text, count if isinstance(count, int) else -1)

    @models("format")
    def format(self, site: Site, owner: str, /, *args: Value, **kwargs: Value) -> Value:
        """Models `str.format(...)`."""
        return formatted(site.run, owner, list(args), kwargs, None)

    @models("format_map")
    def format_map(self, site: Site, owner: str, mapping: Value, /) -> Value:
        """Models `str.format_map(mapping)`."""
        return formatted(site.run, owner, [], mapping if isinstance(mapping, dict) else {}, None)

    @models("encode")
    def encode(self, site: Site, owner: str, *how: Value, **named: Value) -> Value:
        """Models `str.encode(...)`: the text itself stands for its bytes."""
        return owner

    @models("strip", "lstrip", "rstrip")
    def strip(self, site: Site, owner: str, chars: Value = None, /) -> Value:
        """Models `str.strip(chars)`, `lstrip` and `rstrip`."""
        given = str(chars) if chars is not None else None
        return embedded.strip(owner, given, site.name != "rstrip", site.name != "lstrip")

    @models("splitlines")
    def splitlines(self, site: Site, owner: str, keepends: Value = False) -> Value:
        """Models `str.splitlines(keepends)`."""
        if not isinstance(owner, Text):
            return self._plain(site, owner)
        lines = embedded.split_lines(owner)
        return lines if keepends else [embedded.strip(line, "\r\n", False, True) for line in lines]

    @models("split")
    def split(self, site: Site, owner: str, sep: Value = None, maxsplit: Value = -1) -> Value:
        """Models `str.split(sep, maxsplit)`."""
        if not isinstance(owner, Text) or not isinstance(sep, str) or not isinstance(maxsplit, int):
            return self._plain(site, owner)
        out: list[str] = []
        at = 0
        for plain in str(owner).split(str(sep), maxsplit):
            out.append(cut(owner, at, at + len(plain)))
            at += len(plain) + len(sep)
        return out

    @models("translate")
    def translate(self, site: Site, owner: str, table: Value, /) -> Value:
        """Models `str.translate(table)`."""
        if not isinstance(table, dict) or embedded.doubts(owner):
            return unknowns.merged(site.run, owner, table, why=site.path)
        made = str(owner).translate({key: value for key, value in table.items() if not isinstance(value, Unknown)})
        return owner if made == str(owner) else made

    def other(self, site: Site, owner: str) -> Value:
        """Answers a call of a method without a model (`Methods.other`): Python's result for methods known to be
        harmless, else an unknown value."""
        return self._plain(site, owner) if site.name in _PLAIN_OF_TEXTS else Unknown((), site.path)

    def _plain(self, site: Site, owner: str) -> Value:
        for arg in (*site.args, *site.kwargs.values()):
            bounds.width(arg)
        args = [str(arg) if isinstance(arg, Text) else arg for arg in site.args]
        kwargs = {key: str(value) if isinstance(value, Text) else value for key, value in site.kwargs.items()}
        return getattr(str, site.name)(str(owner), *args, **kwargs)


TEXTS = _Texts()
