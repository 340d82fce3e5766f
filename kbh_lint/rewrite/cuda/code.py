"""Rewrites of statements and expressions in CUDA text: loops, subscripts, launches, the strings of inline PTX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

from kbh_lint.rewrite.cuda.text import Token, change_texts, join, tokens
from kbh_lint.rewrite.cuda.text_names import after_head, declared_functions, significant
from kbh_lint.rewrite.program import Program, Rewrite
from kbh_lint.rewrite.tree import source_of

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_JUMPS = frozenset(("continue", "goto", "case", "default", "co_await"))
_STATEMENTS = frozenset(("for", "if", "while", "do", "switch", "try", "else", "return"))
_BEFORE_VALUE = frozenset(("return", "case", "else", "throw", "co_return", "sizeof"))


def closing(pieces: Sequence[Token], at: int) -> int | None:
    """The index of the bracket that closes the one at `at`; None when the text ends before it."""
    depth = 0
    for here in range(at, len(pieces)):
        text = pieces[here].text
        if pieces[here].kind == "other" and text in "([{":
            depth += 1
        elif pieces[here].kind == "other" and text in ")]}":
            depth -= 1
            if depth == 0:
                return here if text == _CLOSING[pieces[at].text] else None
    return None


def next_solid(pieces: Sequence[Token], at: int) -> int | None:
    """The index of the next token that is neither blank nor comment."""
    return next((i for i in range(at + 1, len(pieces)) if pieces[i].kind not in ("space", "comment")), None)


def split(pieces: Sequence[Token], separator: str) -> list[list[Token]]:
    """Cuts tokens at the separators that stand outside all brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for piece in pieces:
        depth += piece.kind == "other" and piece.text in "([{"
        depth -= piece.kind == "other" and piece.text in ")]}"
        if depth == 0 and piece.text == separator:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def while_loops(program: Program, rng: Random) -> Program:
    """`for (a; b; c) { d }` becomes `{ a; while (b) { d c; } }`, where no `continue` would leave c out."""
    source = source_of(program)
    return change_texts(program, source, lambda text: join(_while(tokens(text))))


def _while(pieces: list[Token]) -> list[Token]:
    out: list[Token] = []
    at = 0
    while at < len(pieces):
        loop = _loop(pieces, at)
        if loop is None:
            out.append(pieces[at])
            at += 1
            continue
        (start, test, step), body, end = loop
        made = f"{{ {join(start).strip()}; while ({join(test).strip() or 'true'}) {{ {join(_while(body))} "
        made += f"{join(step).strip()}; }} }}" if join(step).strip() else "} }"
        out.append(Token("other", made))
        at = end
    return out


def _loop(pieces: list[Token], at: int) -> tuple[list[list[Token]], list[Token], int] | None:
    """Head, body and end of the `for` at `at`; None when it is none, or has a pragma or a jump."""
    if pieces[at].text != "for":
        return None
    before = significant(pieces, at, -1)
    opened = next_solid(pieces, at)
    if before is None or before.text not in ("{", "}", ";") or opened is None or pieces[opened].text != "(":
        return None
    closed = closing(pieces, opened)
    first = next_solid(pieces, closed) if closed is not None else None
    if closed is None or first is None:
        return None
    last = _last(pieces, first)
    if last is None:
        return None
    head = split(pieces[opened + 1 : closed], ";")
    body = pieces[first + 1 : last] if pieces[first].text == "{" else pieces[first : last + 1]
    if len(head) != 3 or any(p.text in _JUMPS or p.kind == "directive" for p in (*pieces[opened:closed], *body)):
        return None
    # Comments to the end of a line would swallow what follows on it.
    return [[p for p in part if p.kind != "comment"] for part in head], [*body, Token("space", "\n")], last + 1


def _last(pieces: list[Token], first: int) -> int | None:
    """Where a loop's body ends that begins at `first`: a block, or an expression; None for other statements."""
    if pieces[first].text == "{":
        return closing(pieces, first)
    if pieces[first].text in _STATEMENTS or pieces[first].kind == "directive":
        return None
    return next((i for i in range(first, len(pieces)) if pieces[i].text == ";"), None)


def dereferences(program: Program, rng: Random) -> Program:
    """`pointer[i]` becomes `(*(pointer + (i)))` for the pointers that kernels and device functions are given."""
    source = source_of(program)

    def change(text: str) -> str:
        pieces = tokens(text)
        out, done = [], 0
        for pointers, start, end in _bodies(pieces):
            if start < done:
                continue
            out += [*pieces[done:start], *_dereferenced(pieces[start:end], pointers)]
            done = end
        return join([*out, *pieces[done:]])

    return change_texts(program, source, change)


def _bodies(pieces: list[Token]) -> Iterator[tuple[set[str], int, int]]:
    """(names of the arguments that are pointers, begin and end of the body) of device functions."""
    for _, name in declared_functions(pieces):
        opened = next_solid(pieces, name)
        closed = closing(pieces, opened) if opened is not None and pieces[opened].text == "(" else None
        start = next_solid(pieces, closed) if closed is not None else None
        if opened is None or closed is None or start is None or pieces[start].text != "{":
            continue
        end = closing(pieces, start)
        pointers = set()
        for part in split(pieces[opened + 1 : closed], ","):
            solid = [p for p in part if p.kind not in ("space", "comment")]
            if len(solid) > 2 and solid[-1].kind == "word" and any(p.text == "*" for p in solid):
                pointers.add(solid[-1].text)
        if end is not None and pointers:
            yield pointers, start, end


