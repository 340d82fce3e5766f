"""Takes out of C++ text what a C++ grammar does not know, at the same length, and keeps what was taken."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import field

from kbh_lint.base.records import dataclass
from kbh_lint.frontends.cuda.literals import is_separator, raw_end

# Words that stand for themselves, and header macros that expand to them.
_WORDS = {
    "__global__": "__global__", "__device__": "__device__", "__host__": "__host__", "__shared__": "__shared__",
    "__constant__": "__constant__", "__managed__": "__managed__", "__grid_constant__": "__grid_constant__",
    "__restrict__": "__restrict__", "__restrict": "__restrict__", "__forceinline__": "__forceinline__",
    "__forceinline": "__forceinline__", "__inline__": "__inline__", "__inline": "__inline__",
    "__noinline__": "__noinline__", "__extension__": "__extension__", "__nv_pure__": "__nv_pure__",
    "CUTLASS_DEVICE": "__device__", "CUTLASS_HOST_DEVICE": "__host__ __device__", "CUTLASS_GLOBAL": "__global__",
    "CUTLASS_HOST": "__host__", "CUTLASS_GRID_CONSTANT": "__grid_constant__", "CUTE_DEVICE": "__device__",
    "CUTE_HOST_DEVICE": "__host__ __device__", "CUTE_HOST": "__host__", "CUTE_GRID_CONSTANT": "__grid_constant__",
    "CUTLASS_SHARED": "__shared__", "CUTE_UNROLL": "unroll", "CUTE_NO_UNROLL": "no unroll",
    "CUTLASS_LAMBDA_FUNC_INLINE": "__forceinline__",
    "CUTLASS_PRAGMA_UNROLL": "unroll", "CUTLASS_PRAGMA_NO_UNROLL": "no unroll",
    "C10_HOST_DEVICE": "__host__ __device__", "C10_DEVICE": "__device__", "C10_HOST": "__host__",
    "C10_ALWAYS_INLINE": "__forceinline__", "C10_RESTRICT": "__restrict__",
    "__CUDA_HOSTDEVICE__": "__host__ __device__",
    "TORCH_API": "TORCH_API", "C10_EXPORT": "C10_EXPORT", "C10_UNUSED": "C10_UNUSED",
}  # fmt: skip

# Words with arguments in parentheses that belong to them.
_CALLS = {
    "__launch_bounds__", "__align__", "__builtin_align__", "alignas", "__attribute__", "__declspec",
    "__cluster_dims__", "__maxnreg__", "__block_size__", "_Pragma", "C10_LAUNCH_BOUNDS_1", "C10_LAUNCH_BOUNDS_2",
    "__pragma", "CUTE_ALIGNAS", "CUTLASS_ALIGNAS", "_Alignas",
}  # fmt: skip

_ASM = {"asm", "__asm__", "__asm"}
_ASM_QUALIFIERS = re.compile(r"(?:\s+|volatile\b|__volatile__\b|goto\b|inline\b)*")

_QUOTED = r'"(?:[^"\\\n]+|\\.)*+"?|\'(?:[^\'\\\n]+|\\.)*+\''

# What the scan stops at. Each alternative starts with a plain character, which makes the search many times faster;
# `_stop` finds out what it is.
_STOP = re.compile(
    _QUOTED + r"|_(?:_[a-zA-Z]|Pragma\b)|CU[TD]|C10|TORCH|<<<|->\*|\[\[|extern\b|typename\b|a(?:sm|lignas)\b", re.S
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_EXTERN_C = re.compile(r'extern\s*"C(?:\+\+)?"(?:\s*\{)?')
_ATTRIBUTE = re.compile(r"\[\[\s*(?:using\b|[A-Za-z_]\w*\s*(?:::|\(|,|(?=\]\])))[^\[\]{};]{0,400}\]\]")
_TYPENAME = re.compile(r"typename\b(?=\s+[\w:]+(?:<[^<>;{}()]*>(?:::\w+)+)?\s*[({])")
# A name in capitals alone on its line, between whole statements: a macro of a header that was not read, or a
# placeholder that the Python text fills in.
_LONE_MACRO = re.compile(r"\n[ \t]*[A-Z][A-Z0-9_]{3,}[ \t]*(?=\n)")
_GOES_ON = re.compile(r"\s*[-+*/%&|^<>=?:.,)\]([]")
_STRING_NEXT = re.compile(r'\s*"')
_BRACKET = re.compile(_QUOTED + r"|[()\[\]{}]", re.S)
_ASM_STOP = re.compile(_QUOTED + r"|[()\[\]{}:]", re.S)
_LAUNCH_STOP = re.compile(_QUOTED + r"|>>>|<<<|[()\[\]{};]", re.S)
_MAX_LENGTH = 100_000
_MAX_GAP = 4000  # of blanks between a word and what it belongs to
_MAX_FAILURES = 50


@dataclass(slots=True)
class AsmMarks:
    """An asm statement written as a call: where its sections end, and whether it is volatile."""

    colons: list[int]


@dataclass(slots=True)
class Blanked:
    """The text that is left for a C++ grammar, and the words, launches and asm statements that were taken out, by
    offset."""

    text: str
    words: list[tuple[int, int, str]] = field(default_factory=list)
    launches: set[int] = field(default_factory=set)  # offsets of the "(" that was "<<<"
    asms: dict[int, AsmMarks] = field(default_factory=dict)  # by the offset of the asm word

    def before(self, start: int) -> list[str]:
        """The words taken out just before offset `start`, with only white space between."""
        found: list[str] = []
        index = bisect_left(self.words, (start, 0, "")) - 1
        while index >= 0:
            begin, end, word = self.words[index]
            if start - end > _MAX_GAP or self.text[end:start].strip():
                break
            found.append(word)
            start, index = begin, index - 1
        found.reverse()
        return found

    def inside(self, start: int, end: int) -> list[str]:
        """The words taken out between two offsets."""
        if not self.words:
            return []
        low = bisect_left(self.words, (start, 0, ""))
        found = []
        while low < len(self.words) and self.words[low][0] < end:
            found.append(self.words[low][2])
            low += 1
        return found


def blank(text: str) -> Blanked:
    """Replaces what a C++ grammar does not know, keeping the length: blanks CUDA keywords, attributes and `extern "C"`,
    and writes a launch as a call of a call and an asm statement as a call."""
    run = _Run(_without_lone_macros(text))
    run.scan()
    run.parts.append(run.text[run.copied :])
    return Blanked("".join(run.parts), run.words, run.launches, run.asms)


def _without_lone_macros(text: str) -> str:
    parts: list[str] = []
    copied = 0
    for match in _LONE_MACRO.finditer(text):
        start, end = match.span()
        back = start
        while back > 0 and text[back - 1].isspace():
            back -= 1
        if text[back - 1 : back] in ("", ";", "{", "}") and not _GOES_ON.match(text, end):
            parts += [text[copied:start], "\n", " " * (end - start - 1)]
            copied = end
    return "".join([*parts, text[copied:]]) if parts else text


class _Run:
    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[str] = []
        self.copied = 0
        self.words: list[tuple[int, int, str]] = []
        self.launches: set[int] = set()
        self.asms: dict[int, AsmMarks] = {}
        self.failures = 0
        self.edits: list[tuple[int, int, str]] = []  # to make inside a region the scan has not come to yet

    def put(self, start: int, end: int, new: str) -> None:
        """Replaces the text from `start` to `end` by `new`, of the same length; text that was replaced before stays as
        it is."""
        if start < self.copied:
            return
        self.parts.append(self.text[self.copied : start])
        self.parts.append(new)
        self.copied = end

    def scan(self) -> None:
        """Reads the text from start to end, blanks or replaces what the grammar does not know, and copies the rest."""
        at = 0
        while True:
            match = _STOP.search(self.text, at)
            stop = match.start() if match is not None else len(self.text)
            while self.edits and self.edits[-1][0] < stop:
                start, end, new = self.edits.pop()
                self.put(start, end, new)
            if match is None:
                return
            at = self._stop(match.start(), match.end())

    def _stop(self, start: int, end: int) -> int:
        """Handles what was found at `start`; where to go on."""
        text = self.text
        first = text[start]
        if first == '"':
            return raw_end(text, start) or end
        if first == "'":
            return start + 1 if is_separator(text, start) else end
        if first == "<":
            self._launch(start)
            return end
        if first == "-":  # `p->*f` is read as `p->f`, like `p.*f` by the grammar
            self.put(start, end, "-> ")
            return end
        if first == "[":
            attribute = _ATTRIBUTE.match(text, start)
            return end if attribute is None else self._take(start, attribute.end(), attribute.group())
        word = _WORD.match(text, start)
        before = text[start - 1 : start]
        if word is None or before.isalnum() or before == "_":
            return end
        name = word.group()
        if name == "extern":
            linkage = _EXTERN_C.match(text, start)
            return end if linkage is None else self._linkage(start, linkage.end())
        if name == "typename":  # before `T::X{...}` as a value the word says nothing, and the grammar stops at it
            if _TYPENAME.match(text, start):
                self.put(start, end, " " * (end - start))
            return end
        if name in _WORDS or name in _CALLS or name in _ASM:
            return self._word(name, start, word.end())
        return word.end()

    def _take(self, start: int, end: int, word: str) -> int:
        self.put(start, end, " " * (end - start))
        self.words.append((start, end, word))
        return end

    def _linkage(self, start: int, end: int) -> int:
        length = end - start
        opens = self.text[end - 1] == "{"
        self.put(start, end, "namespace".ljust(length - 1) + "{" if opens else " " * length)
        self.words.append((start, end, 'extern "C"'))
        return end

    def _close(self, start: int) -> int | None:
        """The end of the balanced parentheses that start at or after `start`; None when there are none."""
        while start < len(self.text) and self.text[start].isspace():
            start += 1
        if self.text[start : start + 1] != "(" or self.failures > _MAX_FAILURES:
            return None
        depth = 0
        for match in _BRACKET.finditer(self.text, start, start + _MAX_LENGTH):
            char = match.group()
            if char in "([{":
                depth += 1
            elif char in ")]}":
                depth -= 1
                if depth == 0:
                    return match.end()
        self.failures += 1
        return None

    def _word(self, word: str, start: int, end: int) -> int:
        if word in _ASM:
            return self._asm(word, start, end)
        name = _WORDS.get(word, word)
        if word in _CALLS:
            close = self._close(end)
            if close is None:
                return end
            end = close
            name = self.text[start:end]
        self.put(start, end, " " * (end - start))
        for single in name.split(" ") if word in _WORDS else [name]:
            self.words.append((start, end, single))
        return end

    def _asm(self, word: str, start: int, end: int) -> int:
        qualifiers = _ASM_QUALIFIERS.match(self.text, end)
        opened = qualifiers.end() if qualifiers is not None else end
        close = self._close(opened)
        if close is None:
            return end
        self.put(start, opened, ("a" + "_" * (len(word) - 1)).ljust(opened - start))
        colons: list[int] = []
        edits: list[tuple[int, int, str]] = []
        depth = 0
        bracket = -1
        for match in _ASM_STOP.finditer(self.text, opened, close):
            char = match.group()
            if char in "([{":
                depth += 1
                bracket = match.start() if char == "[" and depth == 2 else -1
            elif char in ")]}":
                depth -= 1
                if char == "]" and bracket >= 0 and self._names_operand(match.end(), close):
                    edits.append((bracket, match.end(), " " * (match.end() - bracket)))
            elif char == ":" and depth == 1:
                at = match.start()
                colons.append(at)
                edits.append((at, at + 1, ","))
        self._drop_empty_sections(edits, opened, close)
        self.asms[start] = AsmMarks(colons)
        self.edits = sorted([*self.edits, *edits], reverse=True)
        return opened

    def _names_operand(self, at: int, close: int) -> bool:
        return _STRING_NEXT.match(self.text, at, close) is not None

    def _drop_empty_sections(self, edits: list[tuple[int, int, str]], opened: int, close: int) -> None:
        """A comma stays only where something stands on both sides of it."""
        last_end = opened + 1
        kept: int | None = None
        for index, (start, end, new) in enumerate(edits):
            if new != ",":
                continue
            if kept is not None and not self.text[last_end:start].strip():
                edits[index] = (start, end, " ")
            else:
                kept = index
            last_end = end
        if kept is not None and not self.text[last_end : close - 1].strip():
            edits[kept] = (edits[kept][0], edits[kept][1], " ")

    def _launch(self, start: int) -> None:
        depth = 0
        if self.failures > _MAX_FAILURES:
            return
        for match in _LAUNCH_STOP.finditer(self.text, start + 3, start + _MAX_LENGTH // 10):
            char = match.group()
            if char in "([{":
                depth += 1
            elif char in ")]}":
                depth -= 1
                if depth < 0:
                    break
            elif char == "<<<" or (char == ";" and depth == 0):
                break
            elif char == ">>>" and depth == 0:
                self.put(start, start + 3, "(  ")
                self.edits = sorted([*self.edits, (match.start(), match.end(), ")  ")], reverse=True)
                self.launches.add(start)
                return
        self.failures += 1
