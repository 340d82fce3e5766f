"""Once functions: a body that goes on from one `yield` to the next only when it is asked for a value."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.frontends.walk import walk
from kbh_lint.host.datamodel import exceptions, iteration, names
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import BREAK, Frame, Raised, Returned
from kbh_lint.host.values.named_objects import BuiltinObject

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_YIELDS = ("yield", "yield from")
_SCOPES = (ir.FuncDef, ir.ClassDef, ir.Lambda)


def make(interp: Run, node: ir.FuncDef, frame: Frame) -> Once | None:
    """Returns the generator of a call, with nothing of its body run; None where a `yield` stands deeper than this walk
    follows."""
    plans = interp.plans
    if id(node) not in plans:
        plan: dict[int, bool] = {}
        plans[id(node)] = node, plan if all(_planned(part, plan) for part in node.body or ()) else None
    followed = plans[id(node)][1]
    if followed is None:
        return None
    made = Once()
    held: Any = weakref.proxy(made)  # what runs the body may not hold the generator alive
    source = _resumed(interp, _block(interp, node.body or (), frame, followed, held), frame, held)
    made.source = source
    if any(isinstance(part, (ir.Try, ir.With)) for part in walk(node.body or ())):
        interp.watch(made, lambda: _dropped(source))
    return made


def _dropped(source: Generator[Any, None, Any]) -> None:
    """Ends a generator that nobody holds any more."""
    left = Once()
    left.source = source
    with suppress(ReferenceError):  # of what it would have returned
        close(left)


def _resumed(interp: Run, body: Generator[Any, None, Any], frame: Frame, made: Once) -> Generator[Any, None, Any]:
    """`body`, which has its own frame while it runs and that of its caller while it waits."""
    thrown: Raised | None = None
    while True:
        trying = interp.trying
        interp.frames.append(frame)
        try:
            value = next(body) if thrown is None else body.throw(thrown)
        except StopIteration as stop:
            made.gave = stop.value.value if isinstance(stop.value, Returned) else None
            return
        finally:
            interp.frames.pop()
            interp.trying = trying
        thrown = None
        try:
            yield value
        except Raised as error:  # of `throw`, or of the body of a with statement
            thrown = error


def throw(once: Once, error: Raised) -> bool:
    """Raises `error` inside a generator, at the `yield` where it waits. Returns whether the generator yielded another
    value, which is added to `once`. An exception that the generator does not catch is raised here."""
    source, once.source = once.source, None
    if not isinstance(source, Generator):
        raise error
    try:
        once.append(source.throw(error))
    except StopIteration:
        return False
    once.source = source
    return True


def close(once: Once) -> None:
    """Ends a generator at the `yield` where it waits: its `finally` clauses run."""
    try:
        throw(once, Raised(BuiltinObject("builtins.GeneratorExit", {"args": ()}), None))
    except Raised as error:
        if getattr(error.value, "path", "") != "builtins.GeneratorExit":
            raise
    once.source = None
    once.clear()


def _planned(node: ir.Stmt, plan: dict[int, bool]) -> bool:
    """Notes of a statement and those in it whether they yield; False where one yields inside of an expression."""
    if isinstance(node, (ir.If, ir.While, ir.For, ir.Try, ir.Block)):
        parts = [*node.body, *getattr(node, "orelse", ()), *getattr(node, "final", ())]
        parts += [part for handler in getattr(node, "handlers", ()) for part in handler[2]]
        plan[id(node)] = False
        if not all(_planned(part, plan) for part in parts):
            return False
        plan[id(node)] = any(plan[id(part)] for part in parts)
        heads = [getattr(node, name, None) for name in ("test", "iterable")]
        return not any(_yields(head) for head in heads)
    value = getattr(node, "value", None)
    plan[id(node)] = False
    if isinstance(value, ir.Opaque) and value.reason in _YIELDS and isinstance(node, (ir.ExprS, ir.Assign, ir.Return)):
        plan[id(node)] = True
        return not any(map(_yields, value.children))
    return not _yields(node)


def _yields(node: object) -> bool:
    """Whether a `yield` stands anywhere in a piece of syntax, but for functions that are defined in it."""
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, ir.Opaque) and at.reason in _YIELDS:
            return True
        if isinstance(at, tuple):
            stack.extend(part for part in at if isinstance(part, tuple) or is_dataclass(part))
        elif is_dataclass(at) and not isinstance(at, _SCOPES):
            stack.extend(getattr(at, part.name) for part in fields(at) if part.name != "loc")
    return False


def _block(
    interp: Run, body: tuple[ir.Stmt, ...], frame: Frame, plan: dict[int, bool], made: Once
) -> Generator[Any, None, Any]:
    """Statements in their order; gives back, when it ends, what ended them early."""
    for node in body:
        if plan[id(node)]:
            interp.burn()
            signal = yield from _STATEMENTS[type(node)](interp, node, frame, plan, made)
        else:
            signal = interp.statement(node, frame)
        if signal is not None:
            return signal
    return None


def _values(
    interp: Run, node: ir.ExprS | ir.Assign | ir.Return, frame: Frame, plan: dict[int, bool], made: Once
) -> Generator[Any, None, Any]:
    """`yield x`, `v = yield x`, `return (yield x)` and the same of `yield from`."""
    value = node.value
    assert isinstance(value, ir.Opaque)
    given = interp.eval(value.children[0], frame) if value.children else None
    if value.reason == "yield":
        made.sent = None
        yield given
        got, made.sent = made.sent, None
    else:
        yield from iteration.in_turn(given) if isinstance(given, Once) else iteration.iterate(interp, given, node.loc)
        got = given.gave if isinstance(given, Once) else None
    for target in getattr(node, "targets", ()):
        names.assign(interp, target, got, frame)
    return Returned(got) if isinstance(node, ir.Return) else None


def _if(interp: Run, node: ir.If, frame: Frame, plan: dict[int, bool], made: Once) -> Generator[Any, None, Any]:
    test = interp.truth(interp.eval(node.test, frame), node.test.loc)
    return (yield from _block(interp, node.body if test else node.orelse, frame, plan, made))


def _inner(interp: Run, node: ir.Block, frame: Frame, plan: dict[int, bool], made: Once) -> Generator[Any, None, Any]:
    return (yield from _block(interp, node.body, frame, plan, made))


def _while(interp: Run, node: ir.While, frame: Frame, plan: dict[int, bool], made: Once) -> Generator[Any, None, Any]:
    while interp.truth(interp.eval(node.test, frame), node.test.loc):
        interp.burn(2)
        signal = yield from _block(interp, node.body, frame, plan, made)
        if signal is BREAK or isinstance(signal, Returned):
            return None if signal is BREAK else signal
    return (yield from _block(interp, node.orelse, frame, plan, made))


def _for(interp: Run, node: ir.For, frame: Frame, plan: dict[int, bool], made: Once) -> Generator[Any, None, Any]:
    iterable = interp.eval(node.iterable, frame)
    items = iteration.in_turn(iterable) if isinstance(iterable, Once) else iteration.iterate(interp, iterable, node.loc)
    for item in items:
        interp.burn(2)
        names.assign(interp, node.target, item, frame)
        signal = yield from _block(interp, node.body, frame, plan, made)
        if signal is BREAK or isinstance(signal, Returned):
            return None if signal is BREAK else signal
    return (yield from _block(interp, node.orelse, frame, plan, made))


def _try(interp: Run, node: ir.Try, frame: Frame, plan: dict[int, bool], made: Once) -> Generator[Any, None, Any]:
    signal, raised = None, None
    try:
        signal = yield from _block(interp, node.body, frame, plan, made)
        if signal is None:
            signal = yield from _block(interp, node.orelse, frame, plan, made)
    except Raised as error:
        raised = error
    for kind, name, body in node.handlers if raised is not None else ():
        assert raised is not None
        if kind is None or exceptions.catches(interp, interp.eval(kind, frame), raised.value):
            if name is not None:
                names.store(name, raised.value, frame)
            raised = None
            try:
                signal = yield from _block(interp, body, frame, plan, made)
            except Raised as error:
                raised = error
            break
    last = yield from _block(interp, node.final, frame, plan, made)
    if last is None and raised is not None:
        raise raised
    return last if last is not None else signal


_STATEMENTS: dict[type, Callable[..., Generator[Any, None, Any]]] = {
    ir.ExprS: _values, ir.Assign: _values, ir.Return: _values, ir.If: _if, ir.Block: _inner, ir.While: _while,
    ir.For: _for, ir.Try: _try,
}  # fmt: skip