def _dereferenced(body: list[Token], pointers: set[str]) -> list[Token]:
    places = [i for i, piece in enumerate(body) if piece.kind == "word" and piece.text in pointers]
    for at in places:
        before = significant(body, at, -1)
        # A declaration of the same name, or a macro's idea of one.
        if before is not None and before.kind == "word" and before.text not in _BEFORE_VALUE:
            pointers = pointers - {body[at].text}
    return _subscripts(body, pointers)


def _subscripts(body: list[Token], pointers: set[str]) -> list[Token]:
    out: list[Token] = []
    at = 0
    while at < len(body):
        piece, opened, end = body[at], None, None
        if piece.kind == "word" and piece.text in pointers:
            before, opened = significant(body, at, -1), next_solid(body, at)
            if before is None or before.text in (".", ">", ":"):
                opened = None
            if opened is not None and body[opened].text == "[":
                end = closing(body, opened)
        if opened is None or end is None:
            out.append(piece)
            at += 1
            continue
        inner = _subscripts(body[opened + 1 : end], pointers)
        out += [Token("other", f"(*({piece.text} + ("), *inner, Token("other", ")))")]
        at = end + 1
    return out


def launch_calls(program: Program, rng: Random) -> Program:
    """`kernel<<<grid, block, bytes, stream>>>(...)` becomes a call of cudaLaunchKernelEx."""
    source = source_of(program)

    def change(text: str) -> str:
        return _launched(text, lambda: source.fresh(rng))

    return change_texts(program, source, change)


# A template is launched by this call only with its arguments written out.
_LAUNCH = re.compile(r"(?<=[;{}])(\s*)([A-Za-z_]\w*(?:\s*<[\w\s,:]*>)?)\s*<<<([^;{}<>]*)>>>\s*\(([^;{}]*)\)\s*;", re.S)
_TEMPLATE = re.compile(r"template\s*<[^{};]*>\s*(?:static\s+)?__global__[^{};(]*?(?:\([^()]*\)[^{};(]*?)?(\w+)\s*\(")
_FIELDS = ("gridDim", "blockDim", "dynamicSmemBytes", "stream")


def _launched(text: str, fresh: Callable[[], str]) -> str:
    templates = set(_TEMPLATE.findall(text))

    def made(match: re.Match[str]) -> str:
        space, kernel, how, given = match.groups()
        settings = [join(part).strip() for part in split(tokens(how), ",")]
        if not 2 <= len(settings) <= len(_FIELDS) or "//" in how + given or kernel in templates:
            return match[0]
        name = fresh()
        lines = "".join(f" {name}.{field} = {value};" for field, value in zip(_FIELDS, settings, strict=False))
        comma = ", " if given.strip() else ""
        call = f"cudaLaunchKernelEx(&{name}, {kernel}{comma}{given});"
        return f"{space}{{ cudaLaunchConfig_t {name} = {{}};{lines} {call} }}"

    return _LAUNCH.sub(made, text)


_PIECE = re.compile(r"(?<=[\w.])(?=[.%$]\w)")


def split_strings(program: Program, rng: Random) -> Program:
    """Strings of inline PTX are written as two that stand side by side."""
    source = source_of(program)

    def change(text: str) -> str:
        return join([Token(p.kind, " ".join(_two(p.text))) if _is_ptx(p) else p for p in tokens(text)])

    return change_texts(program, source, change)


def macro_strings(program: Program, rng: Random) -> Program:
    """The first parts of inline PTX come from macros."""
    source = source_of(program)

    def change(text: str) -> str:
        macros: dict[str, str] = {}
        out = []
        for piece in tokens(text):
            parts = _two(piece.text) if _is_ptx(piece) else [piece.text]
            if len(parts) == 2:
                parts[0] = macros.setdefault(parts[0], source.fresh(rng))
            out.append(Token(piece.kind, " ".join(parts)))
        lines = "".join(f"#define {name} {value}\n" for value, name in macros.items())
        return (after_head(join(out), lines) or text) if macros else text

    return change_texts(program, source, change)


def _is_ptx(piece: Token) -> bool:
    return piece.kind == "string" and piece.text.startswith('"') and len(piece.text) > 12


def _two(text: str) -> list[str]:
    """A string literal as two, cut before a modifier of an instruction; as one where there is none."""
    cuts = [m.start() for m in _PIECE.finditer(text) if "\\" not in text[max(0, m.start() - 5) : m.start()]]
    if not cuts:
        return [text]
    cut = cuts[len(cuts) // 2]
    return [f'{text[:cut]}"', f'"{text[cut:]}']


REWRITES = (
    Rewrite("cuda-while", "for loops in CUDA text are while loops", while_loops),
    Rewrite("cuda-dereference", "subscripts of pointers in CUDA text are sums that are dereferenced", dereferences),
    Rewrite("cuda-launch-call", "launches in CUDA text are calls of cudaLaunchKernelEx", launch_calls),
    Rewrite("cuda-split-strings", "inline PTX is written in strings side by side", split_strings),
    Rewrite("cuda-macro-strings", "parts of inline PTX are macros", macro_strings),
)
