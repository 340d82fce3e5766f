"""The rewrite that gives kernels their arguments in one struct."""

from __future__ import annotations

import re
from random import Random

from kbh_lint.base.records import dataclass
from kbh_lint.rewrite.cuda.code import closing, split
from kbh_lint.rewrite.cuda.parts import Launch, functions, given_at, launches
from kbh_lint.rewrite.cuda.text import Token, change_texts, join, texts, tokens, words_in
from kbh_lint.rewrite.cuda.text_names import declared_functions, outside_words, significant, string_words
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import source_of

_NUMBERS = frozenset("int unsigned long short char size_t int64_t int32_t uint32_t uint64_t float double bool".split())
_BEFORE_VALUE = frozenset("return case else throw sizeof".split())


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a text whose arguments can be packed: the tokens at which its text and its list of parameters begin,
    where its body ends, the template head before it, and its parameters as (type, name)."""

    name: str
    begin: int
    opened: int
    end: int
    head: str
    parameters: tuple[tuple[str, str], ...]


def params_struct(program: Program, rng: Random) -> Program:
    """`kernel<<<g, b>>>(x, n)` becomes `kernel<<<g, b>>>(Params{x, (int)(n)})`, and `x` in its body `params.x`."""
    source = source_of(program)
    parts = [tokens(text) for text in texts(program, source)]
    outside = outside_words(program, source) | string_words(source)
    directives = words_in(parts, "directive", "raw")
    packs = {
        kernel.name: (source.fresh(rng), source.fresh(rng))
        for pieces in parts
        for kernel in kernels(pieces)
        if kernel.name not in outside | directives
        and not directives & {name for _, name in kernel.parameters}
        and all(only_launched(other, kernel) for other in parts)
    }
    if not packs:
        raise NotApplicable("no kernel takes arguments that a struct can hold")
    return change_texts(program, source, lambda text: _packed(text, packs))


def kernels(pieces: list[Token]) -> list[Kernel]:
    """The kernels of a text that are defined there, with parameters of plain types, none of whose names means anything
    else in their bodies."""
    found = []
    names = [pieces[name].text for _, name in declared_functions(pieces)]
    for one in functions(pieces):
        if pieces[one.at].text != "__global__" or names.count(one.name) != 1:
            continue
        parameters = _parameters(pieces[one.opened + 1 : one.closed])
        if parameters and not _ambiguous(pieces[one.start : one.end], parameters):
            found.append(Kernel(one.name, one.begin, one.opened, one.end, one.head, parameters))
    return found


def _parameters(pieces: list[Token]) -> tuple[tuple[str, str], ...]:
    """(type, name) of each parameter; none where one is neither a pointer nor a number."""
    found = []
    for part in split([p for p in pieces if p.kind not in ("space", "comment")], ","):
        words = [p.text for p in part]
        pointer = words.count("*") == 1
        plain = [word for word in words[:-1] if word != "const" and not word.startswith("__restrict")]
        if len(words) < 2 or part[-1].kind != "word" or any(word in "=&[]()." for word in words):
            return ()
        if not pointer and not set(plain) <= _NUMBERS:
            return ()
        kept = " ".join(words[:-1]) if pointer else " ".join(plain)
        found.append((kept.replace(": :", "::"), words[-1]))
    return tuple(found)


def _ambiguous(body: list[Token], parameters: tuple[tuple[str, str], ...]) -> bool:
    """Whether a parameter's name is declared anew in the body, or captured by name in a lambda there."""
    names = {name for _, name in parameters}
    for at, piece in enumerate(body):
        before = significant(body, at, -1) if piece.kind == "word" and piece.text in names else None
        if before is None:
            continue
        if before.kind == "word" and before.text not in _BEFORE_VALUE:
            return True
        if before.text in ("*", "&") and _type_before(body, at) or _is_captured(body, at):
            return True
    return False


def _is_captured(body: list[Token], at: int) -> bool:
    """Whether the word at `at` stands in the list of what a lambda captures."""
    after = significant(body, at, 1)
    if after is None or after.text not in ("]", ","):
        return False
    opened = next((i for i in range(at, -1, -1) if body[i].text in ("[", "(", "{", ";")), 0)
    owner = significant(body, opened, -1)
    return body[opened].text == "[" and (owner is None or owner.kind != "word" and owner.text not in ("]", ")"))


