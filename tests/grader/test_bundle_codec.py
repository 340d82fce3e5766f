"""Cells and trials survive being written, and nothing that is not one is read as one."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored import h200

from grader.record.bundle import (
    CodecError,
    cell_from_json,
    cell_to_json,
    from_json,
    to_json,
    trial_from_json,
    trial_to_json,
)
from grader.record.bundle.codec import _decode, _fields, _quick
from grader.record.cell import (
    CaseOutcome,
    Cell,
    SandboxRecord,
    SealedBatch,
    ShapeResult,
    ShapeTiming,
    TargetRecord,
    TrialResult,
    VerdictRecord,
)

NUMBERS = st.floats(allow_nan=False)


def made(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a type of grader.record.cell."""
    origin, arguments = getattr(hint, "__origin__", None), getattr(hint, "__args__", ())
    if dataclasses.is_dataclass(hint):
        return st.fixed_dictionaries({n: made(h) for n, h in _fields(hint).items()}).map(lambda d: hint(**d))
    if hint is float:
        return NUMBERS
    if hint is str:
        return st.text(max_size=6)
    if hint in (int, bool):
        return st.integers(-(2**60), 2**60) if hint is int else st.booleans()
    if origin is tuple:
        return st.lists(made(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping or getattr(origin, "__name__", "") == "Mapping":
        return st.dictionaries(st.text(max_size=4), made(arguments[1]), max_size=2)
    if type(None) in arguments:
        return st.none() | made(next(a for a in arguments if a is not type(None)))
    return st.sampled_from(arguments)


def cells() -> st.SearchStrategy[Cell]:
    fields = {name: made(hint) for name, hint in _fields(Cell).items()}
    drawn = st.fixed_dictionaries({**fields, "format": st.just(1)})
    return drawn.map(allowed)


def allowed(values: dict[str, Any]) -> Cell:
    """A cell that does not contradict itself."""
    if values["outcome"] == "accepted":
        values["verdict"] = dataclasses.replace(values["verdict"], accepted=True)
    if values["outcome"] not in ("accepted", "flagged"):
        values["scores"], values["baselines"] = None, ()
    if values["outcome"] not in ("accepted", "flagged", "wrong"):
        values["shapes"] = ()
    return Cell(**values)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(cells())
def test_a_cell_comes_back_from_json_as_it_was(cell: Cell) -> None:
    written = json.dumps(cell_to_json(cell), allow_nan=False)
    assert cell_from_json(json.loads(written)) == cell


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(made(TrialResult))
def test_a_trial_comes_back_from_json_as_it_was(trial: TrialResult) -> None:
    written = json.dumps(trial_to_json(trial), allow_nan=False)
    assert trial_from_json(json.loads(written)) == trial


@given(st.recursive(st.none() | st.booleans() | NUMBERS | st.text(max_size=5), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["format", "trials", "index"]), x), max_leaves=8))  # fmt: skip
def test_what_is_no_cell_is_refused_in_one_sentence(data: object) -> None:
    for read in (cell_from_json, trial_from_json):
        with pytest.raises(CodecError) as caught:
            read(data)
        assert "\n" not in str(caught.value)


def trial() -> dict[str, Any]:
    """A small trial as JSON."""
    timing = ShapeTiming((0.1,), (0.2,), (SealedBatch(3, 0.5, 0.0),), 0.0)
    shape = ShapeResult("M=1", "right", "", 1, 1, (CaseOutcome("c", True, math.inf, None),), timing)
    sandbox = SandboxRecord("plain", 0, False)
    return trial_to_json(TrialResult(0, "ab", "cd", "right", "", (shape,), sandbox, 1.0))


def test_a_field_that_came_later_may_be_missing_in_an_older_bundle_and_no_other() -> None:
    data, older = trial(), trial()
    for at in (older["shapes"][0]["cases"][0], older["shapes"][0]["timing"]):
        for name in ("rows", "of_rows", "ungated"):
            at.pop(name, None)
    assert older != data and trial_from_json(older) == trial_from_json(data)
    older["shapes"][0]["timing"].pop("notes")
    with pytest.raises(CodecError, match="lacks field 'notes'"):
        trial_from_json(older)


def test_infinity_is_a_word_and_a_whole_number_will_do_for_a_time() -> None:
    data = trial()
    assert data["shapes"][0]["cases"][0]["error"] == "inf"
    data["shapes"][0]["timing"]["sealed"][0]["overhead"] = 0
    read = trial_from_json(data)
    assert read.shapes[0].cases[0].error == math.inf
    assert read.shapes[0].timing is not None and read.shapes[0].timing.sealed[0].overhead == 0.0


