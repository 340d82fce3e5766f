"""Reads shell text as a shell does, without running it: simple commands, with words expanded as far as they are known.

Quotes, escapes, tilde, known variables, assignments, `cd`, pipes, lists, subshells, substitutions, redirections and
here-documents are followed. What only the run can know (a command's output, an unknown variable) becomes UNKNOWN in a
word. Text that is no shell gives what can be had of it; nothing raises.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Command", "UNKNOWN", "read_shell", "words_of"]

UNKNOWN = "\0"
MOST_TEXT = 400_000  # characters
MOST_COMMANDS = 4000
MOST_DEPTH = 8
MOST_VALUE = 4096  # characters of a variable that are known
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.S)
_SPECIAL = "0123456789@*#?$!-"
_KEYWORDS = frozenset("if then else elif fi do done while until ! { } time esac coproc function".split())
_ENDS = " \t\n;&|()<>"
_REDIRECTION = re.compile(r"(?:\d+|&)?(?:<<<|<<-|<<|<&|<>|>>|>&|>\||&>>|&>|<|>)")


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words, the files that its input and output are, here-document text, and its folder.

    `variables` are the names that its words and redirections expand.
    """

    words: tuple[str, ...]
    redirected: tuple[str, ...] = ()
    text: str = ""
    cwd: str = "/"
    variables: frozenset[str] = frozenset()


@dataclass(slots=True)
class _State:
    cwd: str
    variables: dict[str, str]

    def copy(self) -> _State:
        """A copy of the state, for a subshell."""
        return _State(self.cwd, dict(self.variables))


@dataclass(slots=True)
class _Open:
    """A command that is being read."""

    words: list[str] = field(default_factory=list)
    redirected: list[str] = field(default_factory=list)
    text: str = ""
    used: set[str] = field(default_factory=set)


def read_shell(text: str, cwd: str, variables: Mapping[str, str]) -> list[Command]:
    """The simple commands of a shell text in order, those of its substitutions among them."""
    reader = _Reader(text[:MOST_TEXT], _State(cwd, dict(variables)), [], 0)
    reader.run()
    return reader.found