def _type_before(body: list[Token], at: int) -> bool:
    """Whether what stands before a `*` or `&` at the place before `at` is a type rather than a factor."""
    here = at - 1
    while here >= 0 and (body[here].kind in ("space", "comment") or body[here].text in ("*", "&", "const")):
        here -= 1
    beyond = significant(body, here, -1) if here >= 0 else None
    return here >= 0 and body[here].kind == "word" and (beyond is None or beyond.text in (";", "{", "}", "(", ","))


def only_launched(pieces: list[Token], kernel: Kernel) -> bool:
    """Whether a text that names a kernel defines it, and else launches it with as many arguments as it has
    parameters."""
    declared = {name for _, name in declared_functions(pieces)}
    found = {launch.named: launch for launch in launches(pieces)}
    if not any(pieces[name].text == kernel.name for name in declared):
        return all(piece.text != kernel.name for piece in pieces)
    for at, piece in enumerate(pieces):
        if piece.kind != "word" or piece.text != kernel.name or at in declared:
            continue
        launch = found.get(at)
        if launch is None or len(launch.arguments) != len(kernel.parameters):
            return False
        if kernel.head and not given_at(pieces, at)[0] or "..." in kernel.head:
            return False
    return True


def _packed(text: str, packs: dict[str, tuple[str, str]]) -> str:
    """A text in which the named kernels take one struct; `packs` gives the names of its type and of the parameter."""
    pieces = tokens(text)
    found = {kernel.name: kernel for kernel in kernels(pieces) if kernel.name in packs}
    new: dict[int, str] = {}  # by token, what stands in its place
    for kernel in found.values():
        _define(pieces, kernel, packs[kernel.name], new)
    for launch in launches(pieces):
        if launch.name in found:
            _hand(pieces, found[launch.name], packs[launch.name][0], launch, new)
    return "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))


def _define(pieces: list[Token], kernel: Kernel, names: tuple[str, str], new: dict[int, str]) -> None:
    """Writes to `new` a kernel that takes a struct, and the struct before it."""
    pack, parameter = names
    fields = " ".join(f"{kind} {name};" for kind, name in kernel.parameters)
    head = f"{kernel.head}\n" if kernel.head else ""
    new[kernel.begin] = f"{head}struct {pack} {{ {fields} }};\n{new.get(kernel.begin, pieces[kernel.begin].text)}"
    closed = closing(pieces, kernel.opened) or kernel.opened
    new.update(dict.fromkeys(range(kernel.opened + 1, closed), ""))
    new[closed] = f"{pack}{_arguments(kernel.head)} {parameter})"
    own = {name for _, name in kernel.parameters}
    for at in range(closed + 1, kernel.end):
        if pieces[at].kind == "word" and pieces[at].text in own and not is_member(pieces, at):
            new[at] = f"{parameter}.{pieces[at].text}"


def _hand(pieces: list[Token], kernel: Kernel, pack: str, launch: Launch, new: dict[int, str]) -> None:
    """Writes to `new` a launch that hands on a struct."""
    given = ", ".join(given_at(pieces, launch.named)[0])
    listed = ", ".join(
        value if "*" in kind else f"({kind})({value})"
        for (kind, _), value in zip(kernel.parameters, launch.arguments, strict=True)
    )
    new.update(dict.fromkeys(range(launch.opened + 1, launch.closed), ""))
    new[launch.closed] = f"{pack}<{given}>{{{listed}}})" if given else f"{pack}{{{listed}}})"


def _arguments(head: str) -> str:
    """The parameters of a template head as arguments: `template <typename T, int N>` is `<T, N>`."""
    if not head:
        return ""
    inside = head[head.index("<") + 1 : head.rindex(">")]
    return "<" + ", ".join(re.split(r"=", part)[0].split()[-1] for part in inside.split(",")) + ">"


def is_member(pieces: list[Token], at: int) -> bool:
    """Whether the word at `at` is a member or a qualified name."""
    solid = [p for p in pieces[max(0, at - 6) : at] if p.kind not in ("space", "comment")]
    return bool(solid) and (solid[-1].text == "." or join(solid[-2:]) in ("->", "::"))


REWRITES = (Rewrite("cuda-params-struct", "kernels in CUDA text are given their arguments in a struct", params_struct),)
