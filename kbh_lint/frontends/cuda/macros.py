"""Macro definitions and their expansion, each token with the place where it was written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbh_lint.base.records import dataclass
from kbh_lint.base.regexes import regex

MAX_EXPANSION = 4_000_000
MAX_TOKENS = 300_000
MAX_ARG_TOKENS = 100_000
MAX_UNBALANCED = 20
MAX_MACRO_DEPTH = 60

LEX = regex(
    r'(?P<ident>[A-Za-z_$][\w$]*)|\.?\d(?:[eEpP][+-]|\'?[\w.])*+|"(?:[^"\\\n]+|\\.)*+"?|\'(?:[^\'\\\n]+|\\.)*+\''
    r"|(?P<space>(?:\s+|\\\r?\n|//(?:\\\r?\n|[^\n])*+|/\*.*?(?:\*/|\Z))+)|\#\#|.",
    re.S,
)
_GLUE = regex(r"[\w$][\w$]|[-+<>&|=:*/]{2}")


class Token(NamedTuple):
    """A piece of text, the place it was written at (offset, length in the given text) and its macro use."""

    text: str
    offset: int
    length: int
    frame: int
    ident: bool


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro definition. `params` is None for an object-like macro; the last parameter of a variadic one takes all
    remaining arguments."""

    name: str
    params: tuple[str, ...] | None
    variadic: bool
    body: tuple[Token, ...]


class ExpansionError(Exception):
    """A macro expands to too much text, or nests too deeply."""


def tokenize(text: str, start: int, end: int, frame: int = 0) -> list[Token]:
    """The tokens of the text from `start` to `end`; white space and comments become one space each."""
    tokens = []
    for match in LEX.finditer(text, start, end):
        kind = match.lastgroup
        at, stop = match.span()
        if kind == "space":
            tokens.append(Token(" ", at, 1, frame, False))
        else:
            tokens.append(Token(match.group(), at, stop - at, frame, kind == "ident"))
    return tokens


_HEAD = regex(r"\s*([A-Za-z_$][\w$]*)(\(([^)]*)\))?")


def parse_define(text: str, start: int, end: int) -> Macro | None:
    """The macro that a `#define` with the text from `start` to `end` behind it defines; None when it has no name."""
    head = _HEAD.match(text, start, end)
    if head is None:
        return None
    params: tuple[str, ...] | None = None
    variadic = False
    if head.group(2) is not None:
        inside = head.group(3).replace("\\\n", " ").replace("\\\r\n", " ").strip()
        names = [name.strip() for name in inside.split(",")] if inside else []
        if names and names[-1].endswith("..."):
            variadic = True
            names[-1] = names[-1][:-3].strip() or "__VA_ARGS__"
        params = tuple(names)
    body = tokenize(text, head.end(), end)
    while body and body[0].text == " ":
        body.pop(0)
    while body and body[-1].text == " ":
        body.pop()
    return Macro(head.group(1), params, variadic, tuple(body))


class Expander:
    """Expands macros of one text. Its size and depth are bounded over the whole text."""

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self.macros = macros
        self.frames = 0
        self.produced = 0
        self.tokens = 0
        self.unbalanced = 0
        self.depth = 0

    def use(self, macro: Macro, args: list[list[Token]] | None, hidden: frozenset[str] = frozenset()) -> list[Token]:
        """The tokens to which one use of a macro with these arguments expands; macros in them are expanded too."""
        if self.depth >= MAX_MACRO_DEPTH:
            raise ExpansionError("macros nest too deeply")
        self.depth += 1
        self.frames += 1
        replaced = self._substitute(macro, args or [], self.frames, hidden)
        self._spend(replaced)
        expanded = self.expand(replaced, hidden | {macro.name})
        self.depth -= 1
        return expanded

    def expand(self, tokens: Sequence[Token], hidden: frozenset[str]) -> list[Token]:
        """`tokens` with all macros expanded except `hidden`, those that are being expanded already."""
        out: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            macro = self.macros.get(token.text) if token.ident and token.text not in hidden else None
            if macro is None:
                out.append(token)
                at += 1
                continue
            args: list[list[Token]] | None = None
            after = at + 1
            if macro.params is not None:
                args, after = read_args(tokens, at + 1)
                if args is None:
                    self._count_unbalanced(tokens, after)
                    out.append(token)
                    at += 1
                    continue
            out += self.use(macro, args, hidden)
            at = after
        return out

    def _count_unbalanced(self, tokens: Sequence[Token], at: int) -> None:
        if at < len(tokens) and tokens[at].text == "(":
            self.unbalanced += 1
            if self.unbalanced > MAX_UNBALANCED:
                raise ExpansionError("macro arguments do not end")

    def _spend(self, tokens: Sequence[Token]) -> None:
        self.produced += sum(len(token.text) for token in tokens) + 1
        self.tokens += len(tokens) + 1
        if self.produced > MAX_EXPANSION or self.tokens > MAX_TOKENS:
            raise ExpansionError("macros expand to too much text")

    def _substitute(self, macro: Macro, args: list[list[Token]], frame: int, hidden: frozenset[str]) -> list[Token]:
        if macro.params is None:
            return _paste([token._replace(frame=frame) for token in macro.body])
        bound = bind(macro, args)
        body = _resolve_va_opt(macro, bound)
        out: list[Token] = []
        expanded: dict[str, list[Token]] = {}
        for at, token in enumerate(body):
            if token.text == "#" and _param_after(body, at, bound) is not None:
                continue
            arg = bound.get(token.text) if token.ident else None
            if arg is None:
                out.append(token._replace(frame=frame))
                continue
            before = _neighbour(body, at, -1)
            if before == "#":
                out.append(_stringize(arg, token._replace(frame=frame)))
            elif before == "##" or _neighbour(body, at, 1) == "##":
                if before == "##" and not arg and _drop_comma(out):
                    continue
                out += arg or [Token("", token.offset, 0, frame, False)]
            else:
                if token.text not in expanded:
                    expanded[token.text] = self.expand(arg, hidden)
                self._spend(expanded[token.text])
                out += expanded[token.text]
        return _paste(out)


