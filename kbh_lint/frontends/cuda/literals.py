"""C++ literals to Python values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbh_lint.base.regexes import regex

_INTEGER = regex(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)([uUlLzZ]*)\Z")
_FLOAT = regex(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlL]?\Z")
_HEX_FLOAT = regex(r"(0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?\d+)[fFlL]?\Z")
_MAX_DIGITS = 400

# A string literal as it stands in C++ text, with its prefix; the raw form first.
STRING = regex(
    r'(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\((?P<raw>.*?)\)(?P=mark)"|(?:u8|[uUL])?"(?P<plain>(?:[^"\\\n]+|\\.)*+)"?',
    re.S,
)
_ESCAPE = regex(r"\\(?:\r?\n|x[0-9a-fA-F]+|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.S)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": "", "\r": ""}


def integer(text: str) -> int | None:
    """The value of an integer literal such as `0x1Fu`, `1'000`, `0b101` or `017`; None for other text."""
    text = text.replace("'", "")
    match = _INTEGER.match(text) if len(text) <= _MAX_DIGITS else None
    if match is None:
        return None
    digits = match.group(1)
    if digits[:2] in ("0x", "0X"):
        return int(digits[2:], 16)
    if digits[:2] in ("0b", "0B"):
        return int(digits[2:], 2)
    if digits[0] == "0" and len(digits) > 1:
        return int(digits, 8) if all(digit < "8" for digit in digits) else None
    return int(digits)


def integer_type(text: str, value: int) -> str:
    """The type of an integer literal with this value: the first type that its suffix allows and that can hold the
    value."""
    suffix = text.lower().lstrip("0123456789xabcdef'+- ")
    unsigned = "u" in suffix or (text[:2].lower() in ("0x", "0b") or text[:1] == "0") and value >= 1 << 31
    wide = "l" in suffix or "z" in suffix or not -(1 << 31) <= value < (1 << 32 if unsigned else 1 << 31)
    if wide and value >= 1 << 63:
        unsigned = True
    elif wide and "u" not in suffix:
        unsigned = False
    return ("u" if unsigned else "i") + ("64" if wide else "32")


def number(text: str) -> int | float | None:
    """The value of a number literal with any standard suffix, with or without a sign; None for other text."""
    if text[:1] in ("-", "+"):
        unsigned = number(text[1:].lstrip(" ")) if text[1:2] not in ("-", "+") else None
        return -unsigned if unsigned is not None and text[0] == "-" else unsigned
    value = integer(text)
    if value is not None:
        return value
    text = text.replace("'", "")
    if len(text) > _MAX_DIGITS:
        return None
    match = _FLOAT.match(text)
    if match is not None:
        return float(match.group(1))
    match = _HEX_FLOAT.match(text)
    if match is None:
        return None
    try:
        return float.fromhex(match.group(1))
    except (ValueError, OverflowError):
        return None


def character(text: str) -> int:
    """`'a'`, `'\\n'` -> the code of the (first) character."""
    inside = text[text.find("'") + 1 :].removesuffix("'")
    value = _unescape(inside)
    return ord(value[0]) if value else 0


def _escape(text: str) -> str:
    body = text[1:]
    if body[0] in "xuU" and len(body) > 1:
        code = int(body[1:], 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if body[0] in "01234567":
        return chr(int(body, 8))
    if body[0] in "\r\n":
        return ""
    return _SIMPLE.get(body, body)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _escape(match.group()), text) if "\\" in text else text


def strings(text: str) -> str:
    """The value of adjacent string literals, joined."""
    parts = []
    for match in STRING.finditer(text):
        raw = match.group("raw")
        parts.append(raw if raw is not None else _unescape(match.group("plain")))
    return "".join(parts)


def string_offsets(text: str) -> Iterator[tuple[int, int]]:
    """Yields, for each run of characters in the value of `strings(text)`, its offset in that value and its offset in
    `text`."""
    at = 0
    for match in STRING.finditer(text):
        group = "raw" if match.group("raw") is not None else "plain"
        start, body = match.start(group), match.group(group)
        yield at, start
        if group == "raw":
            at += len(body)
            continue
        inside = 0
        for escape in _ESCAPE.finditer(body):
            at += escape.start() - inside + len(_escape(escape.group()))
            inside = escape.end()
            yield at, start + inside
        at += len(body) - inside


def is_separator(text: str, quote: int) -> bool:
    """Whether the single quote at `quote` separates digits (`1'000`) and does not begin a character literal."""
    at = quote
    while at > 0 and quote - at < 24 and (text[at - 1].isalnum() or text[at - 1] in "_'."):
        at -= 1
    return at < quote and text[at].isdigit()


_RAW_PREFIX = regex(r"(?<![A-Za-z0-9_])(?:u8|[uUL])?R\Z")
_RAW_MARK = regex(r'"([^()\\\s]{0,16})\(')


def raw_end(text: str, quote: int) -> int | None:
    """The end of the raw string literal whose `"` is at `quote`: the end of the text if it is not closed, None if there
    is no raw string."""
    if text[quote - 1 : quote] != "R" or not _RAW_PREFIX.search(text, max(quote - 4, 0), quote):
        return None
    mark = _RAW_MARK.match(text, quote)
    if mark is None:
        return None
    end = text.find(f'){mark.group(1)}"', mark.end())
    return len(text) if end < 0 else end + len(mark.group(1)) + 2
