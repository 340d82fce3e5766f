"""Code that is decoded, loaded or made at run time: what constants decode to is decoded and read, the rest is a hole.

Decoding runs the standard library's own decoders on known bytes, within bounds; nothing is unpickled or unmarshalled.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import lzma
import zlib
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Value
from kbh_lint.frontends import python
from kbh_lint.frontends.python import PythonUnit
from kbh_lint.host.datamodel import prelude
from kbh_lint.host.effects import builds
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.library_objects import OwnModule
from kbh_lint.host.values.objects import Instance
from kbh_lint.host.values.run_state import HoleKind
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import Here, Piece, Text
from kbh_lint.source.spans import Span

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_MADE = "code is made at run time"
_TREES = "ast"
_ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST
MAX_IN = 4_000_000
MAX_OUT = 4_000_000
MAX_LOADED = 32  # texts that one run may make into code
SHORT = 64  # so many characters are an expression at most; as many of these count as one text

Decoder = Callable[[bytes], bytes]


def _inflate(data: bytes, wbits: int = zlib.MAX_WBITS) -> bytes:
    """zlib and gzip, at most MAX_OUT bytes."""
    return zlib.decompressobj(wbits).decompress(data, MAX_OUT)


_DECODERS: dict[str, Decoder] = {
    "base64.b64decode": base64.b64decode, "base64.standard_b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode, "base64.decodebytes": base64.b64decode,
    "base64.b32decode": base64.b32decode, "base64.b16decode": lambda data: base64.b16decode(data, True),
    "base64.a85decode": base64.a85decode, "base64.b85decode": base64.b85decode,
    "binascii.a2b_base64": binascii.a2b_base64, "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_hex": binascii.unhexlify, "zlib.decompress": _inflate,
    "gzip.decompress": lambda data: _inflate(data, 31),
    "bz2.decompress": lambda data: bz2.BZ2Decompressor().decompress(data, MAX_OUT),
    "lzma.decompress": lambda data: lzma.LZMADecompressor().decompress(data, MAX_OUT),
    "base64.b64encode": base64.b64encode, "binascii.hexlify": binascii.hexlify,
}  # fmt: skip
_CODECS_DECODE = "codecs.decode"
_CODECS: dict[str, Decoder] = {
    "hex": binascii.unhexlify, "hex_codec": binascii.unhexlify, "base64": base64.b64decode,
    "base64_codec": base64.b64decode, "zlib": _inflate, "zlib_codec": _inflate, "zip": _inflate,
}  # fmt: skip


@dataclass(slots=True, eq=False)
class MadeUnit(PythonUnit):
    """A Python text that was made at run time; its places are those of the texts that it was made from."""

    made: Text = field(default_factory=lambda: Text(""))
    starts: list[int] = field(default_factory=list)

    def span(self, loc: ir.Loc) -> Span:
        """Returns the place in the submission's text from which the code at `loc` comes."""
        line = max(0, min(loc[1] - 1, len(self.starts) - 1))
        origin = self.made.origin(min(self.starts[line] + loc[2], max(len(self.made) - 1, 0)))
        path, row, column = origin if origin is not None else (self.path, 1, 1)
        return Span(path, row, column, row, column + 1)


def decoded(interp: Run, text: str | bytes, loc: ir.Loc | None) -> Any:
    """Returns a text or bytes that a call decoded, marked so that findings inside point at that call."""
    if isinstance(text, bytes) or loc is None:
        return text
    span = loc[0].span(loc)
    return Text(text, (Piece(0, len(text), Here(span.path, span.line, span.column), 0),))


def decode(run: Run, path: str, data: Value, loc: ir.Loc | None) -> Value:
    """Models the decoders of base64, zlib, gzip, bz2, lzma, binascii and codecs on known bytes; unknown for other
    data."""
    return _by(run, _DECODERS.get(path), path, data, loc)


def decode_as(run: Run, data: Value, encoding: str, loc: ir.Loc | None) -> Value:
    """Models `codecs.decode(data, encoding)`."""
    if isinstance(data, str) and encoding.replace("_", "") in ("rot13", "rot-13"):
        return decoded(run, codecs.decode(str(data), "rot13"), loc) if len(data) <= MAX_IN else _unknown(_CODECS_DECODE)
    if encoding.replace("-", "").lower() in ("utf8", "ascii", "latin1") and isinstance(data, bytes):
        return decoded(run, data.decode(encoding, "replace"), loc)
    return _by(run, _CODECS.get(encoding), _CODECS_DECODE, data, loc)


