"""How many calls of our own functions linting a fixed set takes: `python tests/structure/calls.py` prints today's
figures, by part of the linter and by the function that is called most.

A count is the same on any machine and however busy it is, which no time is. The set is what is here to be linted: the
deck's honest submissions, and an example of each rule. Functions of the package that have a name are counted, and
nothing else: versions of Python differ in whether a comprehension is a call.
"""

from __future__ import annotations

import cProfile
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[2]
SHOWN = 12  # functions


def counted() -> dict[str, int]:
    """Calls by function (`kernels/core/value.py V.with_`), of a process of its own: nothing is warm but what the first
    of the set warms, and texts hash alike each time."""
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, __file__, "--count"], env=env, stdout=subprocess.PIPE, check=True, text=True, cwd=ROOT
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def by_part(calls: dict[str, int]) -> dict[str, int]:
    """Thousands of calls by part of the linter: a folder in `kbh_lint`, or one below that in the largest two."""
    parts: Counter[str] = Counter()
    for name, count in calls.items():
        folders = name.partition(" ")[0].split("/")[:-1]
        parts["/".join(folders[: 2 if folders[:1] in (["host"], ["kernels"]) else 1]) or "modules"] += count
    return {part: round(count / 1000) for part, count in sorted(parts.items())}


def _count() -> Counter[str]:
    """Lints the set in this process."""
    from kbh_lint.base import paths
    from kbh_lint.base.limits import fewer_collections
    from kbh_lint.rules import load_rules
    from kbh_lint.service.one_file import Options, lint_file, load_rules_once
    from kbh_lint.source.submissions import Submission, discover

    options = Options(str(paths.rules_dir()), str(paths.problems_dir()), timeout=0)
    rules = load_rules_once(options.rules_dir)
    found = list(discover(sorted(paths.problems_dir().glob("*/honest"))))
    with tempfile.TemporaryDirectory() as folder, fewer_collections():
        for rule in load_rules(paths.rules_dir()):
            file = Path(folder) / rule.id / "solution.py"
            file.parent.mkdir()
            file.write_text(rule.bad[0].code, encoding="utf-8")
            found += discover([file], problem=rule.bad[0].problem)
        submissions = [item for item in found if isinstance(item, Submission)]
        lint_file(submissions[0], options, rules)
        profile = cProfile.Profile(builtins=False)
        for submission in submissions:
            profile.enable()
            lint_file(submission, options, rules)
            profile.disable()
    calls: Counter[str] = Counter()
    package = f"{ROOT / 'kbh_lint'}{os.sep}"
    for entry in profile.getstats():
        code = entry.code
        if isinstance(code, CodeType) and code.co_filename.startswith(package) and not code.co_name.startswith("<"):
            file_of = code.co_filename.removeprefix(package).replace(os.sep, "/")
            calls[f"{file_of} {code.co_qualname}"] += entry.callcount
    return calls


def main() -> None:
    """Prints what `counted` gives for a person, or with `--count` for it."""
    if "--count" in sys.argv[1:]:
        json.dump(_count(), sys.stdout)
        return
    calls = counted()
    print(f"{sum(calls.values()) / 1000:,.0f} thousand calls")
    for part, thousands in by_part(calls).items():
        print(f'    "{part}": {thousands},')
    for name, count in Counter(calls).most_common(SHOWN):
        print(f"{count:9,} {name}")


if __name__ == "__main__":
    main()
