"""The ends of objects of C++: destructors run where a scope, a statement, a container or a holder ends.

An object of the program is one of ours, and dies when ours does; what is in a variable ends with the scope of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.cpp.members import Class
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.objects import LibObject

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_NAME = "ending"


class Ending:
    """What is done at the end of an object: `owned` says that it ends when nothing holds it, as one that `new` made
    does not."""

    __slots__ = ("left", "owned", "run", "twin")

    def __init__(self, run: Cpp, twin: LibObject, left: list[Func]) -> None:
        self.run, self.twin, self.left, self.owned = run, twin, left, True

    def __call__(self) -> None:
        """Ends the object, once."""
        left, self.left = self.left, []
        for func in left:
            self.run.call(func, [], func.node.loc, this=self.twin)

    def dropped(self) -> None:
        """Nothing holds the object any more."""
        if self.owned:
            self()


def begin(run: Cpp, made: CStruct) -> None:
    """Registers the destructors of a new object, those of its class and of its bases."""
    whole = made.kwargs.get("class")
    left = [func for one in whole.lineage for func in _destructors(one)] if isinstance(whole, Class) else []
    made.kwargs.pop(_NAME, None)
    if not left:
        return
    twin = LibObject.by_path(made.path, made.attrs, made.args, made.kwargs)
    ending = made.kwargs[_NAME] = Ending(run, twin, left)
    run.interp.watch(made, ending.dropped)


def _destructors(kind: Class) -> list[Func]:
    member = kind.members.get(f"~{kind.node.name}")
    return [func for func in member.funcs if func.node.body] if member is not None else []


def of(value: Value) -> Ending | None:
    """Returns what is done at the end of an object; None where nothing is."""
    found = value.kwargs.get(_NAME) if isinstance(value, CStruct) else None
    return found if isinstance(found, Ending) else None


def own(value: Value, owned: bool) -> Value:
    """Says of an object, or of each in a list, whether it ends when nothing holds it; returns the value."""
    for one in value if isinstance(value, list) else [value]:
        if (ending := of(one)) is not None:
            ending.owned = owned
    return value


def delete(run: Cpp, node: ir.Call, env: Env) -> Value:
    """Evaluates `delete pointer` and `delete[] pointer`."""
    value = run.eval(node.args[0], env) if node.args else None
    value = value.get() if isinstance(value, Slot) else value
    for one in value if isinstance(value, list) else [value]:
        if (ending := of(one)) is not None:
            ending()
    return None