def read_args(tokens: Sequence[Token], at: int) -> tuple[list[list[Token]] | None, int]:
    """The arguments in parentheses that begin at token `at` (or behind a space there), and the index behind them; None
    for the arguments when there are no parentheses."""
    while at < len(tokens) and tokens[at].text == " ":
        at += 1
    if at >= len(tokens) or tokens[at].text != "(":
        return None, at
    depth = 0
    args: list[list[Token]] = [[]]
    for index in range(at, min(len(tokens), at + MAX_ARG_TOKENS)):
        token = tokens[index]
        text = token.text
        if text in ("(", "[", "{"):
            depth += 1
            if depth == 1:
                continue
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return [trim(arg) for arg in args], index + 1
        elif text == "," and depth == 1:
            args.append([])
            continue
        args[-1].append(token)
    return None, at


def trim(tokens: list[Token]) -> list[Token]:
    """`tokens` without spaces at either end."""
    start, end = 0, len(tokens)
    while start < end and tokens[start].text == " ":
        start += 1
    while end > start and tokens[end - 1].text == " ":
        end -= 1
    return tokens[start:end]


def bind(macro: Macro, args: list[list[Token]]) -> dict[str, list[Token]]:
    """The argument tokens of each parameter, by name; the last parameter of a variadic macro gets all that are left."""
    names = macro.params or ()
    bound: dict[str, list[Token]] = {name: [] for name in names}
    for index, name in enumerate(names):
        if macro.variadic and index == len(names) - 1:
            rest: list[Token] = []
            for number, arg in enumerate(args[index:]):
                if number:
                    place = arg[0] if arg else (rest[-1] if rest else Token("", 0, 0, 0, False))
                    rest.append(Token(",", place.offset, 1, place.frame, False))
                    rest.append(Token(" ", place.offset, 1, place.frame, False))
                rest += arg
            bound[name] = trim(rest)
        elif index < len(args):
            bound[name] = args[index]
    return bound


def _resolve_va_opt(macro: Macro, bound: Mapping[str, list[Token]]) -> Sequence[Token]:
    body = macro.body
    if not macro.variadic or all(token.text != "__VA_OPT__" for token in body):
        return body
    filled = bool(bound.get((macro.params or ("",))[-1]))
    out: list[Token] = []
    at = 0
    while at < len(body):
        if body[at].text == "__VA_OPT__":
            args, after = read_args(body, at + 1)
            if args is not None:
                if filled:
                    inside = [token for token in body[at + 1 : after] if token.text != " " or token.offset]
                    out += trim(list(inside))[1:-1]
                at = after
                continue
            out += body[at:]
            break
        out.append(body[at])
        at += 1
    return out


def _neighbour(body: Sequence[Token], at: int, step: int) -> str:
    at += step
    while 0 <= at < len(body) and body[at].text == " ":
        at += step
    return body[at].text if 0 <= at < len(body) else ""


def _param_after(body: Sequence[Token], at: int, bound: Mapping[str, list[Token]]) -> str | None:
    name = _neighbour(body, at, 1)
    return name if name in bound else None


def _drop_comma(out: list[Token]) -> bool:
    """GNU's `, ## __VA_ARGS__` with nothing to add: takes the `##` and the comma away."""
    back = len(out)
    for wanted in ("##", ","):
        back -= 1
        while back >= 0 and out[back].text == " ":
            back -= 1
        if back < 0 or out[back].text != wanted:
            return False
    del out[back:]
    return True


def _stringize(arg: list[Token], place: Token) -> Token:
    text = "".join(
        token.text.replace("\\", "\\\\").replace('"', '\\"') if token.text[:1] in "\"'" else token.text for token in arg
    )
    if not arg:
        return Token('""', place.offset, place.length, place.frame, False)
    length = max(arg[-1].offset + arg[-1].length - arg[0].offset, 1)
    return Token(f'"{text}"', arg[0].offset, length, arg[0].frame, False)


def _paste(tokens: list[Token]) -> list[Token]:
    if all(token.text != "##" for token in tokens):
        return tokens
    out: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.text != "##" or not out:
            out.append(token)
            at += 1
            continue
        while out and out[-1].text == " ":
            out.pop()
        at += 1
        while at < len(tokens) and tokens[at].text == " ":
            at += 1
        if out and at < len(tokens):
            left, right = out.pop(), tokens[at]
            at += 1
            if left.text and right.text and left.text != ",":
                ident = left.ident and (right.ident or right.text[:1].isalnum())
                out.append(Token(left.text + right.text, left.offset, left.length, left.frame, ident))
            else:  # nothing to paste, or GNU's comma before __VA_ARGS__
                out += [part for part in (left, right) if part.text]
    return out


def needs_space(left: str, right: str) -> bool:
    """Whether two tokens would be read as one if they were written without a space between."""
    return bool(left and right and _GLUE.match(left[-1] + right[0]))
