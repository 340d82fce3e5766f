"""What stands in CUDA text, by its tokens: functions that are defined there, their parameters, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kbh_lint.base.records import dataclass
from kbh_lint.rewrite.cuda.code import closing, next_solid, split
from kbh_lint.rewrite.cuda.text import Token, join, words_in
from kbh_lint.rewrite.cuda.text_names import declared_functions, significant

_BEFORE_FUNCTION = frozenset("static inline extern __forceinline__ __noinline__ __host__ constexpr".split())
_OF_PARAMETERS = re.compile(r"\b(?:__restrict(?:__)?|__grid_constant__)(?!\w)")
_MAX_GIVEN = 200  # tokens of template arguments


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel or device function that a text defines: its name, and by tokens where its declaration begins (`begin`),
    its qualifier (`at`) and its name stand, the brackets around its parameters and its body, and its template head."""

    name: str
    begin: int
    at: int
    named: int
    opened: int
    closed: int
    start: int
    end: int
    head: str


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch: by tokens where the kernel begins and where its name alone stands, and the brackets around its
    arguments; the kernel as it is written, its name, the settings and the arguments."""

    at: int
    named: int
    opened: int
    closed: int
    kernel: str
    name: str
    settings: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: the type, without what only its place allows (`__restrict__`), and the name."""

    kind: str
    name: str


def functions(pieces: list[Token]) -> Iterator[Function]:
    """The kernels and device functions that a text defines, in its order."""
    for at, named in declared_functions(pieces):
        opened = next_solid(pieces, named)
        closed = closing(pieces, opened) if opened is not None and pieces[opened].text == "(" else None
        start = next_solid(pieces, closed) if closed is not None else None
        end = closing(pieces, start) if start is not None and pieces[start].text == "{" else None
        if opened is not None and closed is not None and start is not None and end is not None:
            begin = _begin(pieces, at)
            yield Function(
                pieces[named].text, begin, at, named, opened, closed, start, end, _head(join(pieces[begin:at]))
            )


def _head(text: str) -> str:
    text = text.strip()
    return text[: text.rindex(">") + 1] if text.startswith("template") else ""


def _begin(pieces: list[Token], at: int) -> int:
    """The first token of a function's declaration: of its template head, or of what stands before its qualifier."""
    begin = at
    while True:
        here = _solid_before(pieces, begin)
        if here < 0:
            return begin
        if pieces[here].text in _BEFORE_FUNCTION or pieces[here].text == '"C"':
            begin = here
            continue
        if pieces[here].text != ">":
            return begin
        depth = 0
        while here >= 0:
            depth += {">": 1, "<": -1}.get(pieces[here].text, 0)
            if depth == 0:
                break
            here -= 1
        word = _solid_before(pieces, here)
        if word < 0 or pieces[word].text != "template":
            return begin
        begin = word


def _solid_before(pieces: list[Token], at: int) -> int:
    return next((i for i in range(at - 1, -1, -1) if pieces[i].kind not in ("space", "comment")), -1)


def parameters(pieces: list[Token]) -> tuple[Parameter, ...] | None:
    """What stands between the brackets of a kernel, as parameters; None where one is not a type and then a name."""
    found = []
    for part in whole(split([p for p in pieces if p.kind != "comment"], ",")):
        text = _OF_PARAMETERS.sub(" ", part)
        written = re.fullmatch(r"(.*[\s*])([A-Za-z_]\w*)\s*", text, re.S)
        if written is None or re.search(r"[=&()\[\]{}]", text):
            return None
        kind = " ".join(written[1].split())
        if "*" not in kind:
            kind = re.sub(r"\bconst\b", " ", kind).strip()
        if not kind:
            return None
        found.append(Parameter(kind, written[2]))
    return tuple(found)


def whole(parts: list[list[Token]]) -> list[str]:
    """Texts of what a list was cut into, put together again where commas stood between angle brackets."""
    made: list[str] = []
    for part in parts:
        text = join(part)
        if made and _angles(made[-1]) > 0:
            made[-1] += "," + text
        else:
            made.append(text)
    made = [text.strip() for text in made]
    return [] if made == [""] else made


