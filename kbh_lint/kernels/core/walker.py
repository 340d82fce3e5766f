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
    """Raised when a walk has used up its steps."""


class Enough(Exception):
    """Raised when everything that a walk was asked is known."""


class Framed(Protocol[F]):
    """The owner of a walk, which holds the frame of the running function."""

    frame: F


class Control(ABC, Generic[T]):
    """How one analysis executes control flow: branches, loops and switches."""

    @abstractmethod
    def test(self, node: ir.If) -> tuple[T, bool | None]:
        """Evaluates the condition of a branch: its value, and whether it is true (or false) for everything that runs,
        None where that is unknown or differs."""

    @abstractmethod
    def either(self, node: ir.If, test: T) -> Exit:
        """Executes a branch whose condition is not known to be true or false."""

    @abstractmethod
    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        """Executes a loop with a test: a `while`, or a C++ `for` whose initialisation has been executed and whose scope
        is open."""

    @abstractmethod
    def each(self, node: ir.For) -> Exit:
        """Executes a loop over an iterable."""

    @abstractmethod
    def cases(self, node: ir.Switch) -> Exit:
        """Executes a switch."""

    def left(self, kind: str) -> None:
        """Called where control leaves a loop or a switch (`kind` is "break") or an iteration ("continue")."""

    def next(self, node: ir.For | ir.While | ir.CFor, why: Exit) -> Exit:
        """Where control goes after an iteration that ended with `why`: None for the loop's step and the next iteration,
        else out of the loop."""
        return None if why == "continue" else why

    @abstractmethod
    def unread(self, what: str, node: ir.Stmt) -> None:
        """Called for a statement that the walk does not follow; `what` describes it."""


class Walker(ABC, Generic[T, F]):
    """Executes statements; each analysis, and each language in it, derives from it and says what values are."""

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
        """Executes `target = value`."""

    @abstractmethod
    def s_augassign(self, node: ir.AugAssign) -> None:
        """Executes `target op= value`."""

    @abstractmethod
    def result(self, node: ir.Return) -> None:
        """Handles a return: its value becomes the result of the running function."""

    @abstractmethod
    def s_func(self, node: ir.FuncDef) -> None:
        """Executes the definition of a function inside another."""

    @abstractmethod
    def s_opaque(self, node: ir.Opaque) -> Exit:
        """Executes a statement that a front end could not read."""

    def enter_scope(self) -> None:
        """Begins a block of C++."""

    def leave_scope(self) -> None:
        """Ends a block of C++."""

    def s_decl(self, node: ir.Decl) -> None:
        """Executes a declaration."""

    def s_asm(self, node: ir.Asm) -> None:
        """Executes inline assembly."""

    def s_using(self, node: ir.Using) -> None:
        """Executes a local type alias."""

    def s_class(self, node: ir.ClassDef) -> None:
        """Executes the definition of a local class."""

    # --- the walk ---

    def block(self, body: Iterable[Any] | None) -> Exit:
        """Executes statements in order, up to the first that control leaves; returns how it leaves (`break`,
        `continue`, `return`), or None."""
        for node in body or ():
            why = self.execute(node)
            if why is not None:
                return why
        return None

    def execute(self, node: ir.Stmt) -> Exit:
        """Executes one statement; returns how control leaves what is around it (`break`, `continue`, `return`), or
        None."""
        self.step()
        handler = self.statements.get(type(node))
        return None if handler is None else handler(self, node)

    def scoped(self, body: Iterable[object] | None) -> Exit:
        """Executes statements in a scope of their own; returns how control leaves, or None."""
        self.enter_scope()
        try:
            return self.block(body)
        finally:
            self.leave_scope()

    def side(self, body: Iterable[object] | None) -> Exit:
        """Executes one side of a branch, a case of a switch or an iteration of a loop; returns how control leaves, or
        None."""
        return self.block(body)

    def activate(self, frame: F, body: Iterable[object] | None, *, scoped: bool = False) -> None:
        """Executes a function's body with `frame` as the running frame; `scoped` where the frame has the variables
        around the function too, which those that the body declares only hide."""
        saved, self.owner.frame = self.owner.frame, frame
        self.depth += 1
        try:
            self.scoped(body) if scoped else self.block(body)
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
        """Executes one iteration of a loop whose test holds: the body, and the step unless control leaves the loop."""
        why = self.control.next(node, self.side(node.body))
        if why is None and isinstance(node, ir.CFor) and node.step is not None:
            self.evaluate(node.step)
        return why

    def s_switch(self, node: ir.Switch) -> Exit:
        return self.control.cases(node)

    def falling(self, node: ir.Switch, position: int) -> Iterator[tuple[Any, ...]]:
        """Yields the bodies of a switch from case `position` on: control falls through them until one ends the
        switch."""
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
    """Where control goes behind alternative ways through the same statements: on, if any of them goes on."""
    return max(exits, key=_LAST.index, default=None)
