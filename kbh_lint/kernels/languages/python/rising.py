"""Offsets that rise, in kernels that are written in Python: what is known of two elements by their places alone.

The element of a later place is no less than that of an earlier one. The differences of all neighbours add up to the
last offset less the first, which are known, so a sum of all counts, and the largest of their running sums, is a number.
Places are compared as they are written, where nothing that they are made of changes in between (`Identities`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kbh_lint.base import ir
from kbh_lint.kernels.core.identities import Identities, called, same
from kbh_lint.kernels.core.ranges import Ends, Ranged, Rising, comparison
from kbh_lint.kernels.core.value import Cell, V

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


class Element(NamedTuple):
    """An element of rising offsets that is loaded: from which argument, at which index (a sum of terms and a number),
    and how."""

    cell: Cell
    terms: tuple[ir.Expr, ...]
    number: int
    how: tuple[ir.Expr | None, ...]  # mask, and what stands where it reads nothing


def subtracted(run: Run, known: Identities, node: ir.Binary, made: V) -> V:
    """`made`, the value of a difference. If both operands are elements of rising offsets, it gets the bounds that
    follow from their positions."""
    pair = _apart(run, known, node.left, node.right) if node.op == "-" else None
    if pair is None:
        return made
    later, apart, rising = pair
    most = rising.most(apart)
    total = most if apart == 1 and rising.apart is None and _all(run, known, later, rising) else None
    return Ranged.of(made, (0, most) if apart >= 0 else (-most, 0), None if total is None else ("sum", total))


def compared(run: Run, known: Identities, node: ir.Compare) -> bool | None:
    """The truth of a comparison of two elements of rising offsets, if it is the same for all such offsets; None
    otherwise."""
    pair = _apart(run, known, node.left, node.rights[0]) if len(node.ops) == 1 else None
    if pair is None:
        return None
    _, apart, rising = pair
    most = rising.most(apart)
    ends: Ends = (0, most) if apart >= 0 else (-most, 0)
    return comparison(node.ops[0], ends, (0, 0))


def _apart(run: Run, known: Identities, left: object, right: object) -> tuple[Element, int, Rising] | None:
    """The first of two elements of offsets, how many places it stands behind the second, and what is known of all."""
    one, other = _element(run, known, left), _element(run, known, right)
    if one is None or other is None or one.cell is not other.cell:
        return None
    if not _alike(one.terms, other.terms) or not all(map(_both, one.how, other.how)):
        return None
    return one, one.number - other.number, run.ranges.rising[one.cell.storage]


def _alike(left: tuple[ir.Expr, ...], right: tuple[ir.Expr, ...]) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def _both(left: ir.Expr | None, right: ir.Expr | None) -> bool:
    if isinstance(left, ir.Compare) and isinstance(right, ir.Compare) and left.ops == right.ops:
        return same(left.left, right.left) and _alike(left.rights, right.rights)
    return left is right if left is None or right is None else same(left, right)


def _element(run: Run, known: Identities, node: object) -> Element | None:
    """An expression as an element of offsets that rise and that the kernel does not write."""
    node = known.meant(node)
    while isinstance(node, ir.Call) and called(node) == "to" and isinstance(node.func, ir.Attr):
        node = known.meant(node.func.value)
    if not isinstance(node, ir.Call) or called(node) != "load" or not node.args:
        return None
    given = dict(node.keywords)
    terms, number, cell = _terms(run, node.args[0])
    how = [node.args[at] if len(node.args) > at else given.get(name) for at, name in ((1, "mask"), (2, "other"))]
    return None if cell is None else Element(cell, tuple(terms), number, tuple(how))


def _terms(run: Run, node: ir.Expr) -> tuple[list[ir.Expr], int, Cell | None]:
    """What is added to a pointer to offsets, the numbers among it by their sum, and the memory."""
    terms: list[ir.Expr] = []
    number, cell = 0, None
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, ir.Binary) and part.op == "+":
            stack += [part.right, part.left]
        elif isinstance(part, ir.Binary) and part.op == "-" and (less := _number(run, part.right)) is not None:
            number -= less
            stack.append(part.left)
        elif (more := _number(run, part)) is not None:
            number += more
        elif isinstance(part, ir.Name) and cell is None and (at := _offsets(run, part)) is not None:
            cell = at
        else:
            terms.append(part)
    return terms, number, cell


def _number(run: Run, node: object) -> int | None:
    value = run.frame.env.get(node.id) if isinstance(node, ir.Name) else None
    found = node.value if isinstance(node, ir.Const) else None if value is None else value.const
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _offsets(run: Run, node: ir.Name) -> Cell | None:
    value = run.frame.env.get(node.id)
    cells = list(value.cells) if value is not None else []
    rise = len(cells) == 1 and not cells[0].entries and cells[0].storage in run.ranges.rising
    return cells[0] if rise else None


def _all(run: Run, known: Identities, later: Element, rising: Rising) -> bool:
    """Whether elements are all but the first: places 1, 2, ... of a tile, and nothing where there are no more."""
    place = known.meant(later.terms[0]) if len(later.terms) == 1 else None
    if later.number != 1 or not isinstance(place, ir.Call) or called(place) != "arange" or len(place.args) != 2:
        return False
    first, end = (_number(run, arg) for arg in place.args)
    mask, other = later.how
    if first != 0 or end is None:
        return False
    if mask is None:
        return end == rising.count - 1
    mask = known.meant(mask)
    if not isinstance(mask, ir.Compare) or mask.ops != ("<",) or not same(mask.left, later.terms[0]):
        return False
    bound = _number(run, mask.rights[0])
    return end >= rising.count - 1 == bound and other is not None and _number(run, other) == 0
