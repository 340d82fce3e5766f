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
    """Derived from once a language: its `functions`, its `methods`, and nobody else's, beside those of Python."""

    packages: ClassVar[tuple[str, ...]] = ()  # what its paths begin with
    modules: ClassVar[tuple[str, ...]] = ("math", "operator")  # of Python, that its kernels call
    functions: ClassVar[Mapping[str, Builtin]] = {}  # by the last part of the path
    methods: ClassVar[Mapping[str, Builtin]] = {}
    constants: ClassVar[str] = LITERAL  # the element type of constants, where they do not take that of what they meet
    elements: ClassVar[bool] = False  # whether an index into memory is an element, read and written like a variable

    def element_type(self, path: str, name: str) -> str | None:
        """The element type that is called `name` in the module `path`."""
        return None

    def attribute(self, m: Machine, value: object, name: str, frame: Frame) -> Any:
        """`value.name`; None where nothing is special about it."""
        found = self.element_type(value.path, name) if isinstance(value, Sym) else None
        return DType(found) if found is not None else None

    def argument(self, m: Machine, node: ir.Expr, callee: object, frame: Frame) -> Any:
        """An argument that stands for a place in memory; None for any other."""
        return None

    def method(self, m: Machine, callee: Method, packed: Args) -> Any:
        """A call of a method; NotImplemented for one that is not the language's own."""
        handler = self.methods.get(callee.name)
        if handler is None:
            return NotImplemented
        packed.items.insert(0, callee.value)
        return handler(m, packed)

    def indexed(self, value: object) -> object:
        """What an index is applied to, where the value before it is an element of memory and, maybe, a part of it."""
        return value

    def place(self, value: Ptr, index: object, site: int) -> Ptr:
        """Where `value[index]` is; asked only where indices are elements."""
        return value

    def read(self, m: Machine, value: Ptr | Made, index: object, site: int) -> Any:
        """What `value[index]` holds; asked only where indices are elements."""
        return UNKNOWN

    def builtin(self, path: str) -> Builtin | None:
        """The function behind a symbol, or a Python built-in by its bare name."""
        if "." not in path:
            return python.PYTHON.get(path)
        root, _, rest = path.partition(".")
        name = rest.rpartition(".")[2]
        if root in self.packages:
            return self.functions.get(name) or python.function(name)
        return python.function(name) if root in self.modules else None
