"""What a piece of Python reaches for, read from its syntax and never run: paths, addresses, modules, commands."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["Reached", "read_code", "read_text"]

MOST_CODE = 200_000  # characters
MOST_NODES = 50_000
MOST_DEPTH = 30


@dataclass(frozen=True, slots=True)
class Reached:
    """One thing: a path or an address as a text, a module's or a variable's name, or a shell command."""

    kind: Literal["path", "url", "module", "variable", "shell"]
    value: str


_RUNS = frozenset(
    "system popen run call check_call check_output Popen getoutput getstatusoutput create_subprocess_shell".split()
)
# Modules that can ask a server.
_CLIENTS = frozenset(
    "urllib urllib3 requests httpx aiohttp http socket ssl ftplib smtplib wget transformers huggingface_hub"
    " websocket websockets paramiko asyncio".split()
)
_FETCHES = re.compile(r"_from_url\(|download_url|\burl(?:open|retrieve)\(|hub\.load")
_SAME = frozenset(("Path", "PurePath", "expanduser", "str"))  # calls that hand their text on
_ASKS = frozenset("getenv get".split())
_PATHLIKE = re.compile(r"(?:file://)?(?:~?/|~[A-Za-z]|\.\./|\.\.$)[^\n]*")
_URL = re.compile(r"(?:https?|ftp|wss?)://\S+", re.IGNORECASE)
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?")
# For text that no parser reads: a path after a quote, and an import at a line's start.
_QUOTED = re.compile(r"""['"`]((?:file://)?(?:/|~/|\.\./)[^'"`\n]{1,400})['"`]""")
_IMPORT = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)


def read_code(text: str) -> list[Reached] | None:
    """What Python code reaches for, in order; None where it is no Python."""
    text = text[:MOST_CODE]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found: list[Reached] = []
    inside: set[int] = set()
    for count, node in enumerate(ast.walk(tree)):
        if count > MOST_NODES:
            break
        found += _of(node, inside)
    asks = any(item.kind == "module" and item.value in _CLIENTS for item in found)
    if not asks and _FETCHES.search(text) is None:
        found = [item for item in found if item.kind != "url"]  # it is only named
    return found


def read_text(text: str) -> list[Reached]:
    """As `read_code`, by patterns, for text in another language or with syntax errors."""
    text = text[:MOST_CODE]
    found = [Reached("path", match[1]) for match in _QUOTED.finditer(text)]
    return found + [Reached("module", match[1]) for match in _IMPORT.finditer(text)]


def _of(node: ast.AST, inside: set[int]) -> Iterator[Reached]:
    if isinstance(node, ast.Import):
        yield from (Reached("module", alias.name.partition(".")[0]) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield Reached("module", node.module.partition(".")[0])
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        inside.add(id(node.value))  # a docstring
    elif isinstance(node, ast.Call):
        yield from _of_call(node, inside)
    elif isinstance(node, ast.Subscript) and _name(node.value) == "environ":
        if (key := _folded(node.slice)) is not None:
            inside.add(id(node.slice))
            yield Reached("variable", key)
    if isinstance(node, (ast.BinOp, ast.JoinedStr, ast.Constant)) and id(node) not in inside:
        text = _folded(node)
        if text is not None:
            inside.update(id(below) for below in ast.walk(node))
            yield from _of_string(text)


def _of_call(node: ast.Call, inside: set[int]) -> Iterator[Reached]:
    name, first = _name(node.func), node.args[0] if node.args else None
    if first is None:
        return
    if isinstance(node.func, ast.Attribute) and _name(node.func.value) == "re":
        inside.update(id(below) for below in ast.walk(first))  # a pattern is no path
        return
    if name in _RUNS:
        words = [_folded(item) for item in first.elts] if isinstance(first, (ast.List, ast.Tuple)) else []
        text = " ".join(_quoted(word) for word in words if word is not None) if words else _folded(first)
        if text:
            inside.update(id(below) for below in ast.walk(first))
            yield Reached("shell", text)
    elif name in _ASKS and (key := _folded(first)) is not None:
        if name == "getenv" or (isinstance(node.func, ast.Attribute) and _name(node.func.value) == "environ"):
            yield Reached("variable", key)
    elif name in ("import_module", "__import__", "find_spec") and (module := _folded(first)) is not None:
        inside.add(id(first))
        yield Reached("module", module.partition(".")[0])
    elif name in ("join", "Path", "PurePath", "joinpath") and len(node.args) > 1:
        parts = [_folded(part) for part in node.args]
        if all(parts) and (
            name != "join" or not isinstance(node.func, ast.Attribute) or _name(node.func.value) == "path"
        ):
            inside.update(id(below) for part in node.args for below in ast.walk(part))
            yield from _of_string("/".join(str(part) for part in parts))


def _of_string(text: str) -> Iterator[Reached]:
    if _URL.match(text):
        yield Reached("url", text)
    elif _ADDRESS.fullmatch(text):
        yield Reached("url", f"tcp://{text}")
    elif _PATHLIKE.fullmatch(text) and len(text) < 4096:
        yield Reached("path", text)


def _folded(node: ast.AST, depth: int = 0) -> str | None:
    """The text of an expression of constants; what is not constant in an f-string becomes `*`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if depth > MOST_DEPTH:
        return None
    if isinstance(node, ast.JoinedStr):
        parts = [_folded(part, depth + 1) if isinstance(part, ast.Constant) else "*" for part in node.values]
        return "".join(part or "" for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
        left, right = _folded(node.left, depth + 1), _folded(node.right, depth + 1)
        if left is not None and right is not None:
            return f"{left.rstrip('/')}/{right}" if isinstance(node.op, ast.Div) else left + right
    if (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and _name(node.func) in ("Path", "PurePath", "expanduser", "str")
    ):
        return _folded(node.args[0], depth + 1)
    return None


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
