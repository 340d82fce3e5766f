"""What a board costs: 100, 1,000 and 10,000 made-up trials through statistics and `harness.site`, and how it opens.

    python bench/board.py                  a line for each size: seconds, files, bytes, and first paint in Chromium
    python bench/board.py --sizes 1000     this size
    python bench/board.py --keep DIR       leaves the sites there
    python bench/board.py --check          fails where 10,000 trials take over 60 MB, or 2 s to the first paint

The trials are drawn; their pages are those of the deck's kernels in results/, each with samples and lines of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader.record.bundle import Bundle
from grader.record.bundle.packed import unpacked
from grader.record.cell import Cell, ShapeTiming
from grader.report.view import load_view, submission_files
from harness.archive.facts import Facts
from harness.board.data import boards_of
from harness.board.trials import trials_of
from harness.site.gather import trials_in
from harness.site.model import Detail, Site, Trial
from harness.site.write import Written, write_site
from harness.view.solution import read_report
from kbh_lint.base import paths
from kbh_lint.problems import load_deck, load_targets

RESULTS = Path(__file__).resolve().parents[1] / "results" / "h200.tar.xz"
SHAPES = {100: (5, 5, 4), 1_000: (20, 10, 5), 10_000: (40, 25, 10)}  # models, problems, trials
MOST_BYTES, MOST_SECONDS = 60_000_000, 2.0
STARTED = 1_790_000_000.0
ENDINGS = (("accepted", "clean", 0.62), ("withheld", "rubric_leak", 0.2), ("wrong", "clean", 0.13), ("", "", 0.05))


@dataclass
class Drawn:
    """Details of made-up trials: those of real gradings, with samples and lines that no other has."""

    details: Sequence[Detail]

    def detail(self, trial: Trial) -> Detail:
        """One of the real ones, changed by the trial's own chance."""
        chance = random.Random(trial.id)
        fits = [one for one in self.details if one.cell and (one.cell.outcome == "accepted") == (trial.mark == "score")]
        found = chance.choice(fits)
        assert found.cell is not None
        lines = list(found.source)
        for _ in range(max(len(lines) // 5, 1)):
            at = chance.randrange(len(lines) + 1)
            lines.insert(at, f"    # {chance.getrandbits(160):x} {chance.getrandbits(80):x}")
        return replace(found, cell=_disturbed(found.cell, chance), source=tuple(lines))

    def transcript(self, trial: Trial) -> None:
        """There is none."""


def _disturbed(cell: Cell, chance: random.Random) -> Cell:
    def timing(known: ShapeTiming | None) -> ShapeTiming | None:
        if known is None:
            return None
        return replace(known, claimed=tuple(value * chance.gauss(1.0, 0.01) for value in known.claimed))

    trials = tuple(
        replace(trial, shapes=tuple(replace(shape, timing=timing(shape.timing)) for shape in trial.shapes))
        for trial in cell.trials
    )
    return replace(cell, trials=trials)


def real_details(most: int = 24) -> list[Detail]:
    """Gradings of the deck's kernels, with their source and findings."""
    with unpacked(RESULTS) as place:
        return _details(sorted(place.iterdir())[:most])


def _details(folders: Sequence[Path]) -> list[Detail]:
    made = []
    for folder in folders:
        bundle, view = Bundle.open(folder), load_view(folder)
        report = read_report(bundle.get(view.cell.verdict.report)) if view.cell.verdict.report else None
        source = submission_files(bundle)["solution.py"].decode().split("\n")
        findings = report.findings if report is not None else ()
        made.append(Detail(cell=view.cell, findings=findings, source=tuple(source), bundle=view.head))
    return made


def drawn_facts(models: int, problems: int, trials: int, seed: int = 1) -> list[Facts]:
    """Entries of an archive that was never there."""
    chance = random.Random(seed)
    with unpacked(RESULTS) as place:
        known = sorted({folder.name.split("-")[0] for folder in place.iterdir()})
    names = [*known, *(f"p{number:02d}_made_up_problem" for number in range(len(known), problems))][:problems]
    found: list[Facts] = []
    for model in range(models):
        skill = chance.uniform(0.1, 0.9)
        for problem in names:
            hardness = chance.uniform(0.3, 1.0)
            for trial in range(1, trials + 1):
                grade, verdict, _ = chance.choices(ENDINGS, [one[2] for one in ENDINGS])[0]
                score = (
                    min(max(skill * hardness * chance.gauss(0.8, 0.05), 0.001), 1.0) if grade == "accepted" else None
                )
                number = len(found)
                begun = STARTED + 600.0 * number
                found.append(Facts(
                    id=hashlib.sha256(f"{seed} {number}".encode()).hexdigest(), kind="run", name=f"run-{number:05d}",
                    agent="agent", model=f"vendor/model-{model:02d}", problem=problem, target="h200", trial=trial,
                    started=begun, ended=begun + chance.uniform(300, 2700), grade=grade, verdict=verdict,
                    outcome="PASS" if score is not None else "FAIL" if grade else "ERR", roofline_fraction=score,
                    ending="agent-stop" if grade else "provider-rate", cost_usd=chance.uniform(0.1, 9.0),
                    leaks="fp8-upcast-bf16-gemm" if verdict == "rubric_leak" else "", spread=0.004,
                ))  # fmt: skip
    return found


def drawn_site(facts: list[Facts], details: Sequence[Detail]) -> Site:
    """The site of made-up entries."""
    every = trials_of(facts)
    deck = load_deck(paths.problems_dir())
    return Site(
        title="A made-up board", trials=trials_in(facts, every),
        boards={board.target: board for board in boards_of(every)},
        problems={name: deck[name] for name in {one.problem for one in facts} if name in deck},
        targets=load_targets(paths.hardware_file(paths.problems_dir())), honest={}, source=Drawn(details),
    )  # fmt: skip


def main() -> int:
    """Prints the lines; 1 where --check finds a bound broken."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--sizes", type=int, nargs="+", choices=sorted(SHAPES), default=sorted(SHAPES))
    ask.add_argument("--keep", type=Path)
    ask.add_argument("--check", action="store_true")
    args = ask.parse_args()
    details, good = real_details(), True
    print(f"{'trials':>8} {'facts to board':>15} {'pages':>9} {'a page':>9} {'files':>7} {'MB':>7}  first paint")
    with tempfile.TemporaryDirectory(prefix="kbh-bench-site-") as place:
        for size in args.sizes:
            target = (args.keep or Path(place)) / str(size)
            target.parent.mkdir(parents=True, exist_ok=True)
            facts = drawn_facts(*SHAPES[size])
            begun = time.perf_counter()
            site = drawn_site(facts, details)
            counted = time.perf_counter()
            written = write_site(site, target)
            done = time.perf_counter()
            paints = first_paints(target)
            shown = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in paints.items()) or "no Chromium here"
            each = 1e3 * (done - counted) / size
            print(f"{size:>8,} {counted - begun:>13.1f} s {done - counted:>7.1f} s {each:>6.1f} ms "
                  f"{written.files:>7,} {written.bytes / 1e6:>7.1f}  {shown}", flush=True)  # fmt: skip
            good &= within(written, paints)
    return 0 if good or not args.check else 1


def within(written: Written, paints: dict[str, float]) -> bool:
    """Whether a site is as small and as quick as is promised of 10,000 trials."""
    return written.bytes <= MOST_BYTES and all(seconds <= MOST_SECONDS for seconds in paints.values())


def first_paints(folder: Path) -> dict[str, float]:
    """Seconds to the first contentful paint of the heaviest pages, from the disk; nothing without Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if not Path("/usr/bin/chromium").exists():
        return {}
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for name in ("index.html", "runs.html"):
            page = browser.new_page()
            page.goto((folder / name).as_uri())
            wait = "new Promise(d => { const f = () => performance.getEntriesByName('first-contentful-paint').length ? d() : setTimeout(f, 5); f(); })"  # noqa: E501
            page.evaluate(wait)
            found[name] = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1e3
        browser.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
