"""Statements of the interpreted Python, one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Value
from kbh_lint.frontends.walk import walk
from kbh_lint.host.datamodel import exceptions, iteration, names, operators
from kbh_lint.host.python import class_making, contextmanagers, loops
from kbh_lint.host.values import keys
from kbh_lint.host.values.containers import Once
from kbh_lint.host.values.frames import BREAK, CONTINUE, FULL_ITERATIONS, Frame, Leave, OutOfFuel, Raised, Returned
from kbh_lint.host.values.keys import MISSING
from kbh_lint.host.values.named_objects import Thread
from kbh_lint.host.values.objects import Instance, find_method
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_SHARED = 64  # items of an iterator with a name that are followed one by one


def s_expr(interp: Run, node: ir.ExprS, frame: Frame) -> None:
    interp.eval(node.value, frame)


def s_assign(interp: Run, node: ir.Assign, frame: Frame) -> None:
    value = interp.eval(node.value, frame)
    for target in node.targets:
        names.assign(interp, target, value, frame)


def s_aug(interp: Run, node: ir.AugAssign, frame: Frame) -> None:
    old = interp.eval(node.target, frame)
    value = interp.eval(node.value, frame)
    names.assign(interp, node.target, operators.inplace(interp, node.op, old, value, node.loc), frame)


def s_decl(interp: Run, node: ir.Decl, frame: Frame) -> None:
    if frame.env.vars.get("__class_fields__") is not None:
        frame.env.vars["__class_fields__"].append(node.name)


def s_if(interp: Run, node: ir.If, frame: Frame) -> Value:
    interp.guarding = True
    value = interp.eval(node.test, frame)
    interp.guarding = False
    test = interp.truth(value, node.test.loc)
    return interp.block(node.body if test else node.orelse, frame)


def s_while(interp: Run, node: ir.While, frame: Frame) -> Value:
    done, last, outer = 0, 0, interp.weight  # `last` is the iteration that stands for those that are left out
    scope = loops.Variables(interp, frame)
    try:
        while True:
            items = loops.drained(scope, node, done)
            value = interp.eval(node.test, frame)
            if isinstance(value, (Unknown, Tensor)):
                if done:
                    break
            elif not interp.truth(value, node.test.loc) and not (node.once and done == 0):
                break
            before, numbers = len(interp.trace.events), scope.numbers()
            signal = interp.block(node.body, frame)
            interp.weight = outer
            if signal is BREAK:
                return None
            if isinstance(signal, Returned):
                return signal
            done += 1
            worked = len(interp.trace.events) > before
            if worked and loops.nears_its_end(scope, node, done, items, numbers):
                pass  # each round works on something else, to the last
            elif done == FULL_ITERATIONS and worked:
                moved = loops.steps(scope, numbers)
                stands, signal = loops.to_the_last(scope, node, moved, lambda: interp.block(node.body, frame))
                if signal is not None:
                    return None if signal is BREAK else signal
                if stands:
                    interp.weight, last = outer * stands, done + 1
            elif done > max(FULL_ITERATIONS, last) and worked:
                if _never_ends(interp, node):
                    raise OutOfFuel  # nothing in it ends it
                break
            interp.burn(2)
    finally:
        interp.weight = outer
    return interp.block(node.orelse, frame)


def s_for(interp: Run, node: ir.For, frame: Frame) -> Value:
    iterable = interp.eval(node.iterable, frame)
    if isinstance(iterable, Once) and (
        iterable.source is not None or len(iterable) <= MAX_SHARED and not isinstance(node.iterable, ir.Call)
    ):
        items: Any = iteration.in_turn(iterable)  # the body may draw from it, and a break leaves the rest
    else:
        items = iteration.iterate(interp, iterable, node.loc)
    return loops.each(
        interp, items, lambda item: names.assign(interp, node.target, item, frame), node.body, node.orelse, frame
    )


def s_return(interp: Run, node: ir.Return, frame: Frame) -> Value:
    return Returned(interp.eval(node.value, frame) if node.value is not None else None)


def s_jump(interp: Run, node: ir.Jump, frame: Frame) -> Value:
    return BREAK if node.kind == "break" else CONTINUE


def s_raise(interp: Run, node: ir.Raise, frame: Frame) -> None:
    if node.value is None and interp.handling:  # the exception that is being handled, once more
        raise Raised(interp.handling[-1], node.loc)
    value = interp.eval(node.value, frame) if node.value is not None else None
    raise exceptions.raised(interp, value, node.loc)


def s_with(interp: Run, node: ir.With, frame: Frame) -> Value:
    exits: list[Leave] = []
    signal, raised, trying = None, None, interp.trying
    try:
        for i, (context, target) in enumerate(node.items):
            manager = interp.eval(context, frame)
            if contextmanagers.is_manager(manager):
                signal = contextmanagers.run(interp, manager, partial(_rest, interp, node, frame, i), node.loc)
                break
            entered = interp.enter(manager, exits, node.loc)
            if target is not None:
                names.assign(interp, target, entered, frame)
        else:
            interp.trying = trying + len(exits)
            signal = interp.block(node.body, frame)
    except Raised as error:
        raised = error
    except BaseException:
        for leave in reversed(exits):
            leave(None)
        raise
    finally:
        interp.trying = trying
    for leave in reversed(exits):
        try:
            if leave(raised) is True:
                raised = None
        except Raised as error:
            raised = error
    if raised is not None:
        raise raised
    return signal


def _rest(interp: Run, node: ir.With, frame: Frame, i: int, value: Value) -> Value:
    """Runs what is inside of manager `i` of a with statement: binds `value`, which the manager gave, enters those after
    it and runs the body."""
    target = node.items[i][1]
    if target is not None:
        names.assign(interp, target, value, frame)
    return s_with(interp, replace(node, items=node.items[i + 1 :]), frame)


def s_try(interp: Run, node: ir.Try, frame: Frame) -> Value:
    signal, raised = None, None
    try:
        signal = _handled(interp, node, frame)
    except Raised as error:
        if not node.final:
            raise
        raised = error
    last = interp.block(node.final, frame) if node.final else None
    if last is None and raised is not None:  # a return or a break in `finally` takes the place of an exception
        raise raised
    return last if last is not None else signal


def _handled(interp: Run, node: ir.Try, frame: Frame) -> Value:
    """The body of a `try` and, after an exception, the first handler that catches it."""
    trying = interp.trying
    try:
        interp.trying = trying + len(node.handlers)
        signal = interp.block(node.body, frame)
    except Raised as raised:
        interp.trying = trying
        for kind, name, body in node.handlers:
            if kind is not None and not exceptions.catches(interp, interp.eval(kind, frame), raised.value):
                continue
            if name is not None:
                names.store(name, raised.value, frame)
            interp.handling.append(raised.value)
            try:
                return interp.block(body, frame)
            finally:
                interp.handling.pop()
                if name is not None:  # Python unbinds it
                    frame.outer.get(name, frame.env).vars.pop(name, None)
        raise
    finally:
        interp.trying = trying
    return signal if signal is not None else interp.block(node.orelse, frame)


def s_import(interp: Run, node: ir.Import, frame: Frame) -> None:
    interp.import_(node, frame)


def s_scope(interp: Run, node: ir.Scope, frame: Frame) -> None:
    for name in node.names:
        if node.kind == "global":
            frame.outer[name] = frame.globals
            continue
        env = frame.env.parent
        while env is not None and name not in env.vars:
            env = env.parent
        frame.outer[name] = env or frame.globals


def s_delete(interp: Run, node: ir.Delete, frame: Frame) -> None:
    for target in node.targets:
        if isinstance(target, ir.Name):
            if frame.outer.get(target.id, frame.env).vars.pop(target.id, MISSING) is MISSING:
                interp.may_fail("NameError", node.loc)
        elif isinstance(target, ir.Index):
            owner, key = interp.eval(target.value, frame), interp.eval(target.index, frame)
            if isinstance(owner, dict):
                if owner.pop(keys.held_key(interp, owner, key), MISSING) is MISSING:
                    interp.may_fail("KeyError", node.loc)
            elif isinstance(owner, list) and isinstance(key, (int, slice)):
                del owner[key]
            elif isinstance(owner, Instance):
                found = find_method(owner, "__delitem__")
                if found is not None:
                    interp.call(found, [key], {}, node.loc)
                elif owner.items is not None:
                    if owner.items.pop(keys.held_key(interp, owner.items, key), MISSING) is MISSING:
                        interp.may_fail("KeyError", node.loc)
        elif isinstance(target, ir.Attr):
            interp.del_attr(interp.eval(target.value, frame), target.name, node.loc)


def s_assert(interp: Run, node: ir.Assert, frame: Frame) -> None:
    value = interp.eval(node.test, frame)
    if isinstance(value, (Unknown, Tensor)):  # it holds for what the program is given
        contents = value.contents if isinstance(value, Unknown) else (value.storage.content,)
        interp.decisions.asserted.add(interp.place(node.test.loc))
        if not interp.assume(node.test.loc, True, contents):
            exceptions.raise_("AssertionError", [], node.loc)
    elif not interp.truth(value, node.test.loc):
        interp.may_fail("AssertionError", node.loc)


def s_block(interp: Run, node: ir.Block, frame: Frame) -> Value:
    return interp.block(node.body, frame)


def s_func(interp: Run, node: ir.FuncDef, frame: Frame) -> None:
    func: Any = names.make_function(interp, node, frame)
    for decorator in reversed(node.decorators):
        func = interp.decorate(interp.eval(decorator, frame), func, decorator.loc)
    names.store(node.name, func, frame)


def s_class(interp: Run, node: ir.ClassDef, frame: Frame) -> None:
    bases = tuple(interp.eval(b, frame) for b in node.bases)
    keywords = {name: interp.eval(value, frame) for name, value in node.keywords if name is not None}
    env = Env({"__class_fields__": []}, frame.env)
    interp.block(node.body, Frame(env, frame.globals, node.loc, None))
    env.vars.pop("__class_fields__", None)
    made: Any = class_making.of_statement(interp, node, bases, env, keywords)
    for decorator in reversed(node.decorators):
        made = interp.decorate(interp.eval(decorator, frame), made, decorator.loc)
    names.store(node.name, made, frame)


def s_opaque(interp: Run, node: ir.Opaque, frame: Frame) -> None:
    for child in node.children:
        if child is not None:
            interp.eval(child, frame)
    interp.lost(node.reason, node.loc)


STATEMENTS: dict[type, Callable[[Any, Any, Any], Any]] = {
    ir.ExprS: s_expr, ir.Assign: s_assign, ir.AugAssign: s_aug, ir.Decl: s_decl,
    ir.If: s_if, ir.While: s_while, ir.For: s_for, ir.Return: s_return,
    ir.Jump: s_jump, ir.Raise: s_raise, ir.With: s_with, ir.Try: s_try,
    ir.Import: s_import, ir.Scope: s_scope, ir.Delete: s_delete, ir.Assert: s_assert,
    ir.Block: s_block, ir.FuncDef: s_func, ir.ClassDef: s_class, ir.Opaque: s_opaque,
}  # fmt: skip


def _never_ends(interp: Run, node: ir.While) -> bool:
    """Whether nothing in a loop that works ends it, or a thread is in one that goes on until somebody
    says that it is to end: `while not stop.is_set()`."""
    if isinstance(node.test, ir.Const) and not _leaves(node.body):
        return True
    lane = interp.lanes.current[-1:]
    if not lane or not isinstance(lane[0], Thread):
        return False
    return any(isinstance(part, ir.Attr) and part.name == "is_set" for part in walk((node.test, *node.body)))


def _leaves(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether statements can end the loop around them: a break, a return or an exception, however deep."""
    for node in body:
        if isinstance(node, (ir.Return, ir.Raise)) or isinstance(node, ir.Jump) and node.kind == "break":
            return True
        parts = [getattr(node, name, None) for name in ("body", "orelse", "final")]
        parts += [handler[2] for handler in getattr(node, "handlers", ())]
        if any(_leaves(part) for part in parts if isinstance(part, tuple)):
            return True
    return False
