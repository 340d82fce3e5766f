"""Expressions of the interpreted Python, one function a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Env, Func, Value
from kbh_lint.host.datamodel import comparisons, iteration, names, operators, shown, subscripts, texts
from kbh_lint.host.python import calls, coroutines
from kbh_lint.host.values import bounds, keys, taint, unknowns
from kbh_lint.host.values.containers import Once, Some
from kbh_lint.host.values.frames import MAPPED_STRING, Frame
from kbh_lint.host.values.objects import Bound, ClassV, Instance
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import Literal, Piece, Text, concat, doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def e_const(interp: Run, node: ir.Const, frame: Frame) -> Value:
    value = node.value
    if type(value) is str and len(value) >= MAPPED_STRING and node.loc[0].language == "python":
        text = Text(value, (Piece(0, len(value), Literal(node.loc[0], node.loc), 0),))
        node.value = text  # the next visit finds it made
        return text
    return value


def e_name(interp: Run, node: ir.Name, frame: Frame) -> Value:
    name, found = node.id, frame.env.vars
    if name in found and not frame.outer:
        return found[name]
    return names.load(interp, name, frame, node.loc)


def e_attr(interp: Run, node: ir.Attr, frame: Frame) -> Value:
    inner, here = node.value, frame.env.vars
    if isinstance(inner, ir.Name) and inner.id in here and not frame.outer:  # as `e_name`, for most that is asked
        return interp.get_attr(here[inner.id], node.name, node.loc)
    return interp.get_attr(EXPRESSIONS[type(inner)](interp, inner, frame), node.name, node.loc)


def e_index(interp: Run, node: ir.Index, frame: Frame) -> Value:
    return subscripts.get_item(interp, interp.eval(node.value, frame), interp.eval(node.index, frame), node.loc)


def e_slice(interp: Run, node: ir.SliceE, frame: Frame) -> Value:
    parts = [interp.eval(p, frame) if p is not None else None for p in (node.lower, node.upper, node.step)]
    return slice(*parts)


def e_star(interp: Run, node: ir.Star, frame: Frame) -> Value:
    return interp.eval(node.value, frame)


_FITTED = frozenset((Func, Bound, ClassV))  # whose parameters say which arguments a call may have


def e_call(interp: Run, node: ir.Call, frame: Frame) -> Value:
    func = EXPRESSIONS[type(node.func)](interp, node.func, frame)
    args, kwargs = interp.arguments(node, frame)
    if type(func) is FunctionType:
        made = _of_frame(interp, func, args, kwargs, frame, node.loc)
        if made is not NotImplemented:
            return made
    if type(func) in _FITTED and calls.misfit(func, args, kwargs):
        if not any(isinstance(arg, ir.Star) for arg in node.args) and all(key for key, _ in node.keywords):
            calls.refuse(interp, func, node.loc)
    return interp.call(func, args, kwargs, node.loc)


def _of_frame(
    interp: Run, func: Value, args: Sequence[Value], kwargs: Mapping[str, Value], frame: Frame, loc: ir.Loc
) -> Value:
    """Models the built-in functions that see the variables around their call; NotImplemented for others. What `exec`
    and `eval` bind without a scope of their own, a function does not see."""
    known = interp.builtins
    if func is known.get("super"):
        return interp.super_(args, frame)
    if func is known.get("locals"):
        return frame.env.vars
    if func is known.get("globals"):
        return frame.globals.vars
    inside = frame.env is not frame.globals and len(args) == 1 and not kwargs
    if inside and (func is known.get("exec") or func is known.get("eval")):
        return interp.run_text(args[0], frame.globals.vars, loc, _seen(frame))
    return NotImplemented


def _seen(frame: Frame) -> dict[str, Value]:
    """The variables of a function and of those around it, by name."""
    seen: dict[str, Value] = {}
    env: Env | None = frame.env
    while env is not None and env is not frame.globals:
        seen = {**env.vars, **seen}
        env = env.parent
    return seen


def e_binary(interp: Run, node: ir.Binary, frame: Frame) -> Value:
    left = EXPRESSIONS[type(node.left)](interp, node.left, frame)
    right = EXPRESSIONS[type(node.right)](interp, node.right, frame)
    return operators.binary(interp, node.op, left, right, node.loc)


def e_unary(interp: Run, node: ir.Unary, frame: Frame) -> Value:
    value = interp.eval(node.value, frame)
    if node.op == "not":
        if isinstance(value, Unknown):
            return not interp.truth(value, node.value.loc)
        return not interp.truth(value, node.loc)
    return operators.unary(interp, node.op, value, node.loc)


def e_bool(interp: Run, node: ir.Bool, frame: Frame) -> Value:
    value: Any = None
    for item in node.values:
        value = interp.eval(item, frame)
        if interp.truth(value, item.loc) != (node.op == "and"):
            return value
    return value


def _asks_for_main(node: ir.Compare, frame: Frame) -> bool:
    """Whether a comparison asks which module of the process the file is, `__name__ == "__main__"`."""
    sides = (node.left, *node.rights)
    named = any(isinstance(side, ir.Name) and side.id == "__name__" for side in sides)
    return named and "__name__" not in frame.globals.vars and any(
        isinstance(side, ir.Const) and side.value == "__main__" for side in sides
    )  # fmt: skip


def e_compare(interp: Run, node: ir.Compare, frame: Frame) -> Value:
    if not interp.guarding and _asks_for_main(node, frame):  # and what runs then is not the guarded part of the file
        return taint.asked(interp, "__name__", taint.COMMAND, node.loc)
    left = interp.eval(node.left, frame)
    result: Any = True
    doubts: list[Any] = []  # links of a chain that are not known: all links must hold
    for op, right_node in zip(node.ops, node.rights, strict=True):
        right = interp.eval(right_node, frame)
        result = comparisons.compare(interp, op, left, right, node.loc)
        if result is False:
            return False
        if isinstance(result, (Unknown, Tensor)):
            doubts.append(result)
        left = right
    return unknowns.merged(interp, *doubts, why="a comparison") if doubts and len(node.ops) > 1 else result


def e_cond(interp: Run, node: ir.Cond, frame: Frame) -> Any:
    test = interp.truth(interp.eval(node.test, frame), node.test.loc)
    return interp.eval(node.yes if test else node.no, frame)


def e_seq(interp: Run, node: ir.Seq, frame: Frame) -> Value:
    items: list[Any] = []
    for item in node.items:
        if isinstance(item, ir.Star):
            items.extend(iteration.materialise(interp, interp.eval(item.value, frame), item.loc))
        else:
            items.append(interp.eval(item, frame))
    if node.kind == "tuple":
        return tuple(items)
    return keys.distinct(interp, items) if node.kind == "set" else items


def e_dict(interp: Run, node: ir.DictE, frame: Frame) -> Value:
    out: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            more = subscripts.mapping(interp, interp.eval(value, frame), node.loc)
            out.update(bounds.visited(interp, more) if more is not None else {})
        else:
            name = keys.check_key(interp.eval(key, frame))
            keys.hashed(interp, name)
            out[name] = interp.eval(value, frame)
    return out


def e_comp(interp: Run, node: ir.Comp, frame: Frame) -> Value:
    inner = Frame(Env({}, frame.env), frame.globals, None, frame.func)
    inner.outer = dict(frame.outer)
    inner.named = frame.named or frame.env
    out: list[Any] = []
    uncounted: list[Some] = []

    def clause(i: int) -> None:
        interp.burn()
        if i == len(node.clauses):
            key = interp.eval(node.key, inner) if node.key is not None else None
            out.append((key, interp.eval(node.item, inner)) if node.kind == "dict" else interp.eval(node.item, inner))
            return
        target, iterable, tests = node.clauses[i]
        items = iteration.iterate(interp, interp.eval(iterable, inner), node.loc)
        if isinstance(items, Some):
            uncounted.append(items)
        for item in items:
            names.assign(interp, target, item, inner)
            if all(interp.truth(interp.eval(t, inner), t.loc) for t in tests):
                clause(i + 1)

    if node.kind == "generator":
        return _generator(interp, node, frame, inner)
    clause(0)
    if node.kind == "dict":
        return {keys.check_key(key): value for key, value in out}
    if node.kind == "set":
        return keys.distinct(interp, out)
    return Some(out) if uncounted else out


def _generator(interp: Run, node: ir.Comp, frame: Frame, inner: Frame) -> Once:
    """A generator expression: of its parts, only the first iterable is looked at before it is asked for an item."""
    first = interp.eval(node.clauses[0][1], frame)

    def clause(i: int) -> Iterator[Value]:
        interp.burn()
        if i == len(node.clauses):
            yield interp.eval(node.item, inner)
            return
        target, iterable, tests = node.clauses[i]
        value = interp.eval(iterable, inner) if i else first
        items = iteration.in_turn(value) if isinstance(value, Once) else iteration.iterate(interp, value, node.loc)
        for item in items:
            names.assign(interp, target, item, inner)
            if all(interp.truth(interp.eval(t, inner), t.loc) for t in tests):
                yield from clause(i + 1)

    made = Once()
    made.source = clause(0)
    return made


def e_lambda(interp: Run, node: ir.Lambda, frame: Frame) -> Value:
    return names.make_function(interp, node.func, frame)


def e_fstring(interp: Run, node: ir.FString, frame: Frame) -> Value:
    parts: list[str] = []
    literal, at = Literal(node.loc[0], node.loc), 0
    for part in node.parts:
        if isinstance(part, ir.Const):
            value = part.value
            if type(value) is str and len(value) >= MAPPED_STRING:
                part.value = value = Text(value, (Piece(0, len(value), literal, at),))
            parts.append(value)
            at += len(value)
            continue
        value_node, conversion, spec = part
        value = interp.eval(value_node, frame)
        if isinstance(value, str) and not conversion and spec is None:
            bounds.text(interp, value)
            parts.append(value)
            continue
        if isinstance(value, Instance):
            way = {"r": "repr", "a": "repr", "s": "str"}.get(conversion, "format")
            parts.append(texts.of(interp, value, node.loc, way, interp.eval(spec, frame) if spec is not None else ""))
            continue
        if not isinstance(value, (str, int, float, bool, type(None), tuple, list)):
            parts.append(shown.show(value))
            continue
        printed = texts.of(interp, value, node.loc) if isinstance(value, (tuple, list)) else value
        if isinstance(printed, Text) and doubts(printed):
            parts.append(printed)
            continue
        if not bounds.is_small(value):
            raise bounds.TooLarge("a text grew past the bound")
        text = repr(value) if conversion == "r" else value
        form = "" if spec is None else interp.eval(spec, frame)
        parts.append(format(text, bounds.format_spec(form)) if form else str(text))
    return concat(parts)


def e_assign_expr(interp: Run, node: ir.AssignE, frame: Frame) -> Value:
    value = interp.eval(node.value, frame)
    if frame.named is not None and isinstance(node.target, ir.Name):
        frame.outer.get(node.target.id, frame.named).vars[node.target.id] = value
    else:
        names.assign(interp, node.target, value, frame)
    return value


def e_opaque(interp: Run, node: ir.Opaque, frame: Frame) -> Value:
    values = [interp.eval(c, frame) for c in node.children if c is not None]
    if node.reason == "yield":
        if frame.env.vars.get("__yielded__") is not None:
            frame.env.vars["__yielded__"].append(values[0] if values else None)
        return None
    if node.reason == "yield from":
        frame.env.vars.setdefault("__yielded__", []).extend(iteration.iterate(interp, values[0], node.loc))
        return None
    if node.reason == "await":
        return coroutines.awaited(interp, values[0], node.loc)
    interp.miss(node.reason, node.loc)
    return Unknown((), node.reason)


EXPRESSIONS: dict[type, Callable[[Any, Any, Any], Any]] = {
    ir.Const: e_const, ir.Name: e_name, ir.Attr: e_attr, ir.Index: e_index,
    ir.SliceE: e_slice, ir.Star: e_star, ir.Call: e_call, ir.Binary: e_binary,
    ir.Unary: e_unary, ir.Bool: e_bool, ir.Compare: e_compare, ir.Cond: e_cond,
    ir.Seq: e_seq, ir.DictE: e_dict, ir.Comp: e_comp, ir.Lambda: e_lambda,
    ir.FString: e_fstring, ir.AssignE: e_assign_expr, ir.Opaque: e_opaque,
}  # fmt: skip