def drop(place: dict[str, Any], name: str) -> None:
    del place[name]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.update(extra=1), "has an unknown field 'extra'"),
        (lambda t: drop(t, "log"), "lacks field 'log'"),
        (lambda t: drop(t["shapes"][0], "timing"), "shapes[0] lacks field 'timing'"),
        (lambda t: t.update(index=True), "index is a bool, not a whole number"),
        (lambda t: t.update(index=1.0), "index is a float, not a whole number"),
        (lambda t: t.update(seconds="1"), "seconds is '1', not a number"),
        (lambda t: t.update(seconds=math.nan), "seconds is not a number (NaN)"),
        (lambda t: t.update(seconds=10**400), "seconds is a int, not a number"),
        (lambda t: t.update(seconds=False), "seconds is a bool, not a number"),
        (lambda t: t.update(status="great"), "status is 'great', not 'right' or 'wrong' or 'refused'"),
        (lambda t: t.update(status=["right"]), "status is a list"),
        (lambda t: t.update(shapes={}), "shapes is a dict, not a list"),
        (lambda t: t["shapes"].append(None), "shapes[1] is a NoneType"),
        (lambda t: t["shapes"][0]["cases"][0].update(ok=1), "shapes[0].cases[0].ok is a int, not true or false"),
        (lambda t: t["shapes"][0]["timing"]["sealed"][0].update(rounds=None), "timing.sealed[0].rounds is a NoneType"),
    ],
)
def test_a_fault_is_named_with_its_place(change: Callable[[dict[str, Any]], None], says: str) -> None:
    data = trial()
    change(data)
    with pytest.raises(CodecError) as caught:
        trial_from_json(data)
    assert says in str(caught.value)


def cell() -> Cell:
    verdict = VerdictRecord("clean", True, "", (), (), None, "1")
    target = TargetRecord("cpu", "a CPU", "cpu", "measured", 1.0, 2.0, "reduced")
    return Cell("toy", "ab", "solution.py", target, True, "2026-11", "accepted", "", verdict)


def test_a_score_with_an_outcome_that_allows_none_is_refused_when_it_is_read() -> None:
    data = cell_to_json(cell())
    data["scores"] = dict.fromkeys(
        ("peak_fraction", "roofline_fraction", "attainable_fraction", "peak_fraction_2026_04"), 0.5
    )
    assert cell_from_json(copy.deepcopy(data)).scores is not None
    data["outcome"] = "withheld"
    with pytest.raises(CodecError, match="a cell that is withheld has no score"):
        cell_from_json(data)


@dataclasses.dataclass(frozen=True)
class Part:
    """A dataclass of another module's own."""

    layers: Mapping[str, Mapping[str, Literal["kept", "broken"]]]
    rows: tuple[tuple[float, ...], ...]
    note: str | None = None

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("a part has rows")


def test_any_frozen_dataclass_of_these_types_can_be_kept() -> None:
    part = Part({"run": {"fp8": "kept"}}, ((1.0, math.inf), ()))
    assert to_json(part, Part) == {"layers": {"run": {"fp8": "kept"}}, "rows": [[1.0, "inf"], []], "note": None}
    assert from_json(to_json(part, Part), Part) == part
    with pytest.raises(CodecError, match="layers.run.fp8 is 'x', not 'kept' or 'broken'"):
        from_json({"layers": {"run": {"fp8": "x"}}, "rows": [[]], "note": None}, Part)
    with pytest.raises(CodecError, match="a part has rows"):
        from_json({"layers": {}, "rows": [], "note": None}, Part)


def test_a_cell_of_another_format_is_named_as_one() -> None:
    with pytest.raises(CodecError, match="not of format 1"):
        cell_from_json({**cell_to_json(cell()), "format": 2})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seconds": math.nan}, "seconds is not a number"),
        ({"shapes": []}, "shapes is a list"),
        ({"index": "0"}, "index is '0'"),
        ({"sandbox": None}, "sandbox is a NoneType"),
        ({"sandbox": SandboxRecord("chroot", 0, False)}, "sandbox.kind is 'chroot'"),  # type: ignore[arg-type]
    ],
)
def test_what_could_not_be_read_back_is_not_written(change: dict[str, Any], says: str) -> None:
    with pytest.raises(CodecError) as caught:
        trial_to_json(dataclasses.replace(trial_from_json(trial()), **change))
    assert says in str(caught.value)


def test_the_quick_way_and_the_careful_one_agree_on_bundles_of_the_h200() -> None:
    folders = sorted(h200().glob("0[15]_*"))
    cells = [json.loads(sorted((folder / "entries").iterdir())[-1].read_bytes())["data"] for folder in folders]
    assert len(cells) > 15
    for data in cells:
        assert _quick(Cell)(data) == _decode(data, Cell, "") == cell_from_json(data)
