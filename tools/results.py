"""Writes a page of results from the bundles in a folder; with --check works all of it out again and compares.

Every number on the page comes from a bundle: nothing is typed by hand. A bundle whose chain is broken, whose scores do
not follow from its samples or whose counts are not those of the raw report of the profiler is named, and no page is
written. Checking needs the deck and torch (for the deck's types), and no GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from grader.record.bundle import Bundle, BundleError, CodecError, verify
from grader.record.bundle.packed import SUFFIX, pack, unpacked
from grader.record.cell import Cell, PromiseRecord, ShapeScore, ShapeTiming
from grader.record.words import fraction, in_order, seconds, spread
from grader.report.view import Unfinished, View, load_view
from grader.silicon import ShapeEvidence
from grader.silicon.shown import code_rows, executed, instructions, remarks
from harness.contamination.canaries import canary_line
from kbh_lint.base import paths
from kbh_lint.problems import Deck, Problem, ProblemError, load_deck

COMMAND = "make results"
STRIP = 40
STRIP_MARKS = " .:+*#@"
ORDER = ("honest", "decoys", "")
SILICON = ("sass", "counters")
_TEXT = re.compile(r"[|\n\r`]")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns 0, 1 where the page is out of date, or 2 for bundles that do not hold."""
    parser = argparse.ArgumentParser(description="Write a page of results from the bundles in a folder.")
    parser.add_argument(
        "bundles", type=Path, help=f"a folder with one bundle a graded submission, or one packed *{SUFFIX}"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page")
    parser.add_argument("--check", action="store_true", help="only compare the page with what the bundles give")
    parser.add_argument(
        "--pack", type=Path, metavar="ARCHIVE", help="then put the bundles of the folder into an archive"
    )
    args = parser.parse_args(argv)
    try:
        with unpacked(args.bundles) as place:
            code = _page_of(place, args.output, args.check)
            if args.pack is not None and not code:
                pack(place, args.pack)
    except BundleError as error:
        print(error, file=sys.stderr)
        return 2
    return code


def _page_of(place: Path, output: Path, check: bool) -> int:
    """Writes the page of the bundles in a folder, or compares it with the one that is there."""
    folders = sorted(path.parent.parent for path in place.glob("*/entries/000001.json"))
    if not folders:
        print(f"{place} holds no bundle", file=sys.stderr)
        return 2
    deck = load_deck(paths.problems_dir())
    faults = [f"{folder.name}: {fault}" for folder in folders for fault in faults_of(folder, deck)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 2
    text = page([load_view(folder) for folder in folders], deck)
    if not check:
        output.write_text(text, encoding="utf-8")
        return 0
    if not output.is_file() or output.read_text(encoding="utf-8") != text:
        print(f"{output} is not what the bundles give; run `{COMMAND}`", file=sys.stderr)
        return 1
    print(f"{len(folders)} bundles hold, and {output} is what they give")
    return 0


def faults_of(folder: Path, deck: Deck) -> list[str]:
    """Everything in a bundle that does not follow from what it holds."""
    found = verify(folder)
    if found:
        return found
    try:
        view = load_view(folder)
    except (BundleError, CodecError, Unfinished) as error:
        return [str(error)]
    if view.silicon is None or not view.silicon.counts:
        return []
    from grader.silicon.ncu import ProfilerError
    from grader.silicon.shape_evidence import recounted

    try:
        raw = Bundle.open(folder).get(view.silicon.counts).decode("utf-8", "replace")
        return recounted(deck[view.cell.problem], view.silicon, raw)
    except (BundleError, KeyError, ProblemError, ProfilerError) as error:
        return [f"its counts cannot be worked out again: {error}"]


def page(views: Sequence[View], deck: Deck) -> str:
    """The whole page in Markdown."""
    ordered = sorted(views, key=lambda view: (ORDER.index(_kind(view.cell)), view.cell.problem, view.cell.file))
    blocks = [_head(ordered), _table([v for v in ordered if v.cell.shapes], "Graded", _scored_row, SCORED_HEAD)]
    blocks.append(_table([v for v in ordered if not v.cell.shapes], "Without a number", _other_row, OTHER_HEAD))
    blocks.append(_settled(ordered, deck))
    blocks += [_decided(ordered, problem) for problem in (deck[name] for name in deck.ids)]
    blocks += [_one(view, deck) for view in ordered if view.cell.shapes]
    return "\n\n".join("\n".join(lines) for lines in map(list, blocks) if lines) + "\n"


def _kind(cell: Cell) -> str:
    """Whether the deck calls it honest or a decoy: by its folder."""
    return next((part for part in Path(cell.file).parts if part in ORDER), "")


def _head(views: Sequence[View]) -> Iterator[str]:
    yield "# Results"
    yield ""
    yield f"<!-- {canary_line('results')} -->"
    yield ""
    yield f"Written by `{COMMAND}` from {len(views)} bundles; `make verify-results` works every number out again from"
    yield "their samples and from the raw reports of the profiler, and checks their chains. Do not edit."
    yield ""
    yield "Scored times are the larger of the submission's own events (a claim) and the sealed batches on the judge's"
    yield "clock (a proof); counts of the hardware are claims that were taken beside outputs equal to the timed ones."
    yield "docs/grading.md says what each of them is worth. The goals of problems/goals.yaml do not hold for this page:"
    yield "they are for `kbh problems verify`, which takes the median event time of 30 calls. Its shares are higher."
    yield ""
    machines = sorted({(view.cell.target.product, view.cell.target.peaks) for view in views})
    yield from (f"- Target: {_plain(product)}, {peaks} peaks" for product, peaks in machines)
    versions = sorted({_version(*item) for view in views for item in view.cell.versions.items()})
    yield f"- Versions: {_plain(', '.join(versions))}"
    kinds = sorted({trial.sandbox.kind for view in views for trial in view.cell.trials})
    yield f"- Sandbox: {', '.join(kinds) or 'none was needed'}"


def _version(name: str, value: str) -> str:
    """A version as the page gives it: of the kernel the first two numbers, since the rest names the host's build."""
    return f"{name} {'.'.join(value.split('.')[:2]) if name == 'kernel' else value}"


SCORED_HEAD = ("Problem", "Solution", "Verdict", "Outcome", "Peak", "Roofline", "Attainable", "Promises by layer")
COUNTS_HEAD = (
    "Shape", "Kernels", "With counters", "Traced", "Tensor operations / the algorithm's", "DRAM read / compulsory",
    "Library time",
)  # fmt: skip
OTHER_HEAD = ("Problem", "Solution", "Verdict", "Outcome", "Why")


def _scored_row(cell: Cell) -> tuple[str, ...]:
    scores = cell.scores
    shown = [getattr(scores, f"{name}_fraction", None) for name in ("peak", "roofline", "attainable")]
    return (*_names(cell), *map(fraction, shown), "; ".join(map(_promise, cell.verdict.promises)))


def _other_row(cell: Cell) -> tuple[str, ...]:
    return (*_names(cell), _plain(cell.reason)[:220])


def _names(cell: Cell) -> tuple[str, str, str, str]:
    outcome = cell.outcome + (", unstable" if cell.unstable else "")
    return cell.problem, _short(cell), cell.verdict.verdict, outcome


def _short(cell: Cell) -> str:
    """The file with its folder: honest/triton.py."""
    return "/".join(Path(cell.file).parts[-2:])


def _promise(promise: PromiseRecord) -> str:
    layers = ", ".join(f"{layer} {promise.layers[layer]}" for layer in in_order(promise.layers))
    missing = f", no {' and no '.join(promise.missing)}" if promise.missing else ""
    return f"{promise.id}: {promise.state} ({layers}{missing})"


def _table(views: Sequence[View], title: str, row: object, head: Sequence[str]) -> Iterator[str]:
    if not views:
        return
    assert callable(row)
    yield f"## {title}"
    yield ""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for view in views:
        yield "| " + " | ".join(_plain(field) for field in row(view.cell)) + " |"


SETTLED_HEAD = ("Problem", "Promise", "Layer", "States in honest solutions")


def _settled(views: Sequence[View], deck: Deck) -> Iterator[str]:
    """Each layer that a promise declares, with the states that it gave in the honest solutions which were run."""
    honest = [view.cell for view in views if _kind(view.cell) == "honest" and view.cell.shapes]
    rows = []
    for name in deck.ids:
        records = [record for cell in honest if cell.problem == name for record in cell.verdict.promises]
        known = {promise.id: promise for promise in deck[name].promises} if records else {}
        for promise, layer in ((one, layer) for one in known.values() for layer in one.settled_by):
            states = Counter(
                record.layers.get(layer, "says nothing" if layer not in record.missing else "not had")
                for record in records
                if record.id == promise.id
            )
            rows.append((name, promise.id, layer, ", ".join(f"{state} {count}" for state, count in states.items())))
    if rows:
        yield "## Layers that settle promises"
        yield ""
        yield from _lines([SETTLED_HEAD, *rows])
        yield ""
        yield from _left_open(honest, deck)


def _left_open(honest: Sequence[Cell], deck: Deck) -> Iterator[str]:
    """The layers of the silicon that a promise names and that settled nothing in an honest solution."""
    left = [
        f"{cell.problem} {_short(cell)}: {record.id} by {layer} ({record.layers.get(layer, 'no state')})"
        for cell in honest
        for record in cell.verdict.promises
        for promise in deck[cell.problem].promises
        if promise.id == record.id
        for layer in promise.settled_by
        if layer in SILICON and record.layers.get(layer, "unproven") == "unproven"
    ]
    if not left:
        yield "Machine code and counters settled every promise of every honest solution that names them."
    else:
        yield "Left open by machine code or counters:"
        yield ""
        yield from (f"- {_plain(one)}" for one in left)


DECIDED_HEAD = ("Solution", "Matrix instructions", "Executed / the algorithm's", "Source", "Machine code", "Counters",
                "With --strict")  # fmt: skip


def _decided(views: Sequence[View], problem: Problem) -> Iterator[str]:
    """What ran at the shapes at which a promise may have another state, because hardware leaves nothing better."""
    exempt = [(promise, label) for promise in problem.promises for one in promise.also for label in one.shapes]
    for name, label in dict.fromkeys((promise.id, label) for promise, label in exempt):
        rows = [
            row
            for view in views
            if view.cell.problem == problem.id
            for row in _decided_rows(view, problem, name, label)
        ]
        if rows:
            yield f"## {problem.id}: {name} at {label}"
            yield ""
            yield from _lines([DECIDED_HEAD, *rows])


def _decided_rows(view: View, problem: Problem, promise: str, label: str) -> Iterator[tuple[str, ...]]:
    seen = view.silicon
    shape = next((one for one in seen.shapes if one.shape == label), None) if seen is not None else None
    if seen is None or shape is None:
        return
    found = next((one for one in view.cell.verdict.promises if one.id == promise), None)
    states = [found.layers.get("source", "") if found is not None else ""]
    states += [seen.shapes_by_layer.get(layer, {}).get(promise, {}).get(label, "") for layer in ("sass", "counters")]
    yield (
        _names(view.cell)[1],
        instructions(seen, label),
        executed(shape),
        *states,
        view.cell.outcome + _earlier(view, problem),
    )


def _lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table in Markdown; the first row is its head."""
    for number, row in enumerate(rows):
        yield "| " + " | ".join(_plain(field) for field in row) + " |"
        if number == 0:
            yield "|" + "---|" * len(row)


def _earlier(view: View, problem: Problem | None) -> str:
    """Says that a problem's promises or numbers are not those any more by which a bundle was graded."""
    if problem is None:
        return ""
    now = hashlib.sha256(Path(problem.path).read_bytes()).hexdigest()
    return " by an earlier problem.yaml" if (view.problem_files or {}).get("problem.yaml", now) != now else ""


def _one(view: View, deck: Deck) -> Iterator[str]:
    """One graded submission: its times, what the hardware counted, and its samples."""
    cell = view.cell
    yield f"## {cell.problem}: {_plain(_short(cell))}"
    yield ""
    earlier = _earlier(view, deck.get(cell.problem))
    yield f"{cell.verdict.verdict}, {cell.outcome}{earlier}. Head of the bundle: `{view.head[:16]}`"
    for finding in cell.verdict.findings:
        yield f"- {finding.layer}: {_plain(finding.message)[:300]}"
    yield ""
    yield "| Shape | Scored | Events | Sealed | Empty | Clock | Spread | Roofline |"
    yield "|---|---|---|---|---|---|---|---|"
    for score in cell.shapes:
        yield "| " + " | ".join(_times(score)) + " |"
    if view.silicon is not None and view.silicon.shapes:
        yield from _counts(view.silicon.shapes)
        if view.silicon.code:
            yield ""
            yield from _lines(code_rows(view.silicon))
            yield ""
            yield from (f"- {_plain(remark)}" for remark in remarks(view.silicon))
    yield ""
    yield "```text"
    for score in cell.shapes:
        yield from _strips(cell, score)
    yield "```"


def _times(score: ShapeScore) -> tuple[str, ...]:
    values = (score.t_scored, score.t_event, score.t_sealed, score.t_null)
    return (score.shape, *map(seconds, values), score.clock, spread(score), fraction(score.roofline_fraction))


def _counts(shapes: Sequence[ShapeEvidence]) -> Iterator[str]:
    yield ""
    yield "| " + " | ".join(COUNTS_HEAD) + " |"
    yield "|" + "---|" * len(COUNTS_HEAD)
    for shape in shapes:
        read = shape.read / shape.compulsory if shape.compulsory else math.nan
        launches = sum(kernel.launches for kernel in shape.kernels)
        row = (
            shape.shape,
            str(launches),
            seconds(shape.seconds),
            seconds(shape.busy or None),
            executed(shape),
            f"{read:.2f}",
        )
        yield "| " + " | ".join((*row, f"{shape.library:.0%}")) + " |"


def _strips(cell: Cell, score: ShapeScore) -> Iterator[str]:
    """A line a trial: how the claimed samples lie between the fastest and the slowest of all trials."""
    timings = [result.timing for trial in cell.trials for result in trial.shapes if result.shape == score.shape]
    known = [timing for timing in timings if timing is not None and timing.claimed]
    every = [sample for timing in known for sample in timing.claimed if math.isfinite(sample)]
    if not every:
        return
    low, high = min(every), min(max(every), 2 * median(every))
    for number, timing in enumerate(known, 1):
        name = score.shape if number == 1 else ""
        ends = f"{seconds(low):>8} |{_strip(timing, low, high)}| {seconds(high):<8}"
        yield f"{name:28.28} {ends} {len(timing.claimed)} samples"


def _strip(timing: ShapeTiming, low: float, high: float) -> str:
    counts = [0] * STRIP
    for sample in timing.claimed:
        place = (min(sample, high) - low) / (high - low) if high > low and math.isfinite(sample) else 0.0
        counts[min(int(max(place, 0.0) * STRIP), STRIP - 1)] += 1
    most = max(counts)
    return "".join(STRIP_MARKS[math.ceil(count / most * (len(STRIP_MARKS) - 1))] for count in counts)


def _plain(text: str) -> str:
    """Text that cannot end a cell of a table or begin code."""
    return " ".join(_TEXT.sub(" ", text).split()).replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
