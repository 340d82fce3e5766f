"""Statements of C++ host code, one function a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Value
from kbh_lint.cpp import templates
from kbh_lint.frontends import cuda
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import construction as cpp_construction
from kbh_lint.host.cpp import libraries as cpp_libraries
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import templates as cpp_templates
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.looping import rounds as cpp_rounds
from kbh_lint.host.cpp.looping.rounds import MOST_AGAIN, MOST_FUEL
from kbh_lint.host.cpp.std import containers, copying, parts, ranges, texts
from kbh_lint.host.cpp.types import COUNTS, MAX_COUNTED, MAX_LOOP
from kbh_lint.host.datamodel import iteration
from kbh_lint.host.python import loops
from kbh_lint.host.torch import tensor_attributes
from kbh_lint.host.values import equality
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.frames import BREAK, CONTINUE, FULL_ITERATIONS, Raised, Returned
from kbh_lint.host.values.named_objects import BuiltinObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp


def s_decl(run: Cpp, node: ir.Decl, env: Env) -> None:
    if node.storage & {"static", "thread_local"}:
        table = run.statics.setdefault(id(node), {})
        if node.name not in table:
            table[node.name] = cpp_construction.initial(run, node, env, lasting=True)
            run.types.declares(table, node, env)
        env.vars[node.name] = Slot(table, node.name)
        return
    if node.type is not None and node.type.reference and isinstance(node.init, (ir.Name, ir.Attr, ir.Index)):
        place = run.place(node.init, env)
        if place is not None:
            env.vars[node.name] = place
            return
    if node.type is not None and node.type.reference and isinstance(node.init, ir.Call):
        run.result_place = None
        value = run.eval(node.init, env)
        if run.result_place is not None:
            env.vars[node.name] = run.result_place
            return
    else:
        value = cpp_construction.initial(run, node, env)
    if node.type is None or not (node.type.pointers or node.type.reference):
        value = copying.fresh(run, node.init, value, env)
        cpp_classes.begins_in_scope(run, value, env)
    if cpp_numbers.is_number(value) and isinstance(node.type, ir.TypeRef) and not node.type.pointers:
        dtype = cpp_types.element(run, node.type, env)
        if dtype is not None:
            cpp_templates.note(run.widths, env.vars, node.name, dtype)
    if isinstance(value, Tensor) and isinstance(node.type, ir.TypeRef) and node.type.name in COUNTS:
        value = tensor_attributes.scalar(run.interp, "item", [value], {}, node.loc)  # an element through an accessor
    run.types.points(node.name, node.type, value, env)
    env.vars[node.name] = value
    if value is None:
        run.types.declares(env.vars, node, env)


def s_assign(run: Cpp, node: ir.Assign, env: Env) -> None:
    first = node.targets[0]
    if isinstance(first, ir.Seq) and first.kind == "places":
        parts.refer(run, first, node.value, env)
        return
    value = copying.fresh(run, node.value, run.eval(node.value, env), env)
    for target in node.targets:
        run.assign(target, value, env)


def s_aug(run: Cpp, node: ir.AugAssign, env: Env) -> None:
    old, by = run.eval(node.target, env), run.eval(node.value, env)
    if any(cpp_classes.stepped(run, node, old, post) is not NotImplemented for post in (False, True)):
        return  # whether it stood before or behind is lost of a statement
    if cpp_classes.compound_assign(run, node.op, node.target, old, by, env, node.loc) is NotImplemented:
        run.assign(node.target, texts.changed(run, node, old, by), env)


def s_expr(run: Cpp, node: ir.ExprS, env: Env) -> None:
    value = run.eval(node.value, env)
    if isinstance(node.value, ir.Call):
        cpp_libraries.for_its_effect(run, node.value, value, env, node.loc)


def s_if(run: Cpp, node: ir.If, env: Env) -> Any:
    test = run.truth(run.eval(node.test, env), node.test.loc)
    return run.block(node.body if test else node.orelse, Env({}, env))


def s_while(run: Cpp, node: ir.While, env: Env) -> Any:
    return _rounds(run, node, None, node.test, Env({}, env), node.once)


def s_cfor(run: Cpp, node: ir.CFor, env: Env) -> Any:
    inner = Env({}, env)
    name, container = _iterated(node)
    if container is not None and isinstance(held := run.eval(container, env), list) and len(held) <= MAX_LOOP:
        for i in range(len(held)):
            signal = run.block(node.body, Env({name: Slot(held, i)}, env))
            if signal is BREAK:
                break
            if isinstance(signal, Returned):
                return signal
        return None
    run.block(node.init, inner)
    return _rounds(run, node, node.step, node.test, inner, False)


def _iterated(node: ir.CFor) -> tuple[str, ir.Expr | None]:
    """The iterator of `for (auto it = v.begin(); it != v.end(); ++it)`, and the container."""
    first = node.init[0] if len(node.init) == 1 else None
    test = node.test
    if not isinstance(first, ir.Decl) or not isinstance(test, ir.Compare) or node.step is None:
        return "", None
    begin, end = first.init, test.rights[0]
    for call, names in ((begin, ("begin", "cbegin")), (end, ("end", "cend"))):
        if not isinstance(call, ir.Call) or not isinstance(call.func, ir.Attr) or call.func.name not in names:
            return "", None
    steps = isinstance(node.step, ir.AssignE) and isinstance(node.step.target, ir.Name)
    same = isinstance(test.left, ir.Name) and test.left.id == first.name and test.ops == ("!=",)
    if not steps or not same or not isinstance(begin, ir.Call) or not isinstance(begin.func, ir.Attr):
        return "", None
    return first.name, begin.func.value


def s_for(run: Cpp, node: ir.For, env: Env) -> Any:
    found = ranges.items(run, run.eval(node.iterable, env), node.loc)
    if not isinstance(found, str):
        return _for_each(run, node, found, env)
    letters = [ord(one) for one in found]  # of a text, which they may change
    signal = _for_each(run, node, letters, env)
    place = run.place(node.iterable, env) if node.reference else None
    if place is not None and (made := texts.of_letters(letters)) != found:
        place.set(Unknown((), "a text") if made is NotImplemented else made)
    return signal


def _for_each(run: Cpp, node: ir.For, found: Value, env: Env) -> Any:
    """Runs the body once for each element of a container."""
    if isinstance(found, dict) and not isinstance(found, containers.Keys):
        items: list[Value] = list(found.items())
    else:
        items = list(iteration.iterate(run.interp, found, node.loc))
    begun, following = len(run.interp.trace.events), iter(enumerate(items))

    def one_round() -> Value:
        i, item = next(following)
        inner = Env({}, env)
        if isinstance(node.target, ir.Name):
            held = item
            if node.reference and isinstance(found, dict) and isinstance(item, tuple):
                held = containers.iterator(found, item[0])
            inner.vars[node.target.id] = Slot(found, i) if node.reference and isinstance(found, list) else held
        elif node.reference and isinstance(node.target, ir.Seq):
            parts.of_element(node.target, found, i, item, inner)
        else:
            run.assign(node.target, item, inner)
        return run.block(node.body, inner)

    left = len(items) - MAX_LOOP - 2
    for done in range(len(items)):
        if done == MAX_LOOP and left > 0:
            computes = cpp_rounds.of_loop(run, node, env) if len(run.interp.trace.events) == begun else None
            if computes is not None:
                return _ended(cpp_rounds.finish(computes, node, env, lambda moved: left, one_round))
            run.interp.miss(f"a loop of more than {MAX_LOOP} rounds", node.loc)
            cpp_rounds.left_out(run, node, env)
            break
        signal = one_round()
        if signal is BREAK:
            break
        if isinstance(signal, Returned):
            return signal
    return None


def _ended(signal: Value) -> Value:
    """What a loop hands on of the signal that ended it."""
    return signal if isinstance(signal, Returned) else None


def s_switch(run: Cpp, node: ir.Switch, env: Env) -> Any:
    value = cpp_classes.number(run, run.eval(node.value, env))
    taken = False
    for matches in (False, True):  # the default only when nothing else matched
        for labels, body in node.cases:
            if not taken:
                hit = not labels if matches else any(_is_case(run, value, label, env) for label in labels)
                taken = hit
            if taken:
                signal = run.block(body, Env({}, env))
                if signal is BREAK:
                    return None
                if signal is not None:
                    return signal
        if taken:
            break
    return None


def _is_case(run: Cpp, value: Value, label: ir.Expr, env: Env) -> bool:
    """Whether a switch on `value` goes to `label`; a decision when the value is not known."""
    same = equality.same(run.interp, run.eval(label, env), value)
    return run.interp.truth(same, label.loc) if isinstance(same, Unknown) else same is True


def s_return(run: Cpp, node: ir.Return, env: Env) -> Any:
    if node.value is None:
        return Returned(None)
    by_place = run.by_place
    place = run.place(node.value, env) if by_place and not isinstance(node.value, ir.Call) else None
    value = run.eval(node.value, env) if place is None or not place.is_filled() else place.get()
    run.result_place = run.result_place if place is None and isinstance(node.value, ir.Call) else place
    return Returned(value.get() if isinstance(value, Slot) else value)


def s_jump(run: Cpp, node: ir.Jump, env: Env) -> Any:
    if node.kind == "goto":
        run.interp.ran_unread("a goto of C++ is not followed", node.loc)
    return {"break": BREAK, "continue": CONTINUE}.get(node.kind)


def s_block(run: Cpp, node: ir.Block, env: Env) -> Any:
    return run.block(node.body, Env({}, env))


def s_using(run: Cpp, node: ir.Using, env: Env) -> None:
    if node.namespace is not None:
        cuda.use(env, node.namespace)
        cuda.bring_in(env, node.namespace)
    elif node.name:
        known = env.get(node.type.name) if node.type is not None else None
        env.vars[node.name] = templates.brought_in(node, known) or CppType(node, env)


def s_class(run: Cpp, node: ir.ClassDef, env: Env) -> None:
    env.vars[node.name] = CppType(node, env)


def s_raise(run: Cpp, node: ir.Raise, env: Env) -> None:
    made = run.eval(node.value, env) if node.value is not None else None
    if node.value is None and run.interp.handling:
        raise Raised(run.interp.handling[-1], node.loc)
    named = getattr(getattr(node.value, "func", node.value), "name", "") or getattr(node.value, "id", "")
    # what Python sees of an exception of C++
    raise Raised(BuiltinObject("builtins.RuntimeError", {"args": (), "cpp": named or type(made).__name__}), node.loc)


def s_try(run: Cpp, node: ir.Try, env: Env) -> Any:
    try:
        return run.block(node.body, Env({}, env))
    except Raised as raised:
        for kind, name, body in node.handlers:
            if not _catches(kind, raised.value):
                continue
            run.interp.handling.append(raised.value)
            try:
                return run.block(body, Env({name: raised.value} if name else {}, env))
            finally:
                run.interp.handling.pop()
        raise


def _catches(kind: ir.Expr | None, value: Value) -> bool:
    """Whether a catch takes an exception: all of them, its own type, or those of the standard library and of torch."""
    name = kind.name.rpartition("::")[2] if isinstance(kind, ir.TypeRef) else ""
    thrown = str(getattr(value, "attrs", {}).get("cpp", "runtime_error")).rpartition("::")[2]
    return (
        kind is None or name in ("exception", "Error", thrown) or thrown.endswith("_error") and name.endswith("_error")
    )


def s_opaque(run: Cpp, node: ir.Opaque, env: Env) -> Any:
    for child in node.children:
        if child is None:
            continue
        signal = run.statement(child, env) if type(child) in STATEMENTS else run.eval(child, env)
        if signal is BREAK or signal is CONTINUE or isinstance(signal, Returned):
            return signal
    return None


def s_asm(run: Cpp, node: ir.Asm, env: Env) -> None:
    """Assembly of the host: nobody knows what it puts into its outputs, or into memory that it is given."""
    text = str(node.template.value).strip() if isinstance(node.template, ir.Const) else "?"
    given = [run.eval_place(item, env) for _, item in node.inputs]
    if any(isinstance(one, Slot) for one in given) and not text.startswith(("prefetch", "clflush", "clwb")):
        run.interp.lost("assembly of the host is not followed", node.loc)
    for _, item in node.outputs:
        run.assign(item, Unknown((), "what assembly of the host gives"), env)


def _rounds(
    run: Cpp, node: ir.While | ir.CFor, step: ir.Expr | None, test: ir.Expr | None, env: Env, once: bool
) -> Any:
    """Runs the rounds of a loop; `once` says that the first does not ask the test."""
    interp, scope = run.interp, cpp_numbers.Variables(run, env)
    events, outer = interp.trace.events, interp.weight
    start = before = earlier = len(events)
    done, numbers, lists = 0, scope.whole(), scope.lists()
    first, last, stands = numbers, 0, 0  # `last` is the round that stands for those that are left out
    fuel, most = interp.fuel, MOST_AGAIN if id(node) in run.long_loops else MOST_FUEL

    def one_round() -> Value:
        signal = run.block(node.body, Env({}, env))
        if step is not None and signal is not BREAK and not isinstance(signal, Returned):
            run.eval(step, env)
        return signal

    def tested() -> Value:
        return BREAK if test is not None and not run.truth(run.eval(test, env), test.loc) else one_round()

    try:
        while True:
            if (
                len(events) == start
                and most
                and done > FULL_ITERATIONS
                and cpp_rounds.is_long(done, fuel - interp.fuel, most)
            ):
                most, computes = 0, cpp_rounds.of_loop(run, node, env) if len(events) == start else None
                if computes is not None:
                    cpp_rounds.known_long(run, node)
                    left = cpp_rounds.left_of(run, node, env)
                    return _ended(cpp_rounds.finish(computes, node, env, left, tested))
            if done >= MAX_LOOP and (done >= MAX_COUNTED or len(events) > start):
                interp.miss(f"a loop of more than {done} rounds", node.loc)
                for table, name, value in numbers:
                    if table.get(name) != value:  # a counter: where it ends is not known
                        table[name] = Unknown((), "counted in a loop that was not followed to its end")
                cpp_rounds.left_out(run, node, env)
                break
            numbers = scope.whole() if done == MAX_LOOP - 1 or done == MAX_COUNTED - 1 else numbers
            if test is not None and not (once and done == 0):
                value = run.eval(test, env)
                if isinstance(value, (Unknown, Tensor)):
                    if done:
                        cpp_rounds.so_often(interp.contents_of(value), first, lists)
                        break
                elif not run.truth(value, test.loc):
                    break
            earlier, before = before, len(events)
            known = (scope.numbers(), scope.kept()) if done == FULL_ITERATIONS - 1 else None
            lengths = scope.lists() if last else []
            signal = one_round()
            interp.weight = outer
            if signal is BREAK:
                break
            if isinstance(signal, Returned):
                return signal
            interp.burn(2)
            done += 1
            if done == last:
                loops.stands(events, earlier, before)
                for held, length in lengths:
                    loops.fill({"": held}, {"": length}, stands - 1)
            if known is not None and len(events) > before and scope.keeps(known[1]):
                stands, signal = loops.to_the_last(scope, node, loops.steps(scope, known[0]), one_round)
                if isinstance(signal, Returned):
                    return signal
                if signal is BREAK:
                    break
                if stands:
                    interp.weight, last = outer * stands, done + 1
    finally:
        interp.weight = outer
    if done > FULL_ITERATIONS and not last:  # what only the last leaves behind stands for what all of them did
        for event in events[before:]:
            event.weight *= done
    return None


STATEMENTS: dict[type, Callable[[Any, Any, Any], Any]] = {
    ir.Decl: s_decl, ir.Assign: s_assign, ir.AugAssign: s_aug, ir.ExprS: s_expr, ir.If: s_if,
    ir.While: s_while, ir.CFor: s_cfor, ir.For: s_for, ir.Switch: s_switch, ir.Return: s_return,
    ir.Jump: s_jump, ir.Block: s_block, ir.Using: s_using, ir.ClassDef: s_class, ir.Try: s_try,
    ir.Raise: s_raise, ir.Opaque: s_opaque, ir.Asm: s_asm,
}  # fmt: skip
