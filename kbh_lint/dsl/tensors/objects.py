"""Objects that kernels are given or make: their attributes, and the classes of the submission behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir, values
from kbh_lint.dsl.tensors import kinds
from kbh_lint.kernels.core import guards
from kbh_lint.kernels.core.joins import join
from kbh_lint.kernels.core.value import HANDLE, NOTHING, V
from kbh_lint.kernels.languages.python.call import Call

if TYPE_CHECKING:
    from kbh_lint.dsl.tensors.run import TensorRun


class Objects:
    """Reads and assigns attributes of host objects, and makes objects of the submission's classes, inside a kernel."""

    def __init__(self, run: TensorRun) -> None:
        self.run = run
        self.attributes: dict[tuple[int, str], V] = {}  # what the kernel assigned to attributes of objects
        self.given: dict[int, int] = {}  # places of those among the arguments, by id
        self.made: dict[Any, values.Made] = {}  # those that the kernel makes, by the place of the call

    def made_attribute(self, base: V, made: values.Made, node: ir.Attr) -> V:
        """The value of an attribute of an object that the host or a constructor made."""
        name = node.name
        assigned = self.attributes.get((id(made.methods), name)) if isinstance(made, kinds.Object) else None
        if assigned is not None:
            return assigned
        if any(key == name for key, _ in made.fields):
            if not isinstance(made, kinds.Object):
                return self.run.calls.bind_argument(name, made.get(name))
            held, place = made.get(name), self.given.get(id(made))
            value = self.run.calls.bind_argument(f"{values.FIELD}{name}", held)
            return value if place is None else guards.field_of(value, place, name, held)
        if isinstance(made, kinds.Mma) and name == "shape_mnk":
            sizes = (NOTHING, NOTHING, made.get("k") or NOTHING)
            return V(x=tuple(V("i32", "i32", const=size, shape=()) for size in sizes))
        if isinstance(made, kinds.Layout) and name in ("outer", "inner"):
            return base
        found = made.methods.vars.get(name) if made.methods is not None else None
        if isinstance(found, kinds.PropertyOf):
            return self.run.calls.invoke(
                found.get("func"),
                self.run.calls.bind_call(found.get("func"), Call(self.run, [base], {}, node)),
                node.loc,
            )
        if found is not None and (isinstance(made, kinds.Class) or not isinstance(found, (values.Func, values.Made))):
            return self.run.names.outer_value(found)
        if isinstance(made, kinds.Object) and found is None:
            self.run.facts.unread(f"an attribute {name} that nothing assigned on the host", node.loc)
        return V(x=HANDLE)

    def set_attribute(self, made: values.Made, name: str, value: V) -> None:
        """Executes `made.name = value`: the attribute may now also hold the value, as a loop may assign it in one
        iteration and read it in another.

        Calls that were analysed with the older value are analysed again.
        """
        key = (id(made.methods), name)
        old = self.attributes.get(key)
        if old is None and any(field == name for field, _ in made.fields):
            old = self.run.calls.bind_argument(f"{values.FIELD}{name}", made.get(name))
        new = value if old is None else join(old, value)
        if new is not old:
            self.attributes[key] = new
            self.run.memory.memory_version += 1

    def instantiate(self, cls: values.Made, call: Call) -> V:
        """A new object of a class of the submission; one place in the program always makes the same object."""
        made = self.made.get(call.loc)
        if made is None:
            members = dict(cls.methods.vars) if cls.methods is not None else {}
            made = self.made[call.loc] = kinds.Object(methods=values.Env(members))
        found = V(const=made)
        start = made.methods.vars.get("__init__") if made.methods is not None else None
        if isinstance(start, values.Func):
            self.run.calls.method(found, "__init__", call)
            return found
        names = cls.get("names", ())
        for name, value in (*zip(names, call.args, strict=False), *call.kwargs.items()):
            self.set_attribute(made, name, value)
        return found
