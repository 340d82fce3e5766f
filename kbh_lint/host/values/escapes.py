"""What outlives a call of `forward`: attributes, globals, closures, default arguments, caches, C++ statics, graphs.

A slot is a place that outlives calls, by a path a reader can find (`self.cache[...]`, `static buffer`), with the value
that is there. Slots are compared before and after calls; nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import CppType, DType, Env, Func, JitFunction, Overloads, Sym, Value
from kbh_lint.host.values.containers import Defaults
from kbh_lint.host.values.cpp_objects import Pointer
from kbh_lint.host.values.objects import (
    Bound,
    ClassV,
    Compiled,
    Configured,
    Extension,
    ExtFunction,
    Graph,
    HostDescriptor,
    Instance,
    LibObject,
    Memo,
    Partial,
    Specialized,
    compared_as,
)
from kbh_lint.host.values.tensors import ADDRESS_BITS, Storage, Tensor, Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_SLOTS = 4000
MAX_ITEMS = 64  # of one container: the first and the newest
MAX_DEPTH = 24
MAX_OBJECTS = 20_000
_BARE = frozenset((bool, int, float, str, type(None)))
OWN_ATTRS = frozenset(("known", "range", "value", "steer", "lengths"))  # what the interpreter keeps on a tensor
IDENTITY_BASE = 0x7F00_0000_0000  # what id() gives starts here
PLAIN = (bool, str, DType, Sym, CppType, Overloads)  # that hold nothing
CODE = (Extension, ExtFunction, JitFunction, Configured, Compiled, Specialized)
_NOTHING = frozenset(PLAIN) - {str}
KEPT = (Tensor, Unknown, Graph, HostDescriptor, Pointer, *CODE)


class Version(int):
    """A tensor's `_version`: a number that, as part of a key, can be told from a size, with the storage that it is
    of."""

    storage: Storage | None = None


class Length(int):
    """The length of a container or a text. Its slot's `table` is the container itself, or where the text is stored."""


@dataclass(frozen=True, slots=True, eq=False)
class EscapedState:
    """One value in a place that outlives calls. `keys` are the kinds of the dict keys on the way to it; `table` and
    `name` are where it is stored, when it can be stored there again."""

    path: str
    value: Any
    keys: tuple[str, ...] = ()
    table: Any = None
    name: Any = None


Item = tuple[str, Any, tuple[str, ...], Any, Any]  # path, value, kinds of keys, where it is stored


def slots(interp: Run, instance: Value, given: Mapping[str, Tensor] | None = None) -> list[EscapedState]:
    """Returns every value that can be reached from what outlives a call, each object once; attributes of the tensors
    that are `given` count, too. `interp.memory.cut` says whether objects were left out."""
    walk = _Walk()
    walk.table("", interp.scopes.main.vars)
    for file, env in interp.scopes.sidecars.items():
        walk.table(f"{file.removesuffix('.py')}.", env.vars)
    walk.visit(("self", instance, (), None, None), 0)
    for name, tensor in (given or {}).items():
        walk.table(f"{name}.", {k: v for k, v in tensor.attrs.items() if k not in OWN_ATTRS})
    if interp.cpp_side is not None:
        for statics in (*interp.cpp_side.statics.values(), *interp.cpp_side.globals.values()):
            walk.table("static ", statics)
    for tensor in interp.memory.variables.values():
        walk.visit(("__device__ memory", tensor, (), None, None), 0)
    walk.table("memory ", interp.memory.numbers)
    walk.table("", interp.process.patches)
    walk.visit(("a file", interp.files.kept, (), None, None), 0)
    interp.memory.cut = walk.cut
    return walk.found + walk.lengths


class _Walk:
    """A bounded walk over live objects."""

    def __init__(self) -> None:
        self.found: list[EscapedState] = []
        self.lengths: list[EscapedState] = []
        self.seen: set[int] = set()
        self.cut = False

    def table(self, prefix: str, names: dict[Any, Any]) -> None:
        """Visits the values of a dict of names, whose paths get a prefix."""
        for name, value in names.items():
            if value is not None and type(value) not in _NOTHING and not (type(value) is Func and _holds_none(value)):
                self.visit((f"{prefix}{name}", value, (), names, name), 0)

    def visit(self, item: Item, depth: int) -> None:
        """Records a value and visits what can be reached from it."""
        path, value, keys, table, name = item
        if value is None:
            return
        if len(self.found) >= MAX_SLOTS or len(self.seen) >= MAX_OBJECTS:
            self.cut = True
            return
        kind = type(value)
        if kind is int or kind is float:  # as most are
            self.found.append(EscapedState(path, value, keys, table, name))
            return
        if kind in _NOTHING:
            return
        if isinstance(value, PLAIN):
            if type(value) is str and table is not None:
                self.length(item)
            return
        if isinstance(value, Func) and _holds_none(value):
            return
        if isinstance(value, (int, float)):
            self.found.append(EscapedState(*item))
            return
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        if isinstance(value, KEPT):
            self.found.append(EscapedState(*item))
        if isinstance(value, (list, dict, set)):
            self.length((path, value, keys, value, None))
        elif type(value) is tuple and table is not None:
            self.length(item)
        if depth >= MAX_DEPTH or isinstance(value, (list, tuple, dict)) and _middle(value):
            self.cut = True
        if depth < MAX_DEPTH:
            for inner in _inside(path, value):
                if inner[1] is None or type(inner[1]) in _NOTHING and len(self.found) + len(self.seen) < MAX_SLOTS:
                    continue  # as most that classes and objects hold; of more than that it counts that they are there
                below = (inner[0], inner[1], (*keys, *inner[2]), inner[3], inner[4]) if keys else inner
                self.visit(below, depth + 1)

    def length(self, item: Item) -> None:
        """Records the length of a container."""
        path, value, keys, table, name = item
        if len(self.lengths) < MAX_SLOTS:
            self.lengths.append(EscapedState(path, Length(len(value)), keys, table, name))


