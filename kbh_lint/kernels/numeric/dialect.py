"""What a kernel language adds to the evaluation on numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kbh_lint.base.values import UNKNOWN, DType, Sym
from kbh_lint.kernels.numeric import python
from kbh_lint.kernels.numeric.builtins import Builtin
from kbh_lint.kernels.numeric.numbers import LITERAL

if TYPE_CHECKING:
    from kbh_lint.base import ir
    from kbh_lint.base.values import Made
    from kbh_lint.kernels.numeric.builtins import Args
    from kbh_lint.kernels.numeric.machine import Machine
    from kbh_lint.kernels.numeric.state import Frame, Method, Ptr


class Dialect:
    """What one kernel language adds to Python in the evaluation on numbers; each language derives a class with its own
    `functions` and `methods`."""

    packages: ClassVar[tuple[str, ...]] = ()  # what its paths begin with
    modules: ClassVar[tuple[str, ...]] = ("math", "operator")  # of Python, that its kernels call
    functions: ClassVar[Mapping[str, Builtin]] = {}  # by the last part of the path
    methods: ClassVar[Mapping[str, Builtin]] = {}
    constants: ClassVar[str] = LITERAL  # the element type of constants, where they do not take that of what they meet
    elements: ClassVar[bool] = False  # whether an index into memory is an element, read and written like a variable

    def element_type(self, path: str, name: str) -> str | None:
        """The element type called `name` in the module `path`; None for other names."""
        return None

    def attribute(self, m: Machine, value: object, name: str, frame: Frame) -> Any:
        """The value of `value.name`; None where the language adds nothing to it."""
        found = self.element_type(value.path, name) if isinstance(value, Sym) else None
        return DType(found) if found is not None else None

    def argument(self, m: Machine, node: ir.Expr, callee: object, frame: Frame) -> Any:
        """The place in memory that an argument stands for; None for arguments that are plain values."""
        return None

    def method(self, m: Machine, callee: Method, packed: Args) -> Any:
        """The result of calling a method of the language; NotImplemented for other methods."""
        handler = self.methods.get(callee.name)
        if handler is None:
            return NotImplemented
        packed.items.insert(0, callee.value)
        return handler(m, packed)

    def indexed(self, value: object) -> object:
        """The array that an index applies to, given the value in front of the index, which may be an element or a row
        of it."""
        return value

    def place(self, value: Ptr, index: object, site: int) -> Ptr:
        """The place of `value[index]`; called only for languages in which an index gives an element."""
        return value

    def read(self, m: Machine, value: Ptr | Made, index: object, site: int) -> Any:
        """The value of `value[index]`; called only for languages in which an index gives an element."""
        return UNKNOWN

    def builtin(self, path: str) -> Builtin | None:
        """The function for the symbol `path`, or for a Python built-in by its bare name; None for unknown ones."""
        if "." not in path:
            return python.PYTHON.get(path)
        root, _, rest = path.partition(".")
        name = rest.rpartition(".")[2]
        if root in self.packages:
            return self.functions.get(name) or python.function(name)
        return python.function(name) if root in self.modules else None
