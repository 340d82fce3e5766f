"""Places that loops step over: what the loads of a launch leave out of a tensor, again and again.

A loop goes from tile to tile. Where a step is longer than what an iteration reads, other programs may read what lies
between, or nobody does. Tensors are looked at through the factors in addresses: of all places, those that leave the
same remainder behind rows of so many elements are one. All iterations of all programs are put together on numbers, and
what is read is never taken for less than it can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbh_lint.base import ir, values
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.extents.follow import NOT_FOLLOWED
from kbh_lint.kernels.extents.functions import can_be_followed
from kbh_lint.kernels.extents.intervals import Linear, highest, lowest
from kbh_lint.kernels.extents.reads import Reads
from kbh_lint.kernels.extents.residues import Residues, ones, turned
from kbh_lint.kernels.extents.values import Dims, Place

MAX_PLACES = 1 << 16  # remainders that are told apart
MAX_LOADS = 64  # of one storage
LEFT_OUT = 8  # less than one part in so many is no claim
_LOOPS = (ir.For, ir.CFor, ir.While)


def stepped_over(
    kernel: values.Func,
    args: Mapping[str, object],
    dims: tuple[Dims, Dims],
    known: Mapping[int, int],
    sizes: Mapping[int, int],
) -> dict[int, ir.Loc]:
    """The storages of which some elements between others are read by no program, with a loop that steps over them.

    `dims` are those of grid and block, `known` storages all of whose elements hold one number, and `sizes` says how
    many elements there are in those that are asked about.
    """
    body = kernel.node.body or ()
    if kernel.language or not can_be_followed(body) or not _loops(body):
        return {}
    with Reads(kernel, args, *dims, {at: (number, number) for at, number in known.items()}) as follow:
        try:
            follow.run()
        except NOT_FOLLOWED:
            return {}
        return gaps(follow, sizes)


def gaps(follow: Reads, sizes: Mapping[int, int]) -> dict[int, ir.Loc]:
    """The same of a walk that has come to its end."""
    found: dict[int, ir.Loc] = {}
    if follow.frame.kernel.language or not _loops(follow.frame.kernel.node.body or ()):
        return found
    for storage, size in sizes.items():
        places = follow.places.get(storage, ())
        loc = None if storage in follow.lost or len(places) > MAX_LOADS else _over(follow, places, size)
        if loc is not None:
            found[storage] = loc
    return found


@by_node
def _loops(body: tuple[ir.Stmt, ...]) -> bool:
    return any(isinstance(node, _LOOPS) for node in walk(body))


def _over(follow: Reads, places: Sequence[Place], size: int) -> ir.Loc | None:
    """A loop that steps over a part of a storage; None where none is seen."""
    asked = Residues(follow.atoms)
    bases = [atom for place in places for atom in sorted(asked.bases(place.offset))]
    loops = [follow.turns[atom] for atom in bases if atom in follow.turns]
    if not loops:
        return None
    factors = {1, size, *(abs(factor) for place in places for _, factor in place.offset.terms)}
    lengths = sorted(factor for factor in factors if size % factor == 0)
    for unit in lengths:
        for row in lengths:
            if row > unit and row % unit == 0 and row // unit <= MAX_PLACES:
                if _has_hole(asked, places, unit, row, row < size):
                    return loops[0].loc
    return None


def _has_hole(asked: Residues, places: Sequence[Place], unit: int, row: int, again: bool) -> bool:
    """Whether there are parts of `unit` elements in rows of so many elements of which none is ever read: between others
    that are, which where there are rows `again` all of them are."""
    modulus = row // unit
    whole, seen = (1 << modulus) - 1, 0
    for place in places:
        along = [term for term in place.offset.terms if term[1] % row]
        within = Linear(place.offset.const % unit, tuple(term for term in along if term[1] % unit))
        low, high = lowest(asked.atoms, within, place.limits), highest(asked.atoms, within, place.limits)
        if low is None or high is None or high // unit - low // unit + 1 >= modulus:
            return False
        over = Linear(place.offset.const // unit, tuple((atom, f // unit) for atom, f in along if f % unit == 0))
        if asked.plainly_all(over, high // unit - low // unit + 1, modulus, place.limits):
            return False
        seen |= turned(
            asked.remainders(over, modulus, place.limits),
            {carry % modulus for carry in range(low // unit, high // unit + 1)},
            modulus,
        )
        if seen == whole:
            return False
    met = ones(seen)
    width = 0 if not met else modulus if again else met[-1] - met[0] + 1
    return (width - len(met)) * LEFT_OUT >= width > 0
