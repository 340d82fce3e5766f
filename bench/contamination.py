"""Prints what the bounds of harness.contamination rest on, and what looking costs.

    python bench/contamination.py [CORPUS] [--table tests/harness/reach_table.py]

CORPUS is a folder of submissions by others, named by their problems: what they share with hidden files, and with each
other, is chance. The table has honest commands and ones that reach for what is not theirs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from types import ModuleType

from harness.contamination.calls import look_at_call
from harness.contamination.hidden import Index, hidden_index, lines_of, look_up
from harness.contamination.watch import LINES, PRIOR_LINES, Watch
from harness.record.exchange import Exchange, Item
from kbh_lint.base.paths import problems_dir

LIBRARIES = ("torch", "triton")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns 0."""
    parser = argparse.ArgumentParser(description="What the bounds of contamination rest on.")
    parser.add_argument("corpus", type=Path, nargs="?", help="a folder of submissions, named by their problems")
    parser.add_argument("--table", type=Path, default=Path("tests/harness/reach_table.py"), help="the commands")
    args = parser.parse_args(argv)
    began = time.perf_counter()
    index = hidden_index()
    took = time.perf_counter() - began
    print(f"index: {len(index.sources)} files, {len(index.lines)} lines, {len(index.numbers)} numbers, {took:.2f} s")
    _covered(index)
    print(f"\nhidden lines of one file in one text (bound {LINES}): how many texts have 0, 1, 2, ...")
    if args.corpus is not None:
        _chance("submissions of others", args.corpus.glob("*.py"), index)
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            _chance(f"sources of {name}", Path(spec.origin).parent.rglob("*.py"), index)
    if args.corpus is not None:
        _pairs(args.corpus)
    _cost()
    _table(args.table)
    return 0


def _covered(index: Index) -> None:
    """How many files of the deck have enough lines to be known by them."""
    lines: Counter[int] = Counter(at for of in index.lines.values() for at in of)
    deck = [at for at, source in enumerate(index.sources) if source.label.startswith("problems/")]
    known = {at for at in deck if lines[at] >= LINES} | (set(index.numbers.values()) & set(deck))
    few = [index.sources[at].label for at in deck if at not in known]
    print(
        f"files of the deck that are known by their lines: {len(known)} of {len(deck)}; not: {', '.join(few) or 'none'}"
    )


def _chance(what: str, files: Iterable[Path], index: Index) -> None:
    counts: Counter[int] = Counter()
    for file in files:
        lines, numbers = look_up(file.read_text(encoding="utf-8", errors="replace"), index)
        of = Counter(at for line in lines for at in index.lines[line])
        counts[max(of.values(), default=0) + LINES * len(numbers)] += 1
    print(f"  {what:24} " + ", ".join(f"{n}: {counts[n]}" for n in sorted(counts)))


def _pairs(corpus: Path) -> None:
    """How many lines two submissions of one problem share."""
    ids = [path.name for path in problems_dir().iterdir() if path.is_dir()]
    by: dict[str, list[tuple[str, set[str]]]] = defaultdict(list)
    for file in sorted(corpus.glob("*.py")):
        name = next((one for one in ids if file.stem.endswith(one)), "")
        given = problems_dir() / name / "reference.py"
        known = lines_of(given.read_text(encoding="utf-8")) if given.is_file() else set()
        by[name].append((file.stem, lines_of(file.read_text(encoding="utf-8", errors="replace")) - known))
    found = sorted(((len(x & y), a, b) for of in by.values() for (a, x), (b, y) in combinations(of, 2)), reverse=True)
    beyond = [pair for pair in found if pair[0] >= PRIOR_LINES]
    print(f"\nlines that two submissions of one problem share (bound {PRIOR_LINES}), {len(found)} pairs:")
    print("  " + ", ".join(f"{n}: {count}" for n, count in sorted(Counter(pair[0] for pair in found).items())))
    print("\n".join(f"  beyond: {n} lines, {a} | {b}" for n, a, b in beyond))


def _cost() -> None:
    print("\nmilliseconds of a look:")
    rng = random.Random(1)
    words = [line for line in Path(__file__).read_text(encoding="utf-8").splitlines() if line.strip()]
    watch = Watch("01_fp8_gemm", {"reference.py": (problems_dir() / "01_fp8_gemm/reference.py").read_bytes()})
    for what, size in (("10 kB new", 10_000), ("100 kB new", 100_000), ("2 MB new", 2_000_000)):
        times = []
        for turn in range(5):
            text = "\n".join([str(turn), *(rng.choice(words) for _ in range(size // 40))])[:size]
            call = Item("tool_call", "assistant", name="Bash", arguments=json.dumps({"command": f"cat {turn}.py"}))
            said = Exchange("anthropic-messages", "m", input=(call, Item("tool_result", "tool", text)))
            began = time.perf_counter()
            watch.look(said, turn + 1)
            times.append(time.perf_counter() - began)
        print(f"  {what:24} {1e3 * sorted(times)[2]:8.2f}")
    items = tuple(Item("text", "user", f"{at} " + "\n".join(rng.choices(words, k=100))) for at in range(250))
    watch.look(Exchange("anthropic-messages", "m", input=items), 1)
    again = tuple(Item("text", "user", (item.text + " ")[:-1]) for item in items)  # equal texts, other objects
    began = time.perf_counter()
    watch.look(Exchange("anthropic-messages", "m", input=again), 2)
    size = sum(len(item.text) for item in items)
    print(f"  {f'{size / 1e6:.1f} MB seen before':24} {1e3 * (time.perf_counter() - began):8.2f}")


def _table(path: Path) -> None:
    if not path.is_file():
        return
    spec = importlib.util.spec_from_file_location("reach_table", path)
    assert spec is not None and spec.loader is not None
    table: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    honest, bad = list(table.HONEST) + list(table.HONEST_CALLS), list(table.BAD) + list(table.BAD_CALLS)
    false = [call for call in honest if look_at_call(*table.as_call(call))]
    missed = [row for row in bad if row[-1] not in {f.rule for f in look_at_call(*table.as_call(row[:-1]))}]
    began = time.perf_counter()
    for row in bad:
        look_at_call(*table.as_call(row[:-1]))
    each = (time.perf_counter() - began) / len(bad)
    print(
        f"\ncalls: {len(false)} of {len(honest)} honest ones flagged, {len(missed)} of {len(bad)} bad ones missed;",
        end="",
    )
    print(f" {1e3 * each:.2f} ms a call")
    for row in [*false, *missed]:
        print(f"  {row!r}"[:200])


if __name__ == "__main__":
    sys.exit(main())