class _Reader:
    """One pass over one text; substitutions get a reader of their own that adds to the same list."""

    def __init__(self, text: str, state: _State, found: list[Command], depth: int) -> None:
        self.text, self.state, self.found, self.depth = text, state, found, depth
        self.at = 0
        self.open = _Open()
        self.outer: list[_State] = []
        self.awaited: list[tuple[str, bool, _Open]] = []  # here-documents that begin after this line

    def run(self) -> None:
        """Reads the text to its end, and adds its commands to `found`."""
        text = self.text
        while self.at < len(text) and len(self.found) < MOST_COMMANDS:
            char = text[self.at]
            if char in " \t":
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                self.at = _line_end(text, self.at)
            elif (mark := _REDIRECTION.match(text, self.at)) is not None:
                self.at = mark.end()
                self._redirection(mark[0])
            elif char in "\n;&|()":
                self.at += 1
                self._close()
                self._ended_by(char)
            else:
                self.open.words.append(self._word())
        self._close()

    def _ended_by(self, char: str) -> None:
        if char == "\n":
            self._documents()
        elif char == "(" and len(self.outer) < 100:
            self.outer.append(self.state.copy())
        elif char == ")" and self.outer:
            self.state = self.outer.pop()

    # --- words -------------------------------------------------------------------------------------------

    def _word(self) -> str:
        text, parts, start = self.text, [], self.at
        while self.at < len(text):
            char = text[self.at]
            if char == "'":
                end = text.find("'", self.at + 1)
                end = len(text) if end < 0 else end
                parts.append(text[self.at + 1 : end])
                self.at = end + 1
            elif char == '"':
                self.at += 1
                parts.append(self._quoted())
            elif char == "\\":
                parts.append(text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            elif char in "$`":
                parts.append(self._expanded(quoted=False))
            elif char == "~" and self.at == start:
                parts.append(self._tilde())
            elif char in _ENDS:
                if char == "(" and parts and text.startswith("()", self.at):  # a function's head
                    self.at += 2
                    return "{"
                break
            else:
                end = self.at + 1
                while end < len(text) and text[end] not in "'\"\\$`" and text[end] not in _ENDS:
                    end += 1
                parts.append(text[self.at : end])
                self.at = end
        return "".join(parts)

    def _quoted(self) -> str:
        text, parts = self.text, []
        while self.at < len(text) and text[self.at] != '"':
            char = text[self.at]
            if char == "\\":
                after = text[self.at + 1 : self.at + 2]
                parts.append("" if after == "\n" else after if after in '$`"\\' else "\\" + after)
                self.at += 2
            elif char in "$`":
                parts.append(self._expanded(quoted=True))
            else:
                end = self.at
                while end < len(text) and text[end] not in '"\\$`':
                    end += 1
                parts.append(text[self.at : end])
                self.at = end
        self.at += 1
        return "".join(parts)

    def _tilde(self) -> str:
        self.at += 1
        name = _NAME.match(self.text, self.at)
        if name is None:
            return self.state.variables.get("HOME", UNKNOWN)
        self.at = name.end()
        return f"/home/{name[0]}" if name[0] != "root" else "/root"

    def _expanded(self, *, quoted: bool) -> str:
        text, at = self.text, self.at
        if text[at] == "`":
            end = text.find("`", at + 1)
            end = len(text) if end < 0 else end
            self.at = end + 1
            return self._inner(text[at + 1 : end].replace("\\`", "`"))
        after = text[at + 1 : at + 2]
        if text.startswith("$((", at):
            self.at = _balanced(text, at + 1)
            return UNKNOWN
        if after == "(":
            self.at = _balanced(text, at + 1)
            return self._inner(text[at + 2 : self.at - 1])
        if after == "{":
            self.at = _balanced(text, at + 1)
            return self._parameter(text[at + 2 : self.at - 1])
        if after == "'" and not quoted:
            end = at + 2
            while end < len(text) and text[end] != "'":
                end += 2 if text[end] == "\\" else 1
            self.at = end + 1
            return _escapes(text[at + 2 : end])
        name = _NAME.match(text, at + 1)
        if name is not None:
            self.at = name.end()
            return self._variable(name[0])
        self.at += 2 if after and after in _SPECIAL else 1
        return UNKNOWN if after and after in _SPECIAL else "$"

    def _parameter(self, inside: str) -> str:
        name = _NAME.match(inside)
        if name is None:
            return UNKNOWN
        value, rest = self._variable(name[0]), inside[name.end() :]
        if not rest or (value != UNKNOWN and rest[:2] in (":-", ":=", ":?")):
            return value
        if rest[:2] in (":-", ":=") or rest[:1] in "-=":  # what stands in where it has no value
            return rest.lstrip(":-=").strip("'\"")
        return UNKNOWN

    def _variable(self, name: str) -> str:
        self.open.used.add(name)
        return self.state.cwd if name == "PWD" else self.state.variables.get(name, UNKNOWN)

    def _set(self, name: str, value: str) -> None:
        # Values that are made of one another double with each line.
        self.state.variables[name] = value if len(value) <= MOST_VALUE else UNKNOWN

    def _inner(self, text: str) -> str:
        """Reads a substituted command; its output is known for `pwd` only."""
        if self.depth < MOST_DEPTH:
            _Reader(text, self.state.copy(), self.found, self.depth + 1).run()
        return self.state.cwd if text.strip() == "pwd" else UNKNOWN

    # --- redirections and ends ---------------------------------------------------------------------------

    def _redirection(self, mark: str) -> None:
        text = self.text
        if self.at < len(text) and text[self.at] == "(" and mark in "<>":  # process substitution
            end = _balanced(text, self.at)
            inside, self.at = text[self.at + 1 : end - 1], end
            self._inner(inside)
            return
        while self.at < len(text) and text[self.at] in " \t":
            self.at += 1
        plain = text[self.at : self.at + 1]
        word = self._word() if plain and plain not in _ENDS else ""
        kind = mark.lstrip("0123456789")
        if kind in ("<<", "<<-"):
            self.awaited.append((word, plain in ("'", '"', "\\"), self.open))
        elif kind == "<<<":
            self.open.text += word
        elif word and not (kind in (">&", "<&") and (word.isdigit() or word == "-")):
            self.open.redirected.append(word)

    def _documents(self) -> None:
        for word, _, command in self.awaited:
            lines = []
            while self.at < len(self.text):
                end = _line_end(self.text, self.at)
                line, self.at = self.text[self.at : end], end + 1
                if line.strip() == word:
                    break
                lines.append(line)
            self._finish(command, "\n".join(lines))
        self.awaited.clear()

    def _close(self) -> None:
        command, self.open = self.open, _Open()
        if not any(command is waiting for _, _, waiting in self.awaited):
            self._finish(command, command.text)
        elif self.at >= len(self.text):  # its document never begins
            self.awaited = [entry for entry in self.awaited if entry[2] is not command]
            self._finish(command, command.text)

    def _finish(self, command: _Open, text: str) -> None:
        words = command.words
        while words and words[0] in _KEYWORDS:
            words = words[1:]
        while words and (assigned := _ASSIGNED.fullmatch(words[0])) is not None:
            if len(words) == 1 and not command.redirected:
                self._set(assigned[1], assigned[2])
            words = words[1:]
        if words[:1] in (["export"], ["declare"], ["local"], ["readonly"]):
            for word in words[1:]:
                if (assigned := _ASSIGNED.fullmatch(word)) is not None:
                    self._set(assigned[1], assigned[2])
        if words[:1] == ["for"] and len(words) > 1:
            self._set(words[1], words[3] if len(words) == 4 else UNKNOWN)
        if words or command.redirected or command.used:
            used = frozenset(command.used)
            self.found.append(Command(tuple(words), tuple(command.redirected), text, self.state.cwd, used))
        if words[:1] in (["cd"], ["pushd"]):
            places = [word for word in words[1:] if not word.startswith("-") or word == "-"]
            if not places:
                self.state.cwd = self.state.variables.get("HOME", "/")
            elif UNKNOWN not in places[0] and places[0] != "-":
                self.state.cwd = posixpath.normpath(posixpath.join(self.state.cwd, places[0][:MOST_VALUE]))[:MOST_VALUE]


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


_PAIRS = {"(": ")", "{": "}"}


def _balanced(text: str, at: int) -> int:
    """The offset after the bracket that closes the one at an offset; the text's end where none does."""
    first, last, depth = text[at], _PAIRS[text[at]], 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'" and first == "(":
            at = _or_end(text.find("'", at + 1), text)
        elif char == first:
            depth += 1
        elif char == last:
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(text) + 1


def _or_end(at: int, text: str) -> int:
    return len(text) if at < 0 else at


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.S)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


