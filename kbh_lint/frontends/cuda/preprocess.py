"""The C preprocessor over one text: comments, directives and macros, with a map back to where things stood."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import field

from kbh_lint.base.records import dataclass
from kbh_lint.frontends.cuda import conditions
from kbh_lint.frontends.cuda.literals import is_separator, raw_end
from kbh_lint.frontends.cuda.macros import (
    Expander,
    ExpansionError,
    Macro,
    Token,
    needs_space,
    parse_define,
    read_args,
    tokenize,
)
from kbh_lint.frontends.cuda.textmap import TextMap

MAX_ARGS = 200_000
_MAX_FAILED_ARGS = 5
_MAX_CONDITIONS = 200

# What the scan stops at: strings, comments, directives, and names that may be macros. Each alternative starts with a
# plain character, which makes the search several times faster; what stands before is checked afterwards.
_PLAIN = (
    r'"(?:[^"\\\n]+|\\.)*+"?|\'(?:[^\'\\\n]+|\\.)*+\''
    r"|//(?:\\\r?\n|[^\n])*+|/\*.*?(?:\*/|\Z)|\#|\\\r?\n"
)
_STOP_PLAIN = re.compile(_PLAIN, re.S)
_STOP_NAMES = re.compile(rf"[A-Za-z_$][\w$]*|\.?\d(?:[eEpP][+-]|'?[\w.])*+|{_PLAIN}", re.S)
_MAX_LISTED = 64
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$")
_MACRO_NAMES = re.compile(r"#(?:[ \t]|\\\r?\n)*define(?:[ \t]|\\\r?\n)+([A-Za-z_$][\w$]*)")
_LINE_END = re.compile(
    r'(?:[^\n\\"/]+|\\\r?\n|"(?:[^"\\\n]+|\\.)*+"?|//(?:\\\r?\n|[^\n])*+|/\*.*?(?:\*/|\Z)|[\\/])*+', re.S
)
_OPENS = re.compile(r"(?:\s+|\\\r?\n|//(?:\\\r?\n|[^\n])*+|/\*.*?\*/)*+\(", re.S)
_DIRECTIVE = re.compile(r"#(?:[ \t]|\\\r?\n)*([A-Za-z_]*)")
_INCLUDE = re.compile(r'\s*(?:<([^>\n]+)>|"([^"\n]+)")')
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_$][\w$]*)\s*\)|([A-Za-z_$][\w$]*))")
_HAS = re.compile(r"\b__has_\w+\s*\((?:<[^>\n]{0,300}>|[^()\n]{0,300})\)")


@dataclass(slots=True)
class Prepared:
    """The text that goes on to the parser. Offsets of `includes` and `unread` are of that text."""

    text: str
    map: TextMap
    includes: list[tuple[str, int, int]] = field(default_factory=list)
    unread: list[tuple[str, int, int]] = field(default_factory=list)
    macros: dict[str, Macro] = field(default_factory=dict)
    stopped: bool = False  # an #error is reached, whatever headers define

    def key(self) -> Hashable:
        """A key that is equal for texts that the parser reads alike: all that the parser uses of one."""
        return self.text, self.map.key(), tuple(self.includes), tuple(self.unread), self.stopped


@dataclass(slots=True)
class _Branch:
    """One open `#if`: whether text before it was active, whether a branch was taken, and is taken now."""

    outer: bool
    done: bool
    active: bool
    sure: bool = True  # no condition so far asks for what a header may define


def preprocess(text: str, defines: Mapping[str, str], cuda_arch: int | None) -> Prepared:
    """Preprocesses `text` as a CUDA build with the `-D` macros `defines` would. Never raises: what stops it is listed
    in `unread` of the result."""
    run = _Run(text, defines, cuda_arch)
    try:
        run.scan()
    except ExpansionError as error:
        run.stop(str(error))
    return run.result()


class _Run:
    def __init__(self, text: str, defines: Mapping[str, str], cuda_arch: int | None) -> None:
        self.source = text
        self.arch = cuda_arch
        self.macros: dict[str, Macro] = {}
        self.command_line = {**conditions.PREDEFINED, **defines}
        self.command_line["__CUDA_ARCH__"] = str(cuda_arch or conditions.RECENT_ARCH)
        for name, value in defines.items():
            body = tuple(token._replace(offset=0, length=0) for token in tokenize(value, 0, len(value)))
            if name.isidentifier():
                self.macros[name] = Macro(name, None, False, body)
        self.expander = Expander(self.macros)
        self.parts: list[str] = []
        self.size = 0
        self.map = TextMap()
        self.copied = 0  # the source up to here is in `parts`
        self.branches: list[_Branch] = []
        self.active = True
        self.includes: list[tuple[str, int, int]] = []
        self.unread: list[tuple[str, int, int]] = []
        self.failed_args = 0
        self.stopped = False

    # --- output ---

    def copy(self, end: int) -> None:
        """Copies the source up to `end`, or blanks of the same length where a condition is false."""
        start = self.copied
        if end <= start:
            return
        self.map.add(self.size, start, end - start, 0)
        self.parts.append(self.source[start:end] if self.active else " " * (end - start))
        self.size += end - start
        self.copied = end

    def blank(self, start: int, end: int) -> None:
        """Copies the source up to `start`, then blanks up to `end`."""
        self.copy(start)
        self.map.add(self.size, start, end - start, 0)
        self.parts.append(" " * (end - start))
        self.size += end - start
        self.copied = end

    def emit(self, tokens: list[Token]) -> None:
        """Writes tokens that a macro expanded to, with spaces where two would be read as one."""
        before: Token | None = None
        for token in tokens:
            if not token.text:
                continue
            apart = before is not None and (
                before.offset + before.length != token.offset or before.frame != token.frame
            )
            if before is not None and apart and needs_space(before.text, token.text):
                self.map.add(self.size, before.offset, 1, before.frame)
                self.parts.append(" ")
                self.size += 1
            self.map.add(self.size, token.offset, token.length, token.frame)
            self.parts.append(token.text)
            self.size += len(token.text)
            before = token

    def stop(self, reason: str) -> None:
        """Records why preprocessing cannot go on, and copies the rest of the source unchanged."""
        self.unread.append((reason, self.size, self.size + 1))
        self.active = True
        self.copy(len(self.source))

    def result(self) -> Prepared:
        """The preprocessed text with its macros, includes and problems."""
        return Prepared("".join(self.parts), self.map, self.includes, self.unread, self.macros, self.stopped)

    # --- scan ---

    def scan(self) -> None:
        """Reads the source from start to end: directives, comments and macro uses."""
        source, macros = self.source, self.macros
        search = self._stops().search
        at = 0
        while True:
            match = search(source, at)
            if match is None:
                break
            start, at = match.span()
            first = source[start]
            if first in _NAME:
                before = source[start - 1 : start]
                if self.active and match.group() in macros and not (before.isalnum() or before in ("_", "$")):
                    at = self._macro(match.group(), start, at)
            elif first == '"':
                at = raw_end(source, start) or at
            elif first == "'":
                if is_separator(source, start):
                    at = start + 1
            elif first == "#":
                at = self._directive(start)
            elif first in ("/", "\\") and self.active:
                self.blank(start, at)
        self.copy(len(source))

    def _stops(self) -> re.Pattern[str]:
        names = {*self.macros, *_MACRO_NAMES.findall(self.source)}
        if not names:
            return _STOP_PLAIN
        if len(names) > _MAX_LISTED:
            return _STOP_NAMES
        listed = "".join(rf"{re.escape(name)}(?![\w$])|" for name in sorted(names))
        return re.compile(listed + _PLAIN, re.S)

    def _macro(self, name: str, start: int, end: int) -> int:
        macro = self.macros[name]
        args: list[list[Token]] | None = None
        if macro.params is not None:
            if self.failed_args > _MAX_FAILED_ARGS:
                return end
            found = self._read_args(end)
            if found is None:
                return end
            args, end = found
        self.copy(start)
        tokens = self.expander.use(macro, args)
        self.emit([Token(" ", start, 1, 0, False), *tokens, Token(" ", end - 1, 1, 0, False)])
        self.copied = end
        return end

    def _read_args(self, at: int) -> tuple[list[list[Token]], int] | None:
        """The arguments of a use, from the parenthesis after `at`; None when there is none."""
        if _OPENS.match(self.source, at) is None:
            return None
        limit = at + 200
        while True:
            window = tokenize(self.source, at, min(limit, len(self.source)))
            args, after = read_args(window, 0)
            # The last token may be cut by the window, so a use that ends with it is read again in a larger one.
            if args is not None and (after < len(window) or limit >= len(self.source)):
                last = window[after - 1]
                return args, last.offset + last.length
            if limit >= len(self.source) or limit - at > MAX_ARGS:
                self.failed_args += 1
                return None
            limit = at + (limit - at) * 8

    # --- directives ---

    def _directive(self, start: int) -> int:
        source = self.source
        head = _DIRECTIVE.match(source, start)
        if head is None:
            return start + 1
        end_match = _LINE_END.match(source, head.end())
        end = end_match.end() if end_match is not None else head.end()
        word = head.group(1)
        if word in ("if", "ifdef", "ifndef", "elif", "else", "endif", "elifdef", "elifndef"):
            self.copy(start)
            self._conditional(word, head.end(), end)
            self._blank_line(start, end)
            return end
        if not self.active:
            return end
        if word == "define":
            macro = parse_define(source, head.end(), end)
            if macro is not None:
                self.macros[macro.name] = macro
        elif word == "undef":
            name = source[head.end() : end].strip().split(" ", 1)[0]
            self.macros.pop(name, None)
            self.command_line.pop(name, None)
        elif word == "error":
            self.stopped = self.stopped or all(branch.sure for branch in self.branches)
        elif word == "include":
            path = _INCLUDE.match(source, head.end(), end)
            if path is not None:
                self.copy(start)
                self.includes.append((path.group(1) or path.group(2), self.size, self.size + end - start))
        self._blank_line(start, end)
        return end

    def _blank_line(self, start: int, end: int) -> None:
        if self.copied <= start:
            self.blank(start, end)

    def _conditional(self, word: str, start: int, end: int) -> None:
        rest = self.source[start:end]
        if word in ("if", "ifdef", "ifndef"):
            if len(self.branches) >= _MAX_CONDITIONS:
                raise ExpansionError("conditions nest too deeply")
            value = self.active and self._test(word, rest, start)
            self.branches.append(_Branch(self.active, value, value, self._sure(word, rest)))
            self.active = value
            return
        if not self.branches:
            return
        branch = self.branches[-1]
        if word == "endif":
            self.branches.pop()
            self.active = branch.outer
            return
        branch.sure = branch.sure and self._sure(word, rest)
        if word == "else":
            value = branch.outer and not branch.done
        else:
            value = branch.outer and not branch.done and self._test(word, rest, start)
        branch.done = branch.done or value
        branch.active = self.active = value

    def _test(self, word: str, rest: str, start: int) -> bool:
        if word in ("ifdef", "ifndef", "elifdef", "elifndef"):
            name = rest.strip().split(" ", 1)[0].split("/", 1)[0]
            return self._defined(name) != ("nd" in word)
        text = _DEFINED.sub(lambda found: str(int(self._defined(found.group(1) or found.group(2)))), rest)
        text = _HAS.sub("1", text)
        tokens = self.expander.expand(tokenize(text, 0, len(text)), frozenset())
        joined = "".join(self._value(token) for token in tokens)
        try:
            return bool(conditions.evaluate(joined))
        except conditions.ConditionError as error:
            self.unread.append((f"an #if condition was not understood: {error}", self.size, self.size + 1))
            return True

    def _sure(self, word: str, rest: str) -> bool:
        """Whether a condition asks for nothing but numbers and macros that are known. What a header may define or
        take back is not; nor is whether code is for the device, which a text is compiled for once and once not."""
        if word == "else":
            return True
        names = set(_WORD.findall(rest.partition("//")[0].partition("/*")[0])) - {"defined", "true", "false"}
        asked = word not in ("if", "elif") or "defined" in rest or "__has" in rest
        known = names <= self.macros.keys() | ({"__CUDA_ARCH__"} if self.arch and not asked else frozenset())
        return known and not any(self.macros[name].params for name in names & self.macros.keys())

    def _defined(self, name: str) -> bool:
        if name in self.macros or name in self.command_line:
            return True
        return bool(conditions.feature(name, self.arch))

    def _value(self, token: Token) -> str:
        if not token.ident:
            return token.text
        if token.text in self.command_line and token.text not in self.macros:
            return self.command_line[token.text]
        known = conditions.feature(token.text, self.arch)
        return token.text if known is None else str(int(known))