def _holds_none(func: Func) -> bool:
    """Whether a function of a module holds nothing that it could keep something in."""
    return not func.defaults and not func.attrs and func.env.parent is None


def _inside(path: str, value: Value) -> Iterator[Item]:
    """What an object holds, with the paths to it."""
    if isinstance(value, (Instance, LibObject, Graph)):
        yield from _named(path, value.attrs)
        if isinstance(value, Instance) and value.items is not None:
            yield from _entries(path, value.items)
    elif isinstance(value, Tensor):
        yield from _named(path, {k: v for k, v in value.attrs.items() if k not in OWN_ATTRS})
    elif isinstance(value, dict):
        yield from _entries(path, value)
        if isinstance(value, Defaults):
            yield path, value.factory, (), None, None
    elif isinstance(value, (list, tuple, set, frozenset)):
        for i, item in _ends(list(enumerate(value))):
            yield f"{path}[...]", item, (), value if isinstance(value, list) else None, i
    elif isinstance(value, Memo):
        yield from _entries(path, value.results)
        yield path, value.func, (), None, None
    elif isinstance(value, Func):
        yield from _of_function(path, value)
    elif isinstance(value, ClassV):
        yield from _named(path, value.env.vars)
    elif isinstance(value, (Bound, Partial)):
        for item in (value.func, *(value.args if isinstance(value, Partial) else (value.self,))):
            yield path, item, (), None, None
    elif isinstance(value, HostDescriptor):
        yield path, value.tensor, (), None, None


def _of_function(path: str, func: Func) -> Iterator[Item]:
    """What a function holds: its defaults, its attributes, and what it closes over or captures."""
    if func.node.loc[0].language != "cuda":
        yield from _named(path, func.defaults)
        yield from _named(path, func.attrs)
        yield from _closure(path, func.env)
    elif (held := func.captured()) is not None:
        yield from _named(path, held.vars)


def _ends(items: list[Any]) -> list[Any]:
    """The first and the newest items of a container."""
    half = MAX_ITEMS // 2
    return items if len(items) <= MAX_ITEMS else items[:half] + items[-half:]


def _middle(value: list[Any] | tuple[Any, ...] | dict[Any, Any]) -> bool:
    """Whether a list, tuple or dict holds objects between its first and its newest items: numbers and texts tell
    nothing."""
    if len(value) <= MAX_ITEMS:
        return False
    kinds = set(map(type, value)) | set(map(type, value.values() if isinstance(value, dict) else ()))
    return not kinds <= _BARE


def _named(path: str, table: dict[str, Any]) -> Iterator[Item]:
    for name, item in table.items():
        yield f"{path}.{name}", item, (), table, name


def _closure(path: str, env: Env | None) -> Iterator[Item]:
    while env is not None and env.parent is not None:  # the outermost scope is the module
        for item in _named(path, env.vars):
            if not isinstance(item[1], (ir.Decl, Overloads)):
                yield item
        env = env.parent


def _entries(path: str, items: dict[Any, Any]) -> Iterator[Item]:
    for key, item in _ends(list(items.items())):
        if isinstance(key, str) and key.isidentifier():
            yield f"{path}[{key[:24]!r}]", item, ("shape",), items, key
        else:
            yield f"{path}[...]", item, key_kinds(key), items, key
            if not isinstance(key, (str, int)):
                yield f"{path}[...]", key, (), None, None


def key_kinds(key: Value, depth: int = 0) -> tuple[str, ...]:
    """Returns what the parts of a key tell apart: `pointer`, `identity`, `version`, `values`, `object` (a tensor held),
    `shape`."""
    key = compared_as(key)
    if isinstance(key, (tuple, frozenset)) and depth < 4:
        return tuple(dict.fromkeys(kind for part in key for kind in key_kinds(part, depth + 1)))
    if isinstance(key, Unknown):
        return ("values",) if key.contents else ("shape",)
    if isinstance(key, Instance) and any(path.startswith("enum.") for path in key.cls.external_bases()):
        return ("shape",)
    if any(value.contents for value in doubts(key)):
        return ("values",)
    if isinstance(key, (Tensor, Instance)):
        return ("object",)
    if isinstance(key, Pointer) or isinstance(key, int) and key >= 1 << ADDRESS_BITS and not is_identity(key):
        return ("pointer",)
    if is_identity(key):
        return ("identity",)
    return ("version",) if isinstance(key, Version) else ("shape",)


def is_identity(value: Value) -> bool:
    """Whether a number came from id()."""
    return isinstance(value, int) and IDENTITY_BASE <= value < IDENTITY_BASE + (1 << 32)


def refers(interp: Run, value: Value) -> Tensor | None:
    """Returns the tensor whose address, id() or version a number is, or that the container with that id() holds; None
    where not known."""
    if isinstance(value, Version):
        return None if value.storage is None else interp.memory.views.get(value.storage.ident)
    if is_identity(value):
        known = next((held for number, held in interp.memory.ids.values() if number == value), None)
        known = known.attrs if isinstance(known, Instance) else known
        parts = known.values() if isinstance(known, dict) else known if isinstance(known, list) else (known,)
        return next((part for part in parts if isinstance(part, Tensor)), None)
    found: Tensor | None = interp.tensor_at(value)
    return found


def holds(found: list[EscapedState], tensor: Tensor) -> bool:
    """Whether something among `found` keeps a tensor's memory alive: another tensor over the same storage (a graph does
    not)."""
    return any(isinstance(s.value, Tensor) and s.value.storage is tensor.storage for s in found)
