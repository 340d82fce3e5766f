"""Seeds: one a path, all from one secret."""

from hypothesis import given
from hypothesis import strategies as st

from grader.deck.keys import derive, new_master

MASTER = bytes(range(32))
PATHS = st.lists(st.one_of(st.text(max_size=6), st.integers(0, 99)), max_size=4)


@given(PATHS, PATHS)
def test_two_paths_share_a_seed_only_when_they_are_the_same(one: list[str | int], other: list[str | int]) -> None:
    assert (derive(MASTER, *one) == derive(MASTER, *other)) == (one == other)


def test_a_part_cannot_be_moved_into_its_neighbour_or_changed_in_type() -> None:
    seeds = {derive(MASTER, *path) for path in (("ab", "c"), ("a", "bc"), ("abc",), (1, "2"), ("1", 2), (12,), ("12",))}
    assert len(seeds) == 7


def test_a_seed_fits_a_generator_and_never_changes_with_the_version_of_the_code() -> None:
    assert derive(MASTER, "01_fp8_gemm", "nominal", 0) == 8999996837472804601
    assert all(0 <= derive(new_master(), "x") < 2**63 for _ in range(50))


def test_masters_are_32_bytes_and_differ() -> None:
    assert len({new_master() for _ in range(20)}) == 20
    assert len(new_master()) == 32
