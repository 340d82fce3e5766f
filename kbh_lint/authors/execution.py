"""What only running the problem's own code can tell, asked of a child process that has the grade extra.

Here nothing of it is imported: the child counts operations, draws inputs and resolves banned names, and prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbh_lint.authors.folder import Folder
from kbh_lint.base.fact_kind import FactKind, fields_of
from kbh_lint.base.folder_facts import Ban, Case, Count, Flops, Input
from kbh_lint.findings import Fact

TIMEOUT_S = 600.0
MAX_ANSWER = 8_000_000
ASKED = ("flops", "input", "ban")  # kinds of facts that need an answer
NEEDS = ("torch", "hypothesis", "numpy", "grader")
NOT_INSTALLED = (
    "not checked without the grade extra (in a checkout of kbh: pip install '.[grade]'): FLOP counts, drawn inputs,"
    " importable bans"
)
NOT_TRUSTED = (
    "not checked: FLOP counts, drawn inputs, importable bans; they run the problem's own code, which is done only for"
    " the folder that --problems-dir names"
)


def ask(folders: Sequence[Path]) -> tuple[Mapping[str, Any], str]:
    """Runs the problems' code in a child process; returns its answers by resolved folder, and one sentence on why
    there are none (empty when there are)."""
    if any(find_spec(name) is None for name in NEEDS):
        return {}, NOT_INSTALLED
    command = [sys.executable, "-m", "grader.authoring.author_facts", *(str(folder.resolve()) for folder in folders)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": _python_path()}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            preexec_fn=_all_memory,
        )
        answer = json.loads(done.stdout[:MAX_ANSWER] or b"null")
    except subprocess.TimeoutExpired:
        return {}, f"running the problems' own code took longer than {TIMEOUT_S:g} s and was stopped"
    except (OSError, ValueError):
        return {}, "running the problems' own code gave no answer that could be read"
    if not isinstance(answer, dict):
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        return {}, f"running the problems' own code failed: {last[:300]}"
    return answer, ""


def _all_memory() -> None:
    """Takes back the linter's own bound on memory, which is too small for torch."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _python_path() -> str:
    """Where this process found its packages: an editable checkout must be found by the child too."""
    return os.pathsep.join(entry for entry in map(os.path.abspath, filter(None, sys.path)) if os.path.isdir(entry))


def facts(folder: Folder, answer: Mapping[str, Any]) -> Iterator[Fact]:
    """Yields the facts that the child's `answer` about one problem folder holds."""
    problem = folder.problem
    flops = answer.get("flops")
    if isinstance(flops, dict) and flops.get("state") != "agrees":
        yield folder.fact(_of(Flops, {**flops, "formula": problem.flops}), "flops")
    known = problem.contracts
    for item in answer.get("inputs", ()):
        contract = next(iter(known.values()))
        names = [spec.name for spec in contract.forward]
        section = "forward" if item["name"] in names else "state"
        index = names.index(item["name"]) if section == "forward" else 0
        yield folder.fact(_of(Input, item), "contracts", contract.id, section, index)
    for item in answer.get("bans", ()):
        yield folder.fact(_of(Ban, item), "bans", int(item["index"]))
    for item in answer.get("cases", ()):
        yield folder.fact(_of(Case, item), "cases")
    if isinstance(answer.get("mutants"), int):
        yield folder.fact(Count(what="mutants", number=answer["mutants"]))


def _of(kind: type[FactKind], item: Mapping[str, object]) -> FactKind:
    """A fact of what the child says, whose values are texts here; what it does not say is empty."""
    return kind(**{name: str(item.get(name, ""))[:400] for name in fields_of(kind)})


def notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """What the child could not do, as sentences."""
    yield from (str(text)[:400] for text in answer.get("notes", ()))
