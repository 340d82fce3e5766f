"""Cutting bundles, for any text."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbh_lint.source.sidecars import MAX_COUNT, split_bundle

LINES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=30)
BODIES = st.lists(LINES, max_size=6)
NAMES = st.sampled_from(["f.cu", "csrc/g.cuh", "h.ptx", "tool.py", "a b.cu"])


@given(BODIES, st.lists(st.tuples(NAMES, BODIES), max_size=5))
def test_every_part_of_a_bundle_stands_at_the_lines_it_says(main: list[str], cars: list[tuple[str, list[str]]]) -> None:
    rows = ["import torch  # (", "def broken(", *main]
    for name, body in cars:
        rows += [f"# ===== sidecar: {name} (1 bytes, loaded by solution.py) =====", *body]
    text = "\n".join(rows)
    solution, sidecars, _ = split_bundle(text, "x.py")
    assert text.startswith(solution)
    assert set(sidecars) == {name for name, _ in cars}
    file = text.split("\n")
    for car in sidecars.values():
        own = car.text.removesuffix("\n").split("\n") if car.text else []
        assert file[car.first_line - 1 : car.first_line - 1 + len(own)] == own


@given(st.text())
def test_a_text_without_markers_is_one_file(text: str) -> None:
    assert split_bundle(text, "x.py") == (text, {}, [])


def test_the_number_of_sidecars_is_bounded() -> None:
    marker = "# ===== sidecar: f{}.cu (3 bytes, loaded by solution.py) =====\nint\n"
    text = "x = (\n" + "".join(marker.format(i) for i in range(200))
    _, sidecars, notes = split_bundle(text, "x.py")
    assert len(sidecars) == MAX_COUNT
    assert any("more than" in note for note in notes)


def test_a_marker_with_nothing_before_it_does_not_make_an_empty_solution() -> None:
    text = "# ===== sidecar: f.cu (3 bytes, loaded by solution.py) =====\nint\n"
    solution, sidecars, notes = split_bundle(text, "x.py")
    assert (solution, sidecars) == (text, {})
    assert len(notes) == 1


MODULES = "import torch\nfrom kernels import gemm\nFAST = False\n\n\nclass Model:\n    pass\n"
MARK = "# ===== sidecar: {} (9 bytes, loaded by solution.py) =====\n"


@pytest.mark.parametrize(
    ("name", "body", "split"),
    [
        ("kernels.py", "import torch\n\n\ndef gemm(FAST):\n    return FAST\n", True),
        ("kernels.py", "from __future__ import annotations\n", True),
        ("kernels.py", "class Model:\n    pass\n", False),
        ("kernels.py", "Model.forward = None\n", False),
        ("kernels.py", "def gemm():\n    global FAST\n    FAST = True\n\n\ngemm()\n", False),
        ("helper.py", "SIZE = 1\n", False),
        ("kernels.cu", "SIZE = 1\n", False),
    ],
)
def test_blocks_of_a_text_that_is_python_to_its_end_are_split_off_only_if_they_are_modules(
    name: str, body: str, split: bool
) -> None:
    text = MODULES + MARK.format(name) + body
    solution, sidecars, notes = split_bundle(text, "x.py")
    assert (solution, set(sidecars)) == ((MODULES, {name}) if split else (text, set()))
    assert bool(notes) is not split


@pytest.mark.parametrize("again", ["\n# ===== sidecar: a (1 bytes", " (1 bytes"])
def test_markers_that_never_end_take_no_longer_than_their_text(again: str) -> None:
    text = "x = 1\n# ===== sidecar: a (1 bytes" + again * (200_000 // len(again)) + "\n"
    start = time.process_time()
    assert split_bundle(text, "x.py") == (text, {}, [])
    assert time.process_time() - start < 2