def _escapes(text: str) -> str:
    """What `$'...'` says."""

    def one(match: re.Match[str]) -> str:
        if match[1] or match[2]:
            return chr(int(match[1], 16) if match[1] else int(match[2], 8) & 0xFF)
        return _PLAIN.get(match[3], match[3])

    return _ESCAPE.sub(one, text)


def words_of(command: Command) -> Iterator[str]:
    """The words of a command without leading ones that only start another program (`sudo`, `timeout 60`)."""
    words = list(command.words)
    while words:
        name = posixpath.basename(words[0])
        if name not in _STARTERS:
            break
        values = _STARTERS[name]
        words = words[1:]
        while words and (words[0].startswith("-") or _ASSIGNED.fullmatch(words[0])):
            takes = words[0] in values
            words = words[2:] if takes else words[1:]
        if name == "timeout" and words:
            words = words[1:]
        if name == "flock" and words:
            words = words[1:]
    yield from words


# Programs that start another, with their options that take a value.
_STARTERS: Mapping[str, frozenset[str]] = {
    "sudo": frozenset(("-u", "-g", "-C", "-h", "-p")),
    "env": frozenset(("-u", "-C", "-S", "--unset")),
    "timeout": frozenset(("-s", "-k", "--signal", "--kill-after")),
    "nice": frozenset(("-n",)),
    "ionice": frozenset(("-c", "-n")),
    "stdbuf": frozenset(("-i", "-o", "-e")),
    "xargs": frozenset(("-n", "-I", "-P", "-L", "-d", "-a", "-s", "-E")),
    "taskset": frozenset(("-c", "-p")),
    "flock": frozenset(("-w", "-c")),
    **dict.fromkeys(
        ("nohup", "time", "exec", "command", "builtin", "setsid", "watch", "catchsegv", "busybox"), frozenset()
    ),
}
