"""Facts from the stored evidence of a problem (`evidence/TARGET.json`, written by `kbh problems verify`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kbh_lint.authors.folder import Folder, read_text
from kbh_lint.base.folder_facts import Decoy, Malformed, Mutant
from kbh_lint.findings import Fact

MAX_FILES = 32


def facts(folder: Folder) -> Iterator[Fact]:
    """Yields facts from a problem's stored evidence: a `mutant` that a run on graded shapes could not kill, a
    `decoy` that failed correctness there."""
    rules = {decoy.file: decoy for decoy in folder.solutions.decoys}
    for path in sorted((folder.path / "evidence").glob("*.json"))[:MAX_FILES]:
        name = f"evidence/{path.name}"
        try:
            data: Any = json.loads(read_text(path) or "")
            mutants = data.get("mutants", {}).get("mutants", {})
            survivors = [mutant for mutant, entry in mutants.items() if entry["state"] not in _DEAD]
            failed = [file for file, entry in data["solutions"].items() if entry["outcome"] != "passed"]
        except (ValueError, KeyError, TypeError, AttributeError):
            yield folder.fact_in(Malformed(file=name, message="it is not evidence"), name, 1)
            continue
        for mutant in survivors:
            what = f"the mutant {mutant} survived on"
            yield folder.fact_in(Mutant(state="survives", what=what, number=path.stem), name, 1)
        for file in failed:
            if file in rules:
                said = f"it failed on {path.stem}"
                decoy = rules[file]
                yield folder.fact_in(
                    Decoy(file=file, rule=decoy.rule, state="not a decoy but a mutant", said=said),
                    "solutions.yaml",
                    decoy.line,
                )


_DEAD = ("killed", "equivalent", "left-out")
