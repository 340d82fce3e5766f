"""The arguments of an entry point: plain values, and lists, tuples, dicts and objects of tensors around the tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kbh_lint.base.formulas import evaluate
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Value
from kbh_lint.host.python import module_calls
from kbh_lint.host.values.objects import ClassV, Instance
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Tensor
from kbh_lint.problems import Binding, EntryPoint

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


@dataclass(slots=True, eq=False)
class Leaf:
    """A tensor among the arguments, by its name."""

    name: str


@dataclass(slots=True, eq=False)
class Box:
    """A list, tuple, dict or object of tensors among the arguments; `made` is the one that the last call was given."""

    kind: str
    items: dict[Any, Any]
    cls: ClassV | None = None
    made: Any = None


@dataclass(slots=True, eq=False)
class Layout:
    """The arguments of an entry point: name, whether it is given by name, and its tree of tensors or its value."""

    parts: list[tuple[str, bool, Any]] = field(default_factory=list)

    def build(self, inputs: dict[str, Tensor], anew: Callable[[set[str]], bool]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the positional and keyword arguments around the tensors `inputs`. A container is a new object where
        `anew`, asked of its tensors' names, says so; else the one of the call before."""
        plain = [_built(tree, inputs, anew) for _, keyword, tree in self.parts if not keyword]
        return plain, {name: _built(tree, inputs, anew) for name, keyword, tree in self.parts if keyword}

    def tensors(self) -> dict[str, set[str]]:
        """Returns the names of the tensors inside each argument, for arguments that hold any."""
        found = {name: set(_names(tree)) for name, _, tree in self.parts}
        return {name: inner for name, inner in found.items() if inner}

    def release(self, held: Iterable[Value]) -> None:
        """Gives up containers that something in `held` keeps alive, so that no new object takes over their address."""
        tables = {id(table) for table in held}
        for _, _, tree in self.parts:
            for box in _boxes(tree):
                if id(box.made) in tables or isinstance(box.made, Instance) and id(box.made.attrs) in tables:
                    box.made = None


def _names(tree: object) -> Iterator[str]:
    if isinstance(tree, Leaf):
        yield tree.name
    elif isinstance(tree, Box):
        for item in tree.items.values():
            yield from _names(item)


def _boxes(tree: object) -> Iterator[Box]:
    if isinstance(tree, Box):
        yield tree
        for item in tree.items.values():
            yield from _boxes(item)


def _built(tree: object, inputs: dict[str, Tensor], anew: Callable[[set[str]], bool]) -> Value:
    if isinstance(tree, Leaf):
        return inputs[tree.name]
    if not isinstance(tree, Box):
        return tree
    items = {key: _built(item, inputs, anew) for key, item in tree.items.items()}
    if tree.kind == "tuple":
        return tuple(items.values())
    if tree.made is None or anew(set(_names(tree))):
        tree.made = [] if tree.kind == "list" else Instance(tree.cls or _STATE) if tree.kind == "object" else {}
    if tree.kind == "list":
        tree.made[:] = items.values()
    else:
        (tree.made.attrs if tree.kind == "object" else tree.made).update(items)
    return tree.made


_STATE = ClassV("State", (), Env(), None, by_identity=True)  # of an object that nothing of the file defines


def declared(interp: Run, run: ShapeRun, entry: EntryPoint, binding: Binding) -> tuple[Any, Instance | None]:
    """Returns the callable that a contract's entry point names, and the model it works on, if one is made; sets the
    argument layout of `run`. The callable is None where a name is not defined."""
    owner, _, method = entry.name.rpartition(".")
    wanted = owner or next((given.cls for given in entry.arguments if given.kind == "model"), "")
    cls = interp.scopes.main.vars.get(wanted) if wanted else None
    model = interp.call(cls, list(binding.init.values()), {}, None) if isinstance(cls, ClassV) else None
    if isinstance(model, Instance):
        model = run.instance = module_calls.placed(interp, model)
    layout = Layout()
    for given in entry.arguments:
        tree: Any = {i: Leaf(name) for i, name in given.tensors.items()}
        if given.kind == "value":
            tree = evaluate(given.value, binding.shape.symbols)
        elif given.kind == "model":
            tree = model
        else:
            tree = tree[0] if given.kind == "tensor" else Box(given.kind, tree)
        layout.parts.append((given.name, False, tree))
    run.layout = layout
    if wanted and not isinstance(model, Instance):
        return None, None
    if not owner:
        return interp.scopes.main.vars.get(method), model
    return (model if method == "forward" else interp.get_attr(model, method, None)), model
