"""How large whole numbers of a kernel can be: sums of terms, under conditions."""

from __future__ import annotations

import pytest

from kbh_lint.kernels.extents.intervals import Atoms, Linear, add, highest, limited, lowest, scaled


def bounds(atoms: Atoms, value: Linear) -> tuple[int | None, int | None]:
    return lowest(atoms, value, {}), highest(atoms, value, {})


def test_a_sum_lies_between_the_sums_of_the_ends() -> None:
    atoms = Atoms()
    block, lane = atoms.between(0, 7), atoms.between(0, 31)
    assert bounds(atoms, add(scaled(block, 32), lane)) == (0, 255)
    assert bounds(atoms, add(block, lane, -1)) == (-31, 7)


def test_what_is_subtracted_from_itself_is_nothing() -> None:
    atoms = Atoms()
    lane = atoms.between(0, 31)
    assert add(lane, lane, -1) == Linear(0)


def test_an_open_end_leaves_the_sum_open_at_that_end() -> None:
    atoms = Atoms()
    assert bounds(atoms, add(atoms.between(0, None), Linear(5))) == (5, None)


@pytest.mark.parametrize(
    ("op", "by", "found"),
    [("//", 4, (0, 7)), ("%", 4, (0, 3)), ("*", 4, (0, 124)), (">>", 2, (0, 7)), ("<<", 2, (0, 124)), ("&", 7, (0, 7)),
     ("min", 9, (0, 9)), ("max", 9, (9, 31))],
)  # fmt: skip
def test_operations_of_a_number_and_a_constant(op: str, by: int, found: tuple[int, int]) -> None:
    atoms = Atoms()
    assert bounds(atoms, atoms.apply(op, atoms.between(0, 31), Linear(by))) == found


def test_the_same_operation_is_the_same_number() -> None:
    atoms = Atoms()
    lane = atoms.between(0, 31)
    one, other = (atoms.apply("%", lane, Linear(4)) for _ in range(2))
    assert add(one, other, -1) == Linear(0)


def test_a_division_of_what_may_be_negative_is_not_known() -> None:
    atoms = Atoms()
    assert bounds(atoms, atoms.apply("//", atoms.between(-1, 31), Linear(4))) == (None, None)


def test_a_condition_bounds_the_sums_that_it_speaks_of() -> None:
    atoms = Atoms()
    row, rows = atoms.between(0, 255), atoms.between(0, 100)
    below = limited({}, row, Linear(100), room=1)  # row <= 100 - 1
    assert (highest(atoms, row, {}), highest(atoms, row, below)) == (255, 99)
    assert highest(atoms, scaled(row, 2), below) == 198
    inside = limited({}, row, rows, room=1)  # row <= rows - 1
    assert highest(atoms, add(row, rows, -1), inside) == -1
