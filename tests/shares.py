"""Which tests run at a commit: of dear ones a part, another at each commit; `make test-full` runs all.

Where KBH_TURN is set (to a commit's hash), it draws what runs, so that a run can be repeated, and what it leaves out
comes at other commits. Without it all run: by hand, and by `make test-full`. What is left out:

1. Of a test marked `share(parts)`, all but one in so many of its cases: where there are very many of them.
2. Of a test whose cases take more than BUDGET seconds of CPU in all, those that do not fit, but for one.
3. Of tests without cases, and of what is left of tests with, that take more than LONG seconds each: all but one in
   SINGLE of them all.

What a case takes stands by test in seconds.json; a test that has no row there is cheap. `python tests/shares.py
JUNIT.XML...` writes into it what runs with `--junitxml` measured, and leaves the rows of other tests.

Cases that ask one question of many texts are shared: what one commit's draw misses is found by a later one. GUARDS are
not, but for marks of their own: what holds a submission in, what an agent or a bundle could forge, what hostile text
costs, what the linter says of our own kernels and of the rules' own examples, and the laws of the code.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

__all__ = ["BUDGET", "CPU", "GUARDS", "LONG", "SECONDS", "SINGLE", "TURN", "drawn", "guarded", "part_of", "taken"]

TURN = "KBH_TURN"
BUDGET, LONG = 1.0, 3.0  # seconds of CPU
SINGLE = 3
CPU = "cpu-seconds"  # the property by which a test's report says what it took
TABLE = Path(__file__).with_name("seconds.json")
SECONDS: dict[str, float] = json.loads(TABLE.read_text()) if TABLE.exists() else {}
NOTED = BUDGET / 2  # a test that takes less in all of its cases gets no row
# Beginnings of names of tests.
GUARDS = (
    "tests/authors/test_first_edition.py::test_our_own_deck_has_no_finding",
    "tests/docs/test_pages",
    "tests/grader/test_altered_code",
    "tests/grader/test_bundle",
    "tests/grader/test_caches_graded",
    "tests/grader/test_channel",
    "tests/grader/test_judge",
    "tests/grader/test_keys",
    "tests/grader/test_kill",
    "tests/grader/test_loaded_code",
    "tests/grader/test_outside",
    "tests/grader/test_sandbox",
    "tests/grader/test_solutions.py::test_a_decoy_is_flagged",
    "tests/grader/test_solutions.py::test_an_honest_solution_is_clean",
    "tests/harness/test_proxy",
    "tests/harness/test_release",
    "tests/harness/test_room",
    "tests/hostile/",
    "tests/idioms/test_idioms",
    "tests/robustness/test_hostile",
    "tests/rules/",
    "tests/structure/",
    "tests/variants/",
)


def part_of(item: pytest.Item) -> int:
    """One in how many cases of its test runs."""
    mark = item.get_closest_marker("share")
    return 1 if mark is None else int(mark.args[0])


def guarded(test: str) -> bool:
    """Whether what a test takes leaves nothing of it out."""
    return test.startswith(GUARDS)


def drawn(cases: Iterable[tuple[str, int]], turn: str, seconds: Mapping[str, float] = SECONDS) -> set[str]:
    """Of cases, by their ids and one in how many of their test runs, those of this turn: at least one of each test, but
    for those whose every case is long."""
    tests: dict[tuple[str, int], list[str]] = {}
    for name, parts in cases:
        tests.setdefault((name.partition("[")[0], parts), []).append(name)
    found, dear = set[str](), list[str]()
    for (test, parts), names in tests.items():
        each = 0.0 if guarded(test) else seconds.get(test, 0.0)
        most = math.ceil(len(names) / parts)
        if each > LONG:
            dear += _first(names, 1, turn)
        elif len(names) > 1 and len(names) * each > BUDGET:
            found.update(_first(names, min(most, max(1, int(BUDGET / each))), turn))
        else:
            found.update(_first(names, most, turn))
    return found.union(_first(dear, math.ceil(len(dear) / SINGLE), turn))


def _first(names: Sequence[str], most: int, turn: str) -> list[str]:
    """So many, in an order that nothing but the turn decides."""
    return sorted(names, key=lambda name: sha256(f"{turn} {name}".encode()).digest())[:most]


def taken(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """The values of a parameter in the tests of this file that run: for a fixture that does the work of all at once."""
    items = [item for item in request.session.items if item.path == request.path and isinstance(item, pytest.Function)]
    calls = [item.callspec.params for item in items if hasattr(item, "callspec")]
    values: list[Any] = []
    for params in calls:
        if parameter in params and params[parameter] not in values:
            values.append(params[parameter])
    return values


def measured(reports: Iterable[Path]) -> dict[str, float]:
    """What a case of each test took by reports of pytest, each case alike; of one that has no row, where it is
    much in all."""
    times: dict[str, list[float]] = {}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            test = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name'].partition('[')[0]}"
            said = [float(each.attrib["value"]) for each in case.iter("property") if each.get("name") == CPU]
            took = [min(each, float(case.attrib["time"])) for each in said]  # what several tests used may end in one
            times.setdefault(test, []).extend(took)
    noted = {test: each for test, each in times.items() if each and (test in SECONDS or sum(each) >= NOTED)}
    return {test: round(sum(each) / len(each), 2) for test, each in noted.items()}


if __name__ == "__main__":
    now = SECONDS | measured(Path(name) for name in sys.argv[1:])
    TABLE.write_text(json.dumps({test: now[test] for test in sorted(now)}, indent=0) + "\n")
