"""Shared memory that a product of tiles takes for certain.

Operands that are loaded and go into `tl.dot` as they are lie in shared memory whole, and at the same time. That is less
than a launch takes, which has buffers for the stages of a loop and for results, but it is what all take: compiled with
Triton 3.7 for sm_80, sm_90, sm_100 and sm_120, with 1 to 4 stages, 2 to 16 warps, 16-bit operands, in loops and
outside, with and without known alignment, no kernel had less, and many had just that. So it was for e4m3 where both lie
along the sum; where one lies across it, as hardly any near the limit does, four fifths were seen. Operands of fp32 and
e5m2 are converted or split first, and had less; they, and operands that are computed or turned, may be brought there in
parts (down to a half of both), and count as nothing.
"""

from __future__ import annotations

from math import prod

from kbh_lint.base import dtypes, ir
from kbh_lint.base.architectures import MOST_SHARED
from kbh_lint.frontends.walk import all_nodes, by_node, walk
from kbh_lint.kernels.core.origins import storages
from kbh_lint.kernels.core.value import V
from kbh_lint.kernels.languages.python.call import Call

_WHOLE = ("f16", "bf16", "e4m3")  # element types of operands that lie in shared memory as they are


def noted(call: Call, a: V, b: V) -> None:
    """Marks the kernel as too large if the operands of a product take more shared memory than there is; branches that
    may not be compiled are exempt."""
    left, right = _size(a), _size(b)
    facts = call.m.facts
    call.m.tiles.room(a.shape or (), b.shape or (), operands=left + right)
    if facts.too_large or left + right <= MOST_SHARED or call.m.statements.control.doubtful:
        return
    func = call.m.frame.func
    args = getattr(call.node, "args", ())[:2]
    if func is None or len(args) < 2 or not all(_is_loaded(arg, func.node) for arg in args):
        return
    if storages(a.origins) & storages(b.origins) and max(left, right) <= MOST_SHARED:  # one tile may be both
        return
    for size in (*(a.shape or ()), *(b.shape or ())):
        facts.decided |= call.m.tiles.sizes.get(size or 0, frozenset())
    facts.too_large = True


def _size(value: V) -> int:
    """The bytes of a tile; 0 where they are not known."""
    shape, bits = value.shape, dtypes.STORED.get(value.dtype)
    if bits is None or value.dtype not in _WHOLE or shape is None or len(shape) != 2 or None in shape:
        return 0
    return prod(size or 0 for size in shape) * bits // 8


def _is_loaded(node: ir.Expr, kernel: ir.FuncDef) -> bool:
    """Whether an operand is what a load gave, and nothing else."""
    if isinstance(node, ir.Name):
        made = given(kernel).get(node.id, ())
        return len(made) == 1 and _is_load(made[0])
    return _is_load(node)


def _is_load(node: ir.Expr | None) -> bool:
    return isinstance(node, ir.Call) and isinstance(node.func, ir.Attr) and node.func.name == "load"


@by_node
def given(kernel: ir.FuncDef) -> dict[str, list[ir.Expr | None]]:
    """What each name of a kernel is given, in all places; None where that is not one expression."""
    found: dict[str, list[ir.Expr | None]] = {param.name: [None] for param in kernel.params}
    for node in all_nodes(kernel.body or ()):
        targets = node.targets if isinstance(node, ir.Assign) else ()
        value = node.value if isinstance(node, ir.Assign) and len(targets) == 1 else None
        if isinstance(node, (ir.AugAssign, ir.AssignE, ir.For)):
            targets = (node.target,)
        for target in targets:
            plain = isinstance(target, ir.Name)
            for part in walk(target):
                if isinstance(part, ir.Name):
                    found.setdefault(part.id, []).append(value if plain else None)
    return found
