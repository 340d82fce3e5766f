"""One analysis of one kernel: what its parts share, and the parts, one an idea.

A language makes a run of its own parts: it adds to what the shared ones do, never to what another language does.
"""

from __future__ import annotations

from kbh_lint.base import values
from kbh_lint.kernels.core.branches import Sides
from kbh_lint.kernels.core.calls import Calls
from kbh_lint.kernels.core.expressions import Expressions
from kbh_lint.kernels.core.flags import Flags
from kbh_lint.kernels.core.frames import Frame
from kbh_lint.kernels.core.memory import Memory
from kbh_lint.kernels.core.names import Names
from kbh_lint.kernels.core.numbers import Numbers
from kbh_lint.kernels.core.products import Products
from kbh_lint.kernels.core.ranges import Ranges
from kbh_lint.kernels.core.recorder import Recorder
from kbh_lint.kernels.core.statements import Statements
from kbh_lint.kernels.core.walker import OutOfFuel


class Run:
    """The walk through a kernel, in any language: `statements`, `expressions`, `names` and `calls` follow the program,
    `memory`, `flags`, `numbers` and `products` say what it does to values, and `facts` is what was found."""

    names: Names
    memory: Memory
    numbers: Numbers
    expressions: Expressions
    statements: Statements
    calls: Calls

    def __init__(self, name: str, fuel: int) -> None:
        self.name = name
        self.fuel = fuel
        self.until: frozenset[int] = frozenset()  # the storages that are asked about, where nothing else is
        self.heights = True  # whether it is asked how many rows the tiles of products have
        self.frame = Frame({}, values.Env(), None, ())
        self.sides = Sides()
        self.facts = Recorder(self)
        self.flags = Flags(self)
        self.ranges = Ranges({})
        self.products = Products(self)

    def step(self, amount: int = 1) -> None:
        """Spends `amount` steps; raises OutOfFuel when none are left."""
        self.fuel -= amount
        if self.fuel < 0:
            raise OutOfFuel

    def close(self) -> None:
        """Breaks the references between the run and its parts, so that they are freed without the garbage collector."""
        vars(self).clear()