def _angles(text: str) -> int:
    """How many angle brackets stay open, where these are brackets."""
    text = re.sub(r"->|<<=?|>=|<=|<(?=\s)|(?<=\s)>(?=\s)", "", text)
    return text.count("<") - text.count(">")


def head_names(head: str) -> list[str]:
    """The names of the parameters of a template head."""
    inside = head[head.index("<") + 1 : head.rindex(">")] if head else ""
    return [re.split("=", part)[0].split()[-1] for part in inside.split(",") if part.strip()]


def launches(pieces: list[Token]) -> Iterator[Launch]:
    """The launches `kernel<T><<<grid, block>>>(...)` of a text, in its order."""
    for at, piece in enumerate(pieces):
        found = _launch(pieces, at) if piece.kind == "word" else None
        if found is not None:
            yield found


def _launch(pieces: list[Token], at: int) -> Launch | None:
    """The launch of the kernel whose name, without namespaces, stands at `at`; None where that is something else."""
    here, given = next_solid(pieces, at), ""
    if here is None or pieces[here].text != "<":
        return None
    if join(pieces[here : here + 3]) != "<<<":
        end = _end_of_given(pieces, here)
        if end is None:
            return None
        given, here = join(pieces[here : end + 1]), next_solid(pieces, end)
    if here is None or join(pieces[here : here + 3]) != "<<<":
        return None
    stop = _stop(pieces, here + 3)
    opened = next_solid(pieces, stop) if stop is not None else None
    closed = closing(pieces, opened) if opened is not None and pieces[opened].text == "(" else None
    if stop is None or opened is None or closed is None:
        return None
    begin = _qualified(pieces, at)
    before = significant(pieces, begin, -1)
    member = before is not None and before.text in (".", ">")  # a pointer to some kernel
    if member or any(p.kind in ("comment", "directive") for p in pieces[begin : closed + 1]):
        return None
    settings = tuple(whole(split(pieces[here + 3 : stop - 2], ",")))
    arguments = tuple(whole(split(pieces[opened + 1 : closed], ",")))
    kernel = join(pieces[begin : at + 1]) + given
    if not 2 <= len(settings) <= 4 or any(_angles(text) for text in (*settings, *arguments)):
        return None
    return Launch(begin, at, opened, closed, kernel, pieces[at].text, settings, arguments)


def _end_of_given(pieces: list[Token], at: int) -> int | None:
    """Where template arguments end that begin at `at`."""
    depth = 0
    for here in range(at, min(at + _MAX_GIVEN, len(pieces))):
        text = pieces[here].text
        if text in (";", "{", "}"):
            return None
        depth += {"<": 1, ">": -1}.get(text, 0)
        if depth == 0:
            return here
    return None


def _stop(pieces: list[Token], at: int) -> int | None:
    """The last of the three angle brackets that end the settings of a launch, which begin at `at`."""
    depth = 0
    for here in range(at, len(pieces) - 3):
        text = pieces[here].text
        if text in (";", "{", "}"):
            return None
        depth += (text in "([") - (text in ")]") if pieces[here].kind == "other" else 0
        if depth == 0 and join(pieces[here : here + 3]) == ">>>" and pieces[here + 3].text != ">":
            return here + 2
    return None


def _qualified(pieces: list[Token], at: int) -> int:
    """Where a name begins with the namespaces that stand before it."""
    while join(pieces[max(at - 2, 0) : at]) == "::":
        if at < 3 or pieces[at - 3].kind != "word":
            return at - 2
        at -= 3
    return at


def is_statement(pieces: list[Token], launch: Launch) -> bool:
    """Whether a launch is a statement of its own."""
    before, after = significant(pieces, launch.at, -1), significant(pieces, launch.closed, 1)
    return before is not None and before.text in ("; { } ) else :".split()) and after is not None and after.text == ";"