def _by(run: Run, decoder: Decoder | None, path: str, data: Value, loc: ir.Loc | None) -> Value:
    if isinstance(data, str):
        data = str(data).encode("utf-8", "replace")
    if decoder is None or not isinstance(data, (bytes, bytearray)) or len(data) > MAX_IN:
        return _unknown(path, data)
    run.burn(len(data) // 512)
    try:
        made = decoder(bytes(data))
    except (ValueError, EOFError, OSError, zlib.error, lzma.LZMAError, MemoryError) as error:
        run.may_fail("ValueError" if isinstance(error, ValueError) else "OSError", loc)
        return _unknown(path)
    run.burn(len(made) // 512)
    return made


def _unknown(path: str, data: Value = None) -> Unknown:
    """What a decoder gives of something that is not known; what was asked for stays so."""
    symbol = taint.symbol_of(data)
    return taint.of_symbol(symbol) if symbol else Unknown((), f"decoded by {path}")


# --- code --------------------------------------------------------------------------------------------------


def compiled(run: Run, source: Value, mode: Value, flags: Value, path: str, loc: ir.Loc | None) -> Value:
    """Models `compile(source, name, mode, flags)`: the source text, or the text of a tree, stands for the code object.
    Some flags ask for the tree of a text."""
    if isinstance(source, Instance) and _TREES in run.scopes.library:
        return prelude.beside(_TREES).code_of(run, source, mode, loc)
    if isinstance(flags, int) and flags & _ONLY_TREE:
        return run.call(prelude.value(run, f"{_TREES}.parse"), [source], {"mode": mode}, loc)
    if isinstance(source, Unknown) and source.why:
        return source.like()
    return source if isinstance(source, (str, bytes)) else Unknown((), path)


def run_text(
    interp: Run, source: Value, scope: dict[str, Value] | None, loc: ir.Loc | None, own: dict[str, Value] | None = None
) -> Value:
    """Models exec and eval. A known text is interpreted like the rest of the file, and noted; an unknown text is
    recorded as code that could not be read. What it binds goes into `own`, where that is given."""
    if isinstance(source, bytes) and len(source) <= MAX_IN:
        source = decoded(interp, source.decode("utf-8", "replace"), loc)
    if not isinstance(source, str):
        why = getattr(source, "why", "") or getattr(source, "path", "")
        return _unread(interp, f"{_MADE} (exec or eval) from what is not known{f': {why}' if why else ''}", loc)
    if len(source) > SHORT or not any(hole.kind is HoleKind.MADE and hole.loc == loc for hole in interp.trace.unread):
        interp.miss(f"{_MADE} (exec or eval)", loc, HoleKind.MADE)
    return execute(interp, source, scope if scope is not None else interp.scopes.main.vars, loc, own)


def _unread(interp: Run, reason: str, loc: ir.Loc | None) -> Unknown:
    interp.ran_unread(reason, loc, HoleKind.MADE)
    return Unknown((), "code that was not read")


def execute(
    interp: Run, source: str, scope: dict[str, Any], loc: ir.Loc | None, own: dict[str, Value] | None = None
) -> Any:
    """Runs a text as Python in a scope, or in the scope `own` inside it. Returns the value of a single expression, None
    for statements."""

    interp.made += 1 if len(source) <= SHORT else SHORT
    interp.burn(4)
    if interp.made > MAX_LOADED * SHORT:
        return _unread(interp, f"{_MADE} more than {MAX_LOADED} times", loc)
    text = source if isinstance(source, Text) and source.pieces else decoded(interp, str(source), loc)
    text = text if isinstance(text, Text) else Text(str(text))
    try:
        starts = [0, *(i + 1 for i, char in enumerate(str(text)) if char == "\n")]
        unit = MadeUnit("<made>", str(text), made=text, starts=starts)
        module = python.lower(str(text), unit=unit)
    except (SyntaxError, ValueError, RecursionError, python.TooDeep):
        return _unread(interp, f"{_MADE} from a text that is not Python", loc)
    outer = Env(scope, None)
    frame = Frame(outer if own is None else Env(own, outer), outer, loc, None)
    if len(module.body) == 1 and isinstance(module.body[0], ir.ExprS):
        return interp.eval(module.body[0].value, frame)
    interp.block(module.body, frame)
    return None


def load_module(interp: Run, path: str, loc: ir.Loc | None) -> Value:
    """Loads a module from the file at a path: one that belongs to the submission or was written by it is
    interpreted."""
    if path.endswith(builds.BUILT):
        return interp.load_library(path, loc)
    text = builds.find_file(interp, path)
    if text is None:
        if path in interp.files.asked:  # it was taken to be there
            interp.files.left_over = True
        name = path.rpartition("/")[2] or "a file"
        interp.miss(f"a module is loaded from {name}, which is not part of the submission", loc)
        return Unknown((), "a module from an unknown file")
    scope: dict[str, Any] = {"__name__": "loaded", "__file__": path}
    execute(interp, text, scope, loc)
    return OwnModule(scope)
