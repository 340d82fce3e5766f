"""What the counters' raw report says again: of a stored H200 bundle, and as a process that rehearsed writes it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from stored import older

from grader.record.bundle import Bundle
from grader.report.view import load_view
from grader.silicon import Silicon
from grader.silicon.shape_evidence import recounted
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_deck

MARK = re.compile(r"kbh/(\d+)/3")
Stored = tuple[Problem, Silicon, str]


@pytest.fixture(scope="module")
def stored() -> Stored:
    """A bundle of an earlier version with several shapes that were counted."""
    (folder,) = older().glob("01_fp8_gemm-narrow_tiles-*")
    view = load_view(folder)
    assert view.silicon is not None and view.silicon.counts is not None and len(view.silicon.shapes) > 2
    raw = Bundle.open(folder).get(view.silicon.counts).decode()
    return load_deck(paths.problems_dir())[view.cell.problem], view.silicon, raw


def rehearsed(silicon: Silicon, raw: str) -> tuple[Silicon, str]:
    """The same as it is written where each model was made once before: the first shape's was marked then, too."""
    count = len(silicon.shapes)
    lines = raw.splitlines(keepends=True)
    again = [MARK.sub(lambda found: f"kbh/{int(found[1]) + count}/3", line) for line in lines]
    first = [line for line in lines if "kbh/1/3" in line]
    place = next(number for number, line in enumerate(again) if MARK.search(line))
    shapes = tuple(replace(shape, model=place + count) for place, shape in enumerate(silicon.shapes, 1))
    return replace(silicon, shapes=shapes), "".join([*again[:place], *first, *again[place:]])


def test_an_older_bundle_s_shapes_are_numbered_by_their_places(stored: Stored) -> None:
    problem, silicon, raw = stored
    assert all(shape.model == 0 for shape in silicon.shapes)
    assert recounted(problem, silicon, raw) == []


def test_models_of_a_rehearsal_are_not_those_that_were_counted(stored: Stored) -> None:
    problem, once, text = stored
    silicon, raw = rehearsed(once, text)
    assert recounted(problem, silicon, raw) == []
    other = replace(silicon.shapes[1], model=silicon.shapes[2].model)
    wrong = replace(silicon, shapes=(silicon.shapes[0], other, *silicon.shapes[2:]))
    assert recounted(problem, wrong, raw) == [f"the record of {other.shape} is not what its raw report says"]


def test_a_count_that_the_report_does_not_have_is_told(stored: Stored) -> None:
    problem, silicon, raw = stored
    more = replace(silicon.shapes[0], read=silicon.shapes[0].read + 1)
    changed = replace(silicon, shapes=(more, *silicon.shapes[1:]))
    assert recounted(problem, changed, raw) == [f"the record of {more.shape} is not what its raw report says"]