def given_at(pieces: list[Token], at: int) -> tuple[list[str], int]:
    """The template arguments behind the name at `at`, one by one, and the token where they end; none and `at` where
    there are none."""
    opened = next_solid(pieces, at)
    if opened is None or pieces[opened].text != "<" or join(pieces[opened : opened + 3]) == "<<<":
        return [], at
    end = _end_of_given(pieces, opened)
    return ([], at) if end is None else (whole(split(pieces[opened + 1 : end], ",")), end)


def substituted(kind: str, head: str, given: list[str]) -> str:
    """A type in which the parameters of a template head are what is given for them."""
    meant = dict(zip(head_names(head), given, strict=False))
    return re.sub(r"(?<![\w:])[A-Za-z_]\w*", lambda m: meant.get(m[0], m[0]), kind)


def uses(pieces: list[Token], name: str) -> list[int] | None:
    """Where a text names a function other than in its definitions: where it is called, launched, or its address taken.
    None where one of these places may mean something else."""
    found = []
    defined = {function.named for function in functions(pieces)}
    for at, piece in enumerate(pieces):
        if piece.text != name or at in defined:
            continue
        before, after = significant(pieces, at, -1), significant(pieces, at, 1)
        if piece.kind != "word" or before is None or after is None:
            return None
        member = before.text == "." or before.text == ">" and join(pieces[max(at - 2, 0) : at]).strip() == "->"
        declared = before.kind == "word" and before.text not in _BEFORE_VALUE
        if member or declared or after.text not in _AFTER_NAME:
            return None
        found.append(at)
    return found


_BEFORE_VALUE = frozenset("return case else throw do co_return".split())
_AFTER_NAME = frozenset("( < , ) ; } : ?".split())


def in_namespace(pieces: list[Token], at: int) -> bool:
    """Whether what stands at `at` is in no brackets but those of namespaces."""
    opened: list[int] = []
    for here in range(at):
        if pieces[here].kind == "other" and pieces[here].text in "([{":
            opened.append(here)
        elif pieces[here].kind == "other" and pieces[here].text in ")]}":
            if not opened:
                return False
            opened.pop()
    return all(_of_namespace(pieces, here) for here in opened)


def _of_namespace(pieces: list[Token], at: int) -> bool:
    here = _solid_before(pieces, at)
    while here >= 0 and (pieces[here].text == ":" or pieces[here].kind == "word" and pieces[here].text != "namespace"):
        here = _solid_before(pieces, here)
    return pieces[at].text == "{" and here >= 0 and pieces[here].text == "namespace"


def own_functions(parts: list[list[Token]], fixed: set[str]) -> dict[str, list[Function]]:
    """The kernels and device functions that one text alone defines and uses, in a namespace, by their names; without
    those that are declared apart from their definition, specialised, or among the words of `fixed` or a directive."""
    words = words_in(parts, "directive", "raw", "string") | fixed
    made: dict[str, list[Function]] = {}
    for pieces in parts:
        elsewhere = {p.text for other in parts if other is not pieces for p in other if p.kind == "word"}
        here: dict[str, list[Function]] = {}
        for function in functions(pieces):
            here.setdefault(function.name, []).append(function)
        declared = [pieces[named].text for _, named in declared_functions(pieces)]
        bad = words | elsewhere | _fixed(pieces)
        for name, found in here.items():
            if name not in bad and declared.count(name) == len(found) and uses(pieces, name) is not None:
                made[name] = found
    return made


def _fixed(pieces: list[Token]) -> set[str]:
    """The names of functions that cannot be moved: of members, of those with C linkage, of specialisations."""
    found: set[str] = set()
    for function in functions(pieces):
        if "".join(function.head.split()) == "template<>":
            found |= {p.text for p in pieces[function.at : function.opened] if p.kind == "word"}
        if '"C"' in join(pieces[function.begin : function.at]) or not in_namespace(pieces, function.begin):
            found.add(function.name)
    return found
