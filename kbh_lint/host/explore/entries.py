"""Entry points of a file whose deck names none that is known: public functions, and public methods of its classes.

Each is called twice with arguments made from its signature (`parameters`), with contents that change in place between
the calls, and again as `probes` asks for. All run in one process, in the order of the file, on the same objects: what
`prefill` left in a model is there when `decode` is called. They run at small sizes and at large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.dtypes import INTS
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.frontends.walk import walk
from kbh_lint.host.explore import background, exploration, parameters, probes
from kbh_lint.host.explore.layouts import Box, Layout, Leaf
from kbh_lint.host.explore.parameters import Param
from kbh_lint.host.libs import trace_nn
from kbh_lint.host.python import module_calls
from kbh_lint.host.run import Run
from kbh_lint.host.torch import recording
from kbh_lint.host.values import escapes, tensor_arguments
from kbh_lint.host.values.frames import Frame
from kbh_lint.host.values.objects import MODULE_BASES, ClassV, Compiled, Instance, Memo, Partial
from kbh_lint.host.values.path_runs import Call, PathRun, ShapeRun
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Unknown

MAX_ENTRIES = 8
MAX_WAYS = 3  # undecided branches that are taken the other way, one at a time
FUEL = 150_000
SMALL, LARGE, MOST = 16, 1 << 14, 1 << 20
WIDTH, MIDDLE, PIECES = 128, 16, 2
_NO_TENSORS = frozenset("shape dtype device ndim is_cuda itemsize nbytes".split())  # whatever has them
SIZES = ("small sizes", "large sizes")
_OF_MODULES = module_calls.NAMES - {"forward"}
_MODELS = ("ModelNew", "Model")

Examine = Callable[[PathRun, ShapeRun, "Entry"], None]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """An entry point: a function of the module, or a method of a class; `name` is its name for readers."""

    name: str
    func: Func
    value: Any  # what the module's name is bound to: the function, or what a decorator made of it
    cls: ClassV | None
    params: tuple[Param, ...]


def explore(session: Session, examine: Callable[[PathRun], Examine]) -> list[PathRun]:
    """Runs the entry points along the default path, then with undecided branches taken the other way. `examine` makes
    the callback that looks at each run of a path when it has ended."""
    paths: list[PathRun] = []
    seen: set[Any] = set()
    waiting: list[dict[Any, bool]] = [{}]
    while waiting and len(paths) <= MAX_WAYS:
        paths.append(_run(session, waiting.pop(0), examine))
        waiting += exploration.other_ways(paths[-1], seen)
    return paths


def _run(session: Session, forced: dict[Any, bool], examine: Callable[[PathRun], Examine]) -> PathRun:
    """All entry points, along one path."""
    interp = Run(session, forced)
    path = PathRun(forced, env=interp.scopes.main, stateful=True)
    look = examine(path)
    frame = Frame(interp.scopes.main, interp.scopes.main, None, None)
    try:
        interp.block(session.module.body, frame)
    except Exception as error:
        path.failed, path.exit_loc, path.raised = exploration.ended(error, "the module", session)
        return path
    functions = _functions(session.module)
    found = list(entry_points(interp.scopes.main, session.module, functions))[:MAX_ENTRIES]
    for label, size in zip(SIZES, (SMALL, _large(session.module)), strict=True):
        world = _World(interp, functions, size)
        for entry in found:
            run = world.run(entry, label)
            if run is None:
                continue
            path.shapes.append(run)
            path.given, path.notes, path.kinds = set(interp.memory.given), interp.trace.notes, interp.trace.kinds
            look(path, run, entry)
            world.grow_old(run)
    decided = interp.decisions
    path.sites = {key: value for key, value in decided.sites.items() if key not in decided.mixed}
    interp.refuel(0)
    return path


# --- which ---------------------------------------------------------------------------------------------------


def _functions(module: ir.Module) -> dict[str, ir.FuncDef]:
    """The functions and methods of a file by their bare names."""
    found: dict[str, ir.FuncDef] = {}
    for node in module.body:
        for one in node.body if isinstance(node, ir.ClassDef) else (node,):
            if isinstance(one, ir.FuncDef):
                found.setdefault(one.name, one)
    return found


def entry_points(env: Env, module: ir.Module, functions: parameters.Functions) -> Iterator[Entry]:
    """Yields the public functions and methods that nothing else in the file calls: these reach the others."""
    used = _used(module)
    values = {name: value for name, value in env.vars.items() if not name.startswith("_")}
    for node in module.body:
        value = values.get(node.name) if isinstance(node, (ir.FuncDef, ir.ClassDef)) else None
        if isinstance(node, ir.FuncDef) and node.name not in used:
            func = _function_in(value)
            if func is not None and _is(func, node) and not func.language:
                yield Entry(node.name, func, value, None, tuple(parameters.parameters(node, functions, False)))
        if isinstance(node, ir.ClassDef) and isinstance(value, ClassV) and value.node is node:
            yield from _methods(value, node, module, used, functions)
    yield from _from_beside(values, module, used, functions)


def _from_beside(
    values: dict[str, Value], module: ir.Module, used: set[str], functions: parameters.Functions
) -> Iterator[Entry]:
    """What the file takes out of a file beside it."""
    made = {id(inner) for node in module.body if isinstance(node, ir.FuncDef) for inner in walk(node.body or ())}
    here = {id(node) for node in module.body}
    for name, value in values.items():
        func = _function_in(value)
        if func is not None and id(func.node) not in here | made and name not in used and not func.language:
            yield Entry(name, func, value, None, tuple(parameters.parameters(func.node, functions, False)))
        if isinstance(value, ClassV) and value.node is not None and id(value.node) not in here:
            yield from _methods(value, value.node, module, used, functions)


def _methods(
    cls: ClassV, node: ir.ClassDef, module: ir.Module, used: set[str], functions: parameters.Functions
) -> Iterator[Entry]:
    of_torch = any(base in MODULE_BASES for base in cls.external_bases())
    if _is_a_part(cls, node, module, of_torch):
        return
    seen: set[str] = set()
    for one in [one for part in cls.mro() if part.node is not None for one in part.node.body]:
        if not isinstance(one, ir.FuncDef) or one.name.startswith("_") or one.name in _OF_MODULES or one.name in seen:
            continue
        seen.add(one.name)
        func = _function_in(cls.get(one.name))
        if func is None or not _is(func, one) or not one.params:
            continue
        if one.name == "forward" and of_torch or one.name not in used:
            params = tuple(parameters.parameters(one, functions, True))
            yield Entry(f"{cls.name}.{one.name}", func, None, cls, params)


def _is_a_part(cls: ClassV, node: ir.ClassDef, module: ir.Module, of_torch: bool) -> bool:
    """Whether a class is a part of some library (an autograd function, an enumeration), or of another class, which
    shows what it does."""
    if cls.external_bases() and not of_torch or cls.dataclass:
        return True
    around = [one for one in module.body if one is not node and (not of_torch or isinstance(one, ir.ClassDef))]
    return any(isinstance(n, ir.Name) and n.id == cls.name for other in around for n in walk(other))


def _is(func: Func, node: ir.FuncDef) -> bool:
    """Whether a function is what a definition made: itself, or one of the file that hands on all that it is given."""
    handed_on = {"star", "doublestar"} <= {param.kind for param in func.node.params}
    return func.node is node or bool(node.decorators) and handed_on


def _function_in(value: object) -> Func | None:
    """The function that a value is, or that a cache or a compiler was put around."""
    for _ in range(4):
        if isinstance(value, (Memo, Compiled, Partial)):
            value = value.func
    return value if isinstance(value, Func) and value.node.loc[0].language == "python" else None


def _used(module: ir.Module) -> set[str]:
    """The names that functions of a file use: another function's, or a method's of anything."""
    found: set[str] = set()
    for node in module.body:
        for func in node.body if isinstance(node, ir.ClassDef) else (node,):
            if not isinstance(func, ir.FuncDef):
                continue
            inside = walk(func.body or ())
            own = {param.name for param in func.params} | {name for inner in inside for name in _bound(inner)}
            for inner in inside:
                name = inner.id if isinstance(inner, ir.Name) else inner.name if isinstance(inner, ir.Attr) else ""
                if name and name != func.name and not (isinstance(inner, ir.Name) and name in own):
                    found.add(name)
    return found


def _bound(node: object) -> list[str]:
    """The names to which a statement gives values."""
    targets = node.targets if isinstance(node, ir.Assign) else (node.target,) if isinstance(node, ir.For) else ()
    return [part.id for part in walk(targets) if isinstance(part, ir.Name)]


def _large(module: ir.Module) -> int:
    """A size above whatever the file compares sizes with."""
    numbers = [
        side.value
        for node in walk(module.body)
        if isinstance(node, ir.Compare)
        for side in (node.left, *node.rights)
        if isinstance(side, ir.Const) and type(side.value) is int
    ]
    return max([LARGE, *(2 * number for number in numbers if 2 * number <= MOST)])


# --- with what -----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _World:
    """The objects on which entry points are called, and with which, for one size of tensors."""

    interp: Run
    functions: parameters.Functions
    size: int
    models: dict[int, Instance | None] = field(default_factory=dict)
    handed: set[int] = field(default_factory=set)  # storages that entry points returned
    shaped: bool = True  # tensors whose number of dimensions the code shows have sizes

    def run(self, entry: Entry, label: str) -> ShapeRun | None:
        """Runs both calls of an entry point, and probes; returns None where the entry point cannot be called."""
        if label == SIZES[1] and not any(p.kind in ("int", "default") or p.rank for p in entry.params):
            return None  # nothing about it is large
        run = self._attempt(entry, label)
        if run is not None and run.stopped and not run.calls and run.inputs:
            self.grow_old(run)
            self.shaped = False
            run = self._attempt(entry, label)
            self.shaped = True
        return run

    def _attempt(self, entry: Entry, label: str) -> ShapeRun | None:
        interp = self.interp
        interp.refuel(FUEL)
        interp.trace.call_index = 0
        interp.trace.events, interp.trace.unread = [], []
        interp.memory.compared = False
        run = ShapeRun(f"{entry.name} at {label}", None)
        try:
            callee = self._callee(entry)
            run.layout, run.handed = self._layout(entry, run), frozenset(self.handed)
        except Exception as error:
            exploration.ended(error, "the run", interp.session)
            return None
        if callee is None:
            return None
        setting = interp.process.tf32
        holder = [one for one in self.models.values() if one is not None]
        try:
            seen = [escapes.slots(interp, holder)]
            for index in (1, 2):
                interp.trace.call_index = index
                interp.trace.round += 1
                interp.decisions.asked = {}
                if index == 2:
                    probes.change(interp, run.inputs.items(), "input")
                    background.tick(interp)
                given = probes.holding(interp, tuple(run.inputs.values()))
                start = len(interp.trace.events)
                result = probes.called(interp, run, callee, run.inputs)
                contents = probes.result_contents(result)
                run.calls.append(Call(interp.trace.events[start:], result, given, index=index, contents=contents))
                seen.append(escapes.slots(interp, holder))
            run.unread, run.rewritten = list(interp.trace.unread), interp.trace.rewritten
            probes.probe(interp, run, callee, seen, holder)
        except Exception as error:
            run.stopped, run.stopped_at, run.raised = exploration.ended(error, "the run", interp.session)
        interp.process.tf32 = setting
        return run

    def grow_old(self, run: ShapeRun) -> None:
        """Marks all that `run` left as older than the next run, so that none counts as made in, or given to, that."""
        interp = self.interp
        for call in (*run.calls, *run.probes):
            self.handed |= {t.storage.ident for t in tensor_arguments.tensors_in(call.result)}
        self.handed -= interp.memory.given
        contents = [view.storage.content for view in interp.memory.views.values()]
        for event in interp.trace.events:
            event.call = 0
            contents += [*event.writes, *(read for read, _ in event.reads)]
        for content in contents:
            content.call = 0
            if content.label.startswith("input:"):
                content.label = f"earlier:{content.label[6:]}"
        interp.memory.given = set()

    def _callee(self, entry: Entry) -> Value:
        if entry.cls is None:
            return entry.value
        owner = self.model(entry.cls)
        name = entry.name.rpartition(".")[2]
        if owner is None or name == "forward" and _of_torch(entry.cls):
            return owner
        return self.interp.get_attr(owner, name, None)

    def model(self, cls: ClassV) -> Instance | None:
        """Returns the object of a class that its methods share as entry points; None where constructing it failed."""
        if id(cls) not in self.models:
            self.models[id(cls)] = None
            made = self._constructed(cls)
            if isinstance(made, Instance):
                made = module_calls.placed(self.interp, made) if _of_torch(cls) else made
                for name, tensor in trace_nn.state_of(made).items():
                    if tensor.storage.content.event is None:
                        tensor.storage.content.label = f"state:{name}"
                self.models[id(cls)] = made
        return self.models[id(cls)]

    def _constructed(self, cls: ClassV) -> Value:
        init = cls.get("__init__")
        params = parameters.parameters(init.node, self.functions, True) if isinstance(init, Func) else []
        plain = {"int": WIDTH, "float": 1.0, "bool": False}
        needed = [p for p in params if p.kind != "default"]
        for known in (plain, {}):
            given = {p.name: known.get(p.kind, Unknown((), f"the argument {p.name}")) for p in needed}
            try:
                return self.interp.call(cls, [], given, None)
            except Exception as error:
                exploration.ended(error, "the run", self.interp.session)
        return None

    def _layout(self, entry: Entry, run: ShapeRun) -> Layout:
        layout = Layout()
        ints, skipped = any(p.kind == "int" for p in entry.params), False
        for param in entry.params:
            tree: Any = None
            if param.kind == "default":
                tree = entry.func.defaults.get(param.name)
                if type(tree) is not int or tree <= 1 or self.size <= SMALL or ints:
                    skipped = True
                    continue  # Python puts it in
                tree = max(self.size, tree)
            else:
                tree = self._tree(param, param.kind, param.name, run)
            layout.parts.append((param.name, param.keyword or skipped, tree))
        return layout

    def _tree(self, param: Param, kind: str, name: str, run: ShapeRun) -> Value:
        if kind == "tensor":
            return self._leaf(param, name, run)
        if kind in ("list", "tuple"):
            return Box(kind, {i: self._leaf(param, f"{name}[{i}]", run) for i in range(PIECES)})
        if kind == "dict":
            return Box(kind, {key: self._leaf(param, f"{name}.{key}", run) for key in param.keys})
        if kind == "object":
            return self._object(param, name, run)
        plain: dict[str, Any] = {"int": self.size, "float": 1.0, "bool": False, "str": param.text}
        return plain[kind] if plain.get(kind, "") != "" else Unknown((), f"the argument {name}")

    def _object(self, param: Param, name: str, run: ShapeRun) -> Any:
        """A model of the file that has what is asked for, an object of one of its dataclasses, or one of no class."""
        classes = [value for value in self.interp.scopes.main.vars.values() if isinstance(value, ClassV)]
        classes.sort(key=lambda cls: (cls.name != param.cls, cls.name not in _MODELS))
        for cls in classes:
            if cls.dataclass or is_record(cls):
                fields = cls.field_names()
                if fields and (param.attrs <= {*fields, *cls.env.vars} and (param.attrs or cls.name == param.cls)):
                    return Box("object", {one: self._field(param, one, name, run) for one in fields}, cls)
            elif _of_torch(cls) or cls.name == param.cls or cls.name in _MODELS:
                known = self.model(cls)
                if known is not None and (cls.name == param.cls or self._has(known, param.attrs)):
                    return known
        if not param.attrs:
            return Unknown((), f"the argument {name}")
        return Box("object", {one: self._field(param, one, name, run) for one in sorted(param.attrs)})

    def _has(self, owner: Instance, names: frozenset[str]) -> bool:
        return all(name in owner.attrs or owner.cls.has(name) or name in _OF_MODULES for name in names)

    def _field(self, param: Param, field_name: str, name: str, run: ShapeRun) -> Value:
        if field_name in param.methods or field_name in _NO_TENSORS:  # of a class that is not known
            return Unknown((), f"{name}.{field_name}")
        tokens = field_name.lower().split("_")
        return self.size if parameters.counts(tokens) else self._leaf(param, f"{name}.{field_name}", run)

    def _leaf(self, param: Param, name: str, run: ShapeRun) -> Leaf:
        rank = param.rank if param.exact or param.rank > 1 else 1 if param.dtype in INTS else 2
        shapes = {1: (self.size,), 2: (self.size, WIDTH), 3: (self.size, MIDDLE, WIDTH)}
        shape = shapes.get(rank, (self.size, MIDDLE, MIDDLE, WIDTH) if rank == 4 else None) if self.shaped else None
        run.inputs[name] = recording.make(self.interp, shape, param.dtype, f"input:{name}")
        return Leaf(name)


def is_record(cls: ClassV) -> bool:
    """Whether a class is a named tuple."""
    return not cls.dataclass and bool(cls.field_names())


def _of_torch(cls: ClassV) -> bool:
    return any(base in MODULE_BASES for base in cls.external_bases())
