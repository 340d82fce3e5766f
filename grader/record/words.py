"""Words and numbers that the text report and the page share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from grader.record.cell import Cell, ShapeResult, ShapeScore
from kbh_lint.report.text import one_line

if TYPE_CHECKING:
    from grader.silicon import Silicon

__all__ = [
    "STATES", "aligned", "baseline_lines", "baseline_rows", "fraction", "in_order", "launch", "notes_of", "numbers",
    "rows_of", "score_lines", "seconds", "shape_rows", "short", "silicon_rows", "spread", "standing", "times",
]  # fmt: skip

LAYERS = ("source", "ptx", "sass", "counters", "run")

STATES = {"kept": "kept", "kept-by-precision": "kept by precision", "emulated": "emulated", "broken": "BROKEN",
          "unproven": "unproven"}  # fmt: skip


def seconds(value: float | None) -> str:
    """A time with three digits and its unit; `-` for none."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "infinite"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e9:.0f} ns"


def fraction(value: float | None) -> str:
    """A share of a peak or a floor; `-` for none."""
    return "-" if value is None else f"{value:.3g}" if value < 0.01 or value >= 1000 else f"{value:.3f}"


def spread(score: ShapeScore) -> str:
    """What repeats of the grading would vary by, as a share of the time; `-` where too few samples tell."""
    return f"{score.spread:.1%}" if score.spread > 0 else "-"


def launch(score: ShapeScore) -> str:
    """What the host adds to a call for which the device waits; `-` where nobody looked."""
    return "-" if score.launch is None else f"+{seconds(score.launch)}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of as many columns as lines."""
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def in_order(layers: Iterable[str]) -> list[str]:
    """Layers of evidence from what is read to what is run."""
    return sorted(layers, key=lambda layer: (LAYERS.index(layer) if layer in LAYERS else len(LAYERS), layer))


def notes_of(cell: Cell) -> Iterator[str]:
    """What is to be known about the times, each note once with the shapes that it is about."""
    about: dict[str, list[str]] = {}
    for score in cell.shapes:
        for note in score.notes:
            about.setdefault(note, []).append(score.shape)
    for note, labels in about.items():
        yield note if len(labels) == len(cell.shapes) else f"{note} ({', '.join(labels)})"


def rows_of(results: Iterable[ShapeResult]) -> str:
    """How many compared calls were compared on rows only, and on how many; empty where all were compared whole."""
    parts = [case for result in results for case in result.cases if case.rows and case.of_rows]
    if not parts:
        return ""
    least = min(parts, key=lambda case: case.rows / case.of_rows)
    return f"{len(parts)} of them on drawn rows, at least {least.rows:,} of {least.of_rows:,}"


def standing(cell: Cell) -> str:
    """What stands beside every number of a cell: its outcome and its verdict."""
    mode = ", --strict" if cell.strict else ""
    return f"{cell.outcome}{mode}, verdict {cell.verdict.verdict}"


def numbers(cell: Cell) -> Iterator[tuple[str, str]]:
    """The scores of a cell and what each is a share of; none where the cell has none."""
    if cell.scores is None:
        return
    peak = "of this machine's measured peak" if cell.target.peaks == "measured" else "of the datasheet's peak"
    named = (
        ("peak_fraction", peak, cell.scores.peak_fraction),
        ("peak_fraction_2026_04", "by the published formulas and peaks", cell.scores.peak_fraction_2026_04),
        ("roofline_fraction", "of the roofline", cell.scores.roofline_fraction),
        ("attainable_fraction", "of the roofline with an empty call on top", cell.scores.attainable_fraction),
    )
    for name, meaning, value in named:
        if value is not None:
            yield name, f"{fraction(value)} {meaning}" + (", unstable" if cell.unstable else "")


def score_lines(cell: Cell) -> Iterator[tuple[str, str]]:
    """The scores of a cell by name, each with the verdict behind it."""
    for name, text in numbers(cell):
        yield name, f"{text} ({standing(cell)})"


def short(cell: Cell) -> str:
    """A cell in one line."""
    score = next((f"{name} {text}" for name, text in numbers(cell)), "no score")
    label = f"; {cell.target.label}" if cell.target.label else ""
    return f"{one_line(cell.file)}: {standing(cell)}: {score}{label}"


def times(speedup: float | None) -> str:
    """How many times as fast, with three digits; `-` where there is nothing to compare."""
    return "-" if speedup is None else f"{speedup:.3g} times"


def baseline_rows(cell: Cell) -> Iterator[tuple[str, ...]]:
    """What each shape takes the baselines, and how many times as fast the submission is, under a heading."""
    timed = [one for one in cell.baselines if one.times]
    if not timed:
        return
    known = {(one.name, time.shape): time for one in timed for time in one.times}
    yield ("shape", *(column for one in timed for column in (one.name, f"over {one.name}")))
    for label in dict.fromkeys(shape for _, shape in known):
        row = [label]
        for one in timed:
            time = known.get((one.name, label))
            weak = " (claimed)" if time is not None and time.clock == "weak" else ""
            row += ["-", "-"] if time is None else [seconds(time.seconds) + weak, times(time.speedup)]
        yield tuple(row)


def baseline_lines(cell: Cell) -> Iterator[tuple[str, str]]:
    """Each baseline by name, with what it calls and how the submission compares, or what is wrong with it."""
    for one in cell.baselines:
        if one.status != "right":
            yield one.name, f"{one.status}: {one.message} ({one.what})"
        elif one.speedup is None:
            yield one.name, f"no comparison over all shapes ({one.what})"
        else:
            yield one.name, f"{times(one.speedup)} as fast by the geometric mean ({one.what})"


def silicon_rows(silicon: Silicon) -> Iterator[tuple[str, ...]]:
    """What profilers saw of one call of each shape, under a heading; every row has as many columns."""
    yield ("shape", "kernels", "launches", "time", "traced", "library", "tensor operations", "read")
    for shape in silicon.shapes:
        executed = ", ".join(
            f"{kind} {count / shape.needed:.2f}" if shape.needed > 0 else f"{kind} {count:.3g}"
            for kind, count in sorted(shape.tensor.items(), key=lambda item: -item[1])
            if count > 0
        )
        read = f"{shape.read / shape.compulsory:.2f}" if shape.compulsory > 0 else f"{shape.read:.3g} B"
        yield (
            shape.shape, str(len(shape.kernels)), str(sum(row.launches for row in shape.kernels)),
            seconds(shape.seconds), seconds(shape.busy or None), f"{shape.library:.0%}", executed or "none", read,
        )  # fmt: skip


def shape_rows(cell: Cell) -> Iterator[tuple[str, ShapeResult | None, ShapeScore | None]]:
    """Every shape with its result in the worst trial and its score, where there are any."""
    scores = {score.shape: score for score in cell.shapes}
    order = ("right", "not-run", "timeout", "crashed", "wrong")
    worst: dict[str, ShapeResult] = {}
    for trial in cell.trials:
        for result in trial.shapes:
            known = worst.get(result.shape)
            if known is None or order.index(result.status) > order.index(known.status):
                worst[result.shape] = result
    for label in {**worst, **scores}:
        yield label, worst.get(label), scores.get(label)
