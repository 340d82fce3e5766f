"""Places that a function of CUDA C++ is handed: what its caller calls them."""

from __future__ import annotations

from collections.abc import Iterator

from kbh_lint.base import ir
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.core.calls import HELD
from kbh_lint.kernels.core.frames import THIS, Frame
from kbh_lint.kernels.core.rounds import unmoved

MAX_STEPS = 6  # variables of a function, one made of another
MAX_CALLS = 6  # of functions, one in another, that a place is handed through


def still(frame: Frame, target: ir.Expr) -> frozenset[int]:
    """The loops, of a running function and of those that called it and handed it the place, in which what `target`
    names is the same place in each round: it moves with none of what the loop changes."""
    found = set[int]()
    for _ in range(MAX_CALLS):
        found |= {id(loop) for loop in unmoved(frame.func, frame.inside, target)}
        outer = in_caller(frame, target)
        if outer is None or frame.around is None:
            break
        frame, target = frame.around, outer
    return frozenset(found)


def in_caller(frame: Frame, node: ir.Expr, depth: int = 0) -> ir.Expr | None:
    """The expression by which the caller of a running function names the place that `node` is there: an argument that
    the function takes by reference or by address, a field of its object, what a lambda refers to. The indices in it are
    what they are made of. None for what the function has to itself, and where it is not known."""
    base = _base(node)
    if frame.func is None or base is None or depth > MAX_STEPS:
        return None
    func = frame.func.node
    param = next((param for param in func.params if param.name == base.id), None)
    if param is not None:
        kind, given = param.type, frame.sources.get(base.id)
        leads = isinstance(kind, ir.TypeRef) and (kind.reference and not kind.const or kind.pointers > 0)
        return _replaced(frame, node, given) if leads and given is not None else None
    local = _variables(func).get(base.id)
    if local is not None:
        kind = local.type
        leads = kind is not None and not kind.dims and (kind.reference or kind.pointers > 0 or kind.name == "auto")
        made = _replaced(frame, node, local.init, own=True) if leads and local.init is not None else None
        return None if made is None else in_caller(frame, made, depth + 1)
    if func.kind == "lambda":
        around = frame.func.env.vars
        return node if base.id not in around.get(HELD, {}) and frame.around is around.get("") else None
    owner = frame.sources.get(THIS)
    if owner is None:
        return None
    return _replaced(frame, node, owner if base.id == THIS else ir.Attr(owner, base.id, base.loc))


def _base(node: ir.Expr) -> ir.Name | None:
    """The variable that an expression is an element or a field of, or points into."""
    while not isinstance(node, ir.Name):
        if isinstance(node, ir.Binary) and node.op in ("+", "-"):
            node = node.left
        elif isinstance(node, (ir.Index, ir.Attr, ir.Cast)) or isinstance(node, ir.Unary) and node.op in ("*", "&"):
            node = node.value
        else:
            return None
    return node


def _replaced(frame: Frame, node: ir.Expr, by: ir.Expr, *, own: bool = False) -> ir.Expr | None:
    """An expression with `by` in the place of the variable that it begins with; `own`: in the function itself."""
    if isinstance(node, ir.Name):
        return by
    inner = node.left if isinstance(node, ir.Binary) else getattr(node, "value", None)
    made = None if inner is None else _replaced(frame, inner, by, own=own)
    if made is None:
        return None
    if isinstance(node, ir.Attr):
        return ir.Attr(made, node.name, node.loc)
    if isinstance(node, ir.Cast):
        return ir.Cast(node.kind, node.type, made, node.loc)
    if isinstance(node, ir.Unary):
        return ir.Unary(node.op, made, node.loc)
    if not isinstance(node, (ir.Index, ir.Binary)):
        return None
    index = node.index if isinstance(node, ir.Index) else node.right
    moved = index if own else _in_terms_of_caller(frame, index)
    if moved is None:
        return None
    return ir.Index(made, moved, node.loc) if isinstance(node, ir.Index) else ir.Binary(node.op, made, moved, node.loc)


def _in_terms_of_caller(frame: Frame, index: ir.Expr) -> ir.Expr | None:
    """What an index is made of that the caller gives, and what is the same everywhere; None where that is not known."""
    parts = list(_made_of(frame, index, 0))
    known = [part for part in parts if part is not None]
    return ir.Seq("tuple", tuple(known), index.loc) if len(known) == len(parts) else None


def _made_of(frame: Frame, node: ir.Expr, depth: int) -> Iterator[ir.Expr | None]:
    func = None if frame.func is None else frame.func.node
    for name in [part for part in walk((node,)) if isinstance(part, ir.Name)]:
        if func is None or depth > MAX_STEPS:
            yield None
        elif any(param.name == name.id for param in func.params):
            yield frame.sources.get(name.id)
        elif (local := _variables(func).get(name.id)) is not None:
            if local.init is None:
                yield None
            else:
                yield from _made_of(frame, local.init, depth + 1)
        else:
            yield name


@by_node
def _variables(func: ir.FuncDef) -> dict[str, ir.Decl]:
    """The variables that a function declares."""
    return {node.name: node for node in walk(func.body or ()) if isinstance(node, ir.Decl)}
