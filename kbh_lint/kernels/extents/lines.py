"""Sums of numbers that are not known, worked out on many lines of what these may be."""

from __future__ import annotations

from collections.abc import Sequence

from kbh_lint.kernels.extents.intervals import Atoms, Linear


def columns(atoms: list[int], lines: Sequence[tuple[int, ...]]) -> dict[int, list[int]]:
    """The values of each atom in all `lines`, where a line has one number for each of `atoms`."""
    return {atom: [line[at] for line in lines] for at, atom in enumerate(atoms)}


def worked_out(atoms: Atoms, value: Linear, held: dict[int, list[int]], size: int) -> list[int] | None:
    """The value of a sum in each of `size` lines; None where an atom is unknown. `held` has the values of atoms, and
    takes those of operations that are computed here."""
    total = [value.const] * size
    for atom, factor in value.terms if size else ():
        made = atoms.made.get(atom)
        if atom not in held and made is not None:
            a, b = (worked_out(atoms, part, held, size) for part in made[1:])
            found = None if a is None or b is None else _applied(made[0], a, b)
            if found is not None:
                held[atom] = found
        if atom not in held:
            return None
        total = [old + factor * number for old, number in zip(total, held[atom], strict=True)]
    return total


def _applied(op: str, left: list[int], right: list[int]) -> list[int] | None:
    """`op` on each line; None where a number is not one of those that languages agree on."""
    if op in ("//", "%") and (min(right) <= 0 or min(left) < 0):
        return None
    pairs = zip(left, right, strict=True)
    match op:
        case "*":
            return [a * b for a, b in pairs]
        case "//":
            return [a // b for a, b in pairs]
        case "%":
            return [a % b for a, b in pairs]
        case "min":
            return [min(a, b) for a, b in pairs]
        case "max":
            return [max(a, b) for a, b in pairs]
        case "<=":
            return [int(a <= b) for a, b in pairs]
        case "&":
            return [a & b for a, b in pairs]
    return None
