"""The walk through a kernel's statements that all domains share: where values come from, what numbers come to, where
stores reach.

A domain says what its values are by the methods that a walker leaves open (`evaluate`, `assign`, declarations), and
what it makes of control flow by a `Control`: run both sides and join them, run one, run a loop until nothing changes,
or so many times. The walk itself is here once: what a statement computes first, which branch a known test takes, how
a `break` or a `return` leaves the statements around it, scopes, and functions run in frames of their own.

Expressions are each domain's own (`core.expressions`, `numeric.expr`, `extents.expressions`): what a node comes to is
what tells domains apart, and of the order of evaluation little is left to share where one joins both sides of `and`,
another stops at the first that is false, and a third makes a condition of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, Protocol, TypeVar

from kbh_lint.base import ir

T = TypeVar("T")  # the values of a domain
F = TypeVar("F")  # its frames

# Why control does not go on behind a statement; None where it does.
Exit = Literal["break", "continue", "return"] | None
_LAST: tuple[Exit, ...] = ("return", "break", "continue", None)
_JUMPS: dict[str, Exit] = {"break": "break", "continue": "continue"}


_STATEMENTS: dict[type, str] = {
    ir.Assign: "s_assign", ir.AugAssign: "s_augassign", ir.ExprS: "s_expr", ir.If: "s_if", ir.For: "s_for",
    ir.While: "s_while", ir.CFor: "s_cfor", ir.Return: "s_return", ir.Jump: "s_jump", ir.Decl: "s_decl",
    ir.Block: "s_block", ir.Switch: "s_switch", ir.With: "s_with", ir.FuncDef: "s_func", ir.Asm: "s_asm",
    ir.Using: "s_using", ir.ClassDef: "s_class", ir.Opaque: "s_opaque", ir.Try: "s_try",
}  # fmt: skip


class OutOfFuel(Exception):
    """A walk reached its bound on steps."""


class Enough(Exception):
    """All that a walk was asked about is known."""


class Framed(Protocol[F]):
    """What a walk belongs to, and what holds the frame of the function that runs."""

    frame: F


class Control(ABC, Generic[T]):
    """What a domain makes of control flow."""

    @abstractmethod
    def test(self, node: ir.If) -> tuple[T, bool | None]:
        """Evaluates the condition of a branch: its value, and what it is where that is known of all that runs."""

    @abstractmethod
    def either(self, node: ir.If, test: T) -> Exit:
        """A branch of which no side is known to be the one."""

    @abstractmethod
    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        """A loop as long as its test holds, behind what a `for` of C++ begins with and inside its scope."""

    @abstractmethod
    def each(self, node: ir.For) -> Exit:
        """A loop over an iterable."""

    @abstractmethod
    def cases(self, node: ir.Switch) -> Exit:
        """A switch."""

    def left(self, kind: str) -> None:
        """Control leaves a loop, an iteration of one or a switch here."""

    def next(self, node: ir.For | ir.While | ir.CFor, why: Exit) -> Exit:
        """Whether an iteration that ended so goes on to its step and to the next iteration, as after `continue`."""
        return None if why == "continue" else why

    @abstractmethod
    def unread(self, what: str, node: ir.Stmt) -> None:
        """Something that the walk does not follow."""


class Walker(ABC, Generic[T, F]):
    """Executes statements; a domain, and a language in it, say what the values in them are."""

    control: Control[T]
    statements: dict[type, Callable[[Any, Any], Exit]]  # of the class: a walker that held its own would hold itself

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.statements = {kind: getattr(cls, name) for kind, name in _STATEMENTS.items()}

    def __init__(self, owner: Framed[F]) -> None:
        self.owner = owner
        self.depth = 0  # functions that are running, one called by another

    # --- what a domain says ---

    @abstractmethod
    def step(self) -> None:
        """Spends fuel for a statement; raises OutOfFuel."""

    @abstractmethod
    def evaluate(self, node: ir.Expr) -> T:
        """The value of an expression."""

    @abstractmethod
    def assign(self, target: ir.Expr, value: T) -> None:
        """`target = value`."""

    @abstractmethod
    def s_augassign(self, node: ir.AugAssign) -> None:
        """`target op= value`."""

    @abstractmethod
    def result(self, node: ir.Return) -> None:
        """What the function that runs gives back here."""

    @abstractmethod
    def s_func(self, node: ir.FuncDef) -> None:
        """A function that is defined inside another."""

    @abstractmethod
    def s_opaque(self, node: ir.Opaque) -> Exit:
        """Something that a front end could not read."""

    def enter_scope(self) -> None:
        """Begins a block of C++."""

    def leave_scope(self) -> None:
        """Ends a block of C++."""

    def s_decl(self, node: ir.Decl) -> None:
        """A declaration."""

    def s_asm(self, node: ir.Asm) -> None:
        """Inline assembly."""

    def s_using(self, node: ir.Using) -> None:
        """A local type alias."""

    def s_class(self, node: ir.ClassDef) -> None:
        """A local class."""

    # --- the walk ---

    def block(self, body: Iterable[Any] | None) -> Exit:
        """Executes statements up to the first that control does not go on behind; says why it does not."""
        for node in body or ():
            why = self.execute(node)
            if why is not None:
                return why
        return None

    def execute(self, node: ir.Stmt) -> Exit:
        """Executes one statement; says why control does not go on behind it."""
        self.step()
        handler = self.statements.get(type(node))
        return None if handler is None else handler(self, node)

    def scoped(self, body: Iterable[object] | None) -> Exit:
        """Executes statements in a scope of their own."""
        self.enter_scope()
        try:
            return self.block(body)
        finally:
            self.leave_scope()

    def side(self, body: Iterable[object] | None) -> Exit:
        """Executes a side of a branch, a case of a switch or an iteration of a loop."""
        return self.block(body)

    def activate(self, frame: F, body: Iterable[object] | None) -> None:
        """Runs a function's body in a frame of its own."""
        saved, self.owner.frame = self.owner.frame, frame
        self.depth += 1
        try:
            self.block(body)
        finally:
            self.depth -= 1
            self.owner.frame = saved

    def s_assign(self, node: ir.Assign) -> None:
        value = self.evaluate(node.value)
        for target in node.targets:
            self.assign(target, value)

    def s_expr(self, node: ir.ExprS) -> None:
        self.evaluate(node.value)

    def s_if(self, node: ir.If) -> Exit:
        test, known = self.control.test(node)
        if known is None:
            return self.control.either(node, test)
        return self.side(node.body if known else node.orelse)

    def s_for(self, node: ir.For) -> Exit:
        return self.control.each(node)

    def s_while(self, node: ir.While) -> Exit:
        return self.control.iterations(node)

    def s_cfor(self, node: ir.CFor) -> Exit:
        self.enter_scope()
        try:
            return self.block(node.init) or self.control.iterations(node)
        finally:
            self.leave_scope()

    def round(self, node: ir.For | ir.While | ir.CFor) -> Exit:
        """One iteration of a loop behind its test: the body, and the step unless the body leaves the loop."""
        why = self.control.next(node, self.side(node.body))
        if why is None and isinstance(node, ir.CFor) and node.step is not None:
            self.evaluate(node.step)
        return why

    def s_switch(self, node: ir.Switch) -> Exit:
        return self.control.cases(node)

    def falling(self, node: ir.Switch, position: int) -> Iterator[tuple[Any, ...]]:
        """The bodies of a switch from one case on, through which control falls up to one that ends it."""
        for _, body in node.cases[position:]:
            yield body

    def s_return(self, node: ir.Return) -> Exit:
        self.result(node)
        return "return"

    def s_jump(self, node: ir.Jump) -> Exit:
        why = _JUMPS.get(node.kind)
        if why is not None:
            self.control.left(why)
        elif node.kind == "goto":  # what stands between it and its label may run too, and what follows the label does
            self.control.unread("a goto", node)
        return why

    def s_block(self, node: ir.Block) -> Exit:
        return self.scoped(node.body)

    def s_with(self, node: ir.With) -> Exit:
        for item, target in node.items:
            value = self.evaluate(item)
            if target is not None:
                self.assign(target, value)
        return self.block(node.body)

    def s_try(self, node: ir.Try) -> Exit:
        return self.block(node.body) or self.block(node.orelse) or self.block(node.final)


def together(exits: Iterable[Exit]) -> Exit:
    """Where control goes behind several ways through the same statements: on, where one of them goes on."""
    return max(exits, key=_LAST.index, default=None)
