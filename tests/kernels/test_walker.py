"""The walk through statements, with a domain whose values are numbers and texts: what runs, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from kbh_lint.base import ir
from kbh_lint.kernels.core.walker import Control, Exit, OutOfFuel, Walker, together

LOC: ir.Loc = ()


class Scripted(Control[Any]):
    """Both sides of a branch on a name, the one that a number says; loops twice."""

    def __init__(self, walk: Noting) -> None:
        self.walk = walk

    def test(self, node: ir.If) -> tuple[Any, bool | None]:
        value = self.walk.evaluate(node.test)
        return value, None if isinstance(value, str) else bool(value)

    def either(self, node: ir.If, test: Any) -> Exit:
        return together([self.walk.side(node.body), self.walk.side(node.orelse)])

    def iterations(self, node: ir.While | ir.CFor) -> Exit:
        for _ in range(2):
            why = self.walk.round(node)
            if why is not None:
                return None if why == "break" else why
        return None

    def each(self, node: ir.For) -> Exit:
        return self.walk.round(node)

    def cases(self, node: ir.Switch) -> Exit:
        for body in self.walk.falling(node, 1):
            why = self.walk.side(body)
            if why is not None:
                return None if why == "break" else why
        return None

    def unread(self, what: str, node: ir.Stmt) -> None:
        self.walk.seen.append(what)


class Holder:
    frame = "outside"


class Noting(Walker[Any, str]):
    """Notes what is evaluated."""

    def __init__(self, fuel: int = 100) -> None:
        self.holder = Holder()
        super().__init__(self.holder)
        self.control = Scripted(self)
        self.seen: list[Any] = []
        self.fuel = fuel

    def step(self) -> None:
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel

    def evaluate(self, node: object) -> Any:
        assert isinstance(node, ir.Const)
        self.seen.append(node.value)
        return node.value

    def assign(self, target: object, value: Any) -> None:
        assert isinstance(target, ir.Name)
        self.seen.append((target.id, value))

    def enter_scope(self) -> None:
        self.seen.append("{")

    def leave_scope(self) -> None:
        self.seen.append("}")

    def s_augassign(self, node: ir.AugAssign) -> None:
        self.evaluate(node.value)

    def result(self, node: ir.Return) -> None:
        self.seen.append(f"return in {self.holder.frame}")

    def s_func(self, node: ir.FuncDef) -> None:
        self.seen.append(node.name)

    def s_opaque(self, node: ir.Opaque) -> Exit:
        return None


def say(value: object) -> ir.ExprS:
    return ir.ExprS(ir.Const(value, LOC), LOC)


def jump(kind: str) -> ir.Jump:
    return ir.Jump(kind, LOC)


def branch(test: object, body: tuple[Any, ...], orelse: tuple[Any, ...] = ()) -> ir.If:
    return ir.If(ir.Const(test, LOC), body, orelse, LOC)


def loop(*body: Any, step: object = "step") -> ir.CFor:
    return ir.CFor((say("init"),), None, ir.Const(step, LOC), body, LOC)


def walked(*body: Any) -> tuple[Exit, list[Any]]:
    walk = Noting()
    return walk.block(body), walk.seen


def test_what_stands_behind_a_return_is_not_executed() -> None:
    assert walked(say(1), ir.Return(None, LOC), say(2)) == ("return", [1, "return in outside"])


def test_a_known_test_takes_one_side_and_an_unknown_one_is_the_domain_s() -> None:
    assert walked(branch(True, (say("yes"),), (say("no"),)))[1] == [True, "yes"]
    assert walked(branch(False, (say("yes"),), (say("no"),)))[1] == [False, "no"]
    assert walked(branch("?", (say("yes"),), (say("no"),)))[1] == ["?", "yes", "no"]


def test_a_side_that_leaves_ends_nothing_while_the_other_goes_on() -> None:
    assert walked(branch("?", (ir.Return(None, LOC),)), say("on"))[1][-1] == "on"
    assert walked(branch("?", (ir.Return(None, LOC),), (jump("break"),)), say("on")) == (
        "break",
        ["?", "return in outside"],
    )


def test_a_loop_of_c_steps_behind_a_continue_and_not_behind_a_break() -> None:
    assert walked(loop(jump("continue"), say("never")))[1] == ["{", "init", "step", "step", "}"]
    assert walked(loop(say(1), jump("break")), say("on")) == (None, ["{", "init", 1, "}", "on"])


def test_a_return_leaves_loops_and_their_scopes() -> None:
    assert walked(loop(ir.Return(None, LOC)), say("never")) == ("return", ["{", "init", "return in outside", "}"])


def test_a_switch_falls_through_to_the_case_that_ends_it() -> None:
    cases = tuple(((), body) for body in ((say(0),), (say(1),), (say(2), jump("break")), (say(3),)))
    assert walked(ir.Switch(ir.Const(0, LOC), cases, LOC), say("on")) == (None, [1, 2, "on"])


def test_a_goto_is_told_and_what_follows_a_label_runs() -> None:
    assert walked(jump("goto"), say(1), jump("label"), say(2)) == (None, ["a goto", 1, 2])


def test_a_function_runs_in_its_frame_and_leaves_it_when_it_fails() -> None:
    walk = Noting(fuel=2)
    walk.activate("inside", (ir.Return(None, LOC), say("never")))
    assert (walk.seen, walk.holder.frame, walk.depth) == (["return in inside"], "outside", 0)
    with pytest.raises(OutOfFuel):
        walk.activate("inside", (say(1), say(2), say(3)))
    assert (walk.holder.frame, walk.depth) == ("outside", 0)


def test_a_value_is_evaluated_once_for_all_targets() -> None:
    names = (ir.Name("a", LOC), ir.Name("b", LOC))
    assert walked(ir.Assign(names, ir.Const(1, LOC), LOC))[1] == [1, ("a", 1), ("b", 1)]
