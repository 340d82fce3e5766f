"""The dicts in which torch.nn.Module keeps what it registered: `_buffers`, `_parameters` and `_modules`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.host.datamodel.exceptions import DATA
from kbh_lint.host.python import classes, module_calls
from kbh_lint.host.values.library_objects import Property
from kbh_lint.host.values.named_objects import TorchLayer
from kbh_lint.host.values.objects import Instance, is_module
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

NAMES = ("_buffers", "_parameters", "_modules")


class Table(dict[Any, Any]):
    """One of the dicts in which a module keeps what it registered: storing or removing an item sets or deletes an
    attribute of the module."""

    def __init__(self, owner: Instance, name: str) -> None:
        super().__init__({key: value for key, value in owner.attrs.items() if _belongs(owner, key, value, name)})
        self.owner = owner
        self.parameters = name == "_parameters"

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key, value)
        if isinstance(value, Tensor):
            value.parameter = value.parameter or self.parameters
            self.owner.buffers.setdefault(str(key), True)
        self.owner.attrs[str(key)] = value

    def __delitem__(self, key: object) -> None:
        super().__delitem__(key)
        self.owner.attrs.pop(str(key), None)

    def pop(self, key: object, *default: object) -> Any:
        """Removes and returns what was kept under `key`; without it, `default` or KeyError."""
        if key in self:
            self.owner.attrs.pop(str(key), None)
        return super().pop(key, *default)

    def update(self, *others: Mapping[Any, object], **named: object) -> None:  # type: ignore[override]
        """Stores each item of the other mappings."""
        for other in (*others, named):
            for key, value in other.items():
                self[key] = value

    def clear(self) -> None:
        """Removes all items."""
        for key in list(self):
            del self[key]


DATA[Table] = DATA[dict]


def check_free(interp: Run, owner: Instance, name: str, loc: ir.Loc | None) -> None:
    """Records that a module cannot register something under a name that its class, or torch's, has already."""
    taken = name in module_calls.NAMES or name in module_calls.SET or owner.cls.has(name)
    if taken and is_module(owner.cls) and classes.data_descriptor(owner.cls, name) is None:
        interp.fails("builtins.KeyError", loc, f"attribute '{name}' already exists")


def begin(interp: Run, owner: Instance, loc: ir.Loc | None) -> None:
    """Models what torch.nn.Module's constructor sets in an object: properties of these names are set in its place."""
    for name, what in module_calls.SET.items():
        found = classes.data_descriptor(owner.cls, name)
        if isinstance(found, Property) and found.setter is None:
            interp.fails("builtins.AttributeError", loc, f"property '{name}' has no setter")
        elif found is not None:
            interp.set_plain(owner, name, what(), loc)


def _belongs(owner: Instance, key: str, value: object, name: str) -> bool:
    """Whether a module keeps an attribute of its in the dict `name`."""
    if name == "_modules":
        return isinstance(value, TorchLayer) or isinstance(value, Instance) and is_module(value.cls)
    parameter = isinstance(value, Tensor) and value.parameter
    return parameter if name == "_parameters" else key in owner.buffers and not parameter
