"""One call of a function of a kernel: its variables and scope; and the end of the fuel that calls share."""

from __future__ import annotations

from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.kernels.core.facts import Made
from kbh_lint.kernels.core.value import V

Env = dict[str, V]
THIS = "this"


class Frame:
    """One call: its variables, the scope its function closes over, and what it returned so far."""

    __slots__ = ("env", "outer", "func", "returned", "place", "looked", "jumps", "key", "this", "shadowed",
                 "loops", "given", "around", "inside", "sources")  # fmt: skip

    def __init__(self, env: Env, outer: values.Env, func: values.Func | None, key: tuple[Any, ...]) -> None:
        self.env = env
        self.outer = outer
        self.func = func
        self.returned: V | None = None
        self.place: V | None = None  # what a reference that it returns refers to
        self.looked: Made = []  # the loads that are none where nobody asks what lies there
        self.jumps: list[list[tuple[str, Env]]] = []  # of each loop and switch: how it is left, with what
        self.key = key
        self.this: Any = None
        self.shadowed: list[dict[str, V | None]] = []
        self.loops = 0
        self.given: Env = {}  # the arguments, before anything was assigned to them
        self.sources: dict[str, ir.Expr] = {}  # how the caller names the arguments, by parameter, and the object
        self.around: Frame | None = None  # the call in which this one is made
        self.inside: list[Any] = []  # the loops that run
