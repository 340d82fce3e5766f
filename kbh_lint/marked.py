"""YAML that remembers its lines, so that a mistake in a data file is told with the place it was made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

    YamlNode = yaml.ScalarNode | yaml.SequenceNode | yaml.MappingNode

MAX_NODES = 50_000
MAX_DEPTH = 60
MAX_MESSAGE = 1000  # characters
_TEXT = "tag:yaml.org,2002:str"


class DataError(Exception):
    """A data file (a rule, a problem) that cannot be used: the file, the line and what is wrong, in one sentence.

    A message may quote the file, which may hold anything: it becomes one line of at most MAX_MESSAGE characters.
    """

    def __init__(self, path: str, line: int, message: str) -> None:
        if not message.isprintable():
            message = " ".join("".join(c if c.isprintable() else " " for c in message).split())
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 3] + "..."
        super().__init__(f"{path}:{line}: {message}")
        self.path, self.line, self.message = path, line, message


class Map(dict[str, Any]):
    """A YAML mapping; `line` is where it starts and `lines` where each key stands."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class Items(list[Any]):
    """A YAML sequence; `lines` is where each item starts."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


def load(text: str, path: str) -> Map:
    """The mapping that `text` holds. Raises DataError: not YAML, not a mapping, a repeated key, too large."""
    value = load_any(text, path)
    if not isinstance(value, Map):
        raise DataError(path, 1, "the file must hold one mapping of keys to values")
    return value


def load_any(text: str, path: str) -> object:
    """What `text` holds, None when nothing. Raises DataError: not YAML, a repeated key, too large."""
    import yaml

    loader_class: Callable[[str], Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        loader = loader_class(text)
        try:
            node = loader.get_single_node()
            count = [0]
            return None if node is None else _build(node, loader.construct_object, path, count, 0)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise DataError(path, mark.line + 1 if mark else 1, f"not valid YAML: {problem}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(path, 1, f"not valid YAML: {error}") from None


def _build(node: YamlNode, scalar: Callable[[Any], Any], path: str, count: list[int], depth: int) -> object:
    """The value of a node; `scalar` makes those of scalars that are not text."""
    count[0] += 1
    if count[0] > MAX_NODES or depth > MAX_DEPTH:
        line = node.start_mark.line + 1
        raise DataError(path, line, f"the file is too large: over {MAX_NODES} values or {MAX_DEPTH} levels")
    if node.id == "scalar":
        return node.value if node.tag == _TEXT else scalar(node)
    line = node.start_mark.line + 1
    if node.id == "sequence":
        items = Items(line)
        for child in node.value:
            items.append(_build(child, scalar, path, count, depth + 1))
            items.lines.append(child.start_mark.line + 1)
        return items
    found = Map(line)
    for key_node, value_node in node.value:
        key_line = key_node.start_mark.line + 1
        key = _build(key_node, scalar, path, count, depth + 1)
        if not isinstance(key, str):
            raise DataError(path, key_line, f"the key {key!r} is not text; put it in quotes")
        if key in found:
            raise DataError(path, key_line, f"the key `{key}` stands twice (first on line {found.lines[key]})")
        found[key] = _build(value_node, scalar, path, count, depth + 1)
        found.lines[key] = key_line
    return found


class Fields:
    """Reads a mapping key by key, and complains about what is missing, mistyped or left over."""

    def __init__(self, data: Map, path: str, what: str) -> None:
        self.data, self.path, self.what = data, path, what
        self._left = set(data)

    def fail(self, key: str, message: str) -> DataError:
        """The error to raise about the value of `key`."""
        return DataError(self.path, self.data.lines.get(key, self.data.line), message)

    def text(self, key: str, default: str | None = None) -> str:
        """The non-empty string under `key`; the key is required unless there is a default."""
        self._left.discard(key)
        if key not in self.data:
            if default is None:
                raise DataError(self.path, self.data.line, f"{self.what} needs `{key}`")
            return default
        value = self.data[key]
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, f"`{key}` of {self.what} must be text, not {_said(value)}")
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """The string under `key`, which must be one of `allowed`."""
        value = self.text(key, default)
        if value not in allowed:
            raise self.fail(key, f"`{key}` of {self.what} must be one of {', '.join(allowed)}; it is `{value}`")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of strings under `key`; a single string counts as a list of one, a missing key as an empty list."""
        value = self.take(key, [])
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
            raise self.fail(key, f"`{key}` of {self.what} must be a list of texts")
        return tuple(items)

    def take(self, key: str, default: object = None) -> Any:
        """The value under `key`, unchecked."""
        self._left.discard(key)
        return self.data.get(key, default)

    def mapping(self, key: str) -> Map:
        """The mapping under `key`, which is required."""
        value = self.take(key)
        if not isinstance(value, Map):
            problem = f"must be a mapping, not {_said(value)}" if key in self.data else "is missing"
            raise self.fail(key, f"`{key}` of {self.what} {problem}")
        return value

    def items(self, key: str) -> Items:
        """The list under `key`, which is required."""
        value = self.take(key)
        if not isinstance(value, Items):
            problem = f"must be a list, not {_said(value)}" if key in self.data else "is missing"
            raise self.fail(key, f"`{key}` of {self.what} {problem}")
        return value

    def done(self) -> None:
        """Raises when a key was never asked for: a misspelt key must not pass in silence."""
        for key in sorted(self._left, key=lambda k: self.data.lines[k]):
            raise self.fail(key, f"{self.what} has no key `{key}`")


def _said(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Map):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value) if len(repr(value)) < 60 else "a " + type(value).__name__
