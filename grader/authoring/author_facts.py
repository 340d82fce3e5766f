"""What only running a problem's code can tell: `python -m grader.authoring.author_facts FOLDER...` prints JSON.

`kbh_lint.authors.execution` starts it in a child process. Folders are of the caller's own deck: their code is trusted.
The answer maps each folder to `flops`, `inputs`, `bans`, `cases`, `mutants` and `notes`: what was not done.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from grader.authoring import flops
from grader.deck import cases
from grader.deck.code import Code, DeckError, load_code
from kbh_lint.problems import Problem, load_problem

KEYS = (b"kbh author facts: one", b"kbh author facts: two")
IMPORTABLE = ("torch", "triton", "builtins")  # whose names must resolve; other packages may lack an installation
_SHORT = {"tl": "triton.language", "Tensor": "torch.Tensor", "F": "torch.nn.functional"}
_MISSING = object()


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the answers. What the problems' code prints goes to standard error."""
    torch.set_num_threads(1)
    answers: dict[str, Any] = {}
    with redirect_stdout(sys.stderr):
        for name in sys.argv[1:] if argv is None else argv:
            answers[name] = facts(Path(name))
    json.dump(answers, sys.stdout, sort_keys=True)
    return 0


def facts(folder: Path) -> dict[str, Any]:
    """Collects the facts of one folder. An exception that its code raises becomes a note."""
    problem = load_problem(folder / "problem.yaml")
    unresolved, unknown = bans(problem)
    answer: dict[str, Any] = {"bans": unresolved, "notes": []}
    if unknown:
        answer["notes"].append(
            f"{unknown} of {sum(len(ban.paths) for ban in problem.bans)} banned names are of packages that are not"
            " installed here, or C++ names without a header of torch: they were not resolved"
        )
    try:
        code = load_code(problem)
    except DeckError as error:
        answer["notes"].append(f"the problem's code was not run: {error}")
        return answer
    answer["flops"] = _flops(flops.count(problem, code), answer["notes"])
    answer["mutants"] = len(code.mutants)
    declared = [case.id for case in problem.cases]
    answer["cases"] = [{"id": name, "state": "no-code"} for name in declared if name not in code.structures]
    answer["cases"] += [{"id": name, "state": "not-declared"} for name in code.structures if name not in declared]
    if not problem.reduced:
        answer["notes"].append("inputs were not drawn: the problem has no reduced shapes")
        return answer
    try:
        answer["inputs"] = list(inputs(problem, code))
    except Exception as error:  # the problem's own code may fail in any way
        answer["notes"].append(f"inputs could not be drawn: {type(error).__name__}: {str(error)[:200]}")
    return answer


def _flops(fit: flops.Fit, notes: list[str]) -> dict[str, str]:
    if fit.state == "unknown":
        notes.append(f"flops were not counted: {fit.reason}")
    wrong = next((item for item in fit.counts if not item.agrees), fit.counts[0] if fit.counts else None)
    if wrong is None:
        return {"state": fit.state}
    hint = fit.hint or (
        f"nobody counts {', '.join(fit.uncounted)}" if fit.uncounted else "no single factor explains it"
    )
    shape = ", ".join(f"{name} {value}" for name, value in wrong.symbols.items())
    numbers = {"declared": f"{wrong.declared:.0f}", "counted": f"{wrong.total:.0f}"}
    return {"state": fit.state, "shape": shape, "hint": hint, **numbers}


# --- inputs ------------------------------------------------------------------------------------------------


def inputs(problem: Problem, code: Code) -> Iterator[dict[str, str]]:
    """Inputs that no case changes with the key, and those that the same key draws differently twice."""
    first, again, other = (_drawn(problem, code, key) for key in (KEYS[0], KEYS[0], KEYS[1]))
    contract = next(iter(problem.contracts.values()))
    for spec in contract.forward:
        one, two, three = (seen[spec.name] for seen in (first, again, other))
        if any(not _same(a, b) for a, b in zip(one, two, strict=True)):
            yield {"name": spec.name, "state": "the same key draws it differently"}
        elif all(_same(a, b) for a, b in zip(one, three, strict=True)):
            yield {"name": spec.name, "state": "every key draws it the same"}


def _drawn(problem: Problem, code: Code, key: bytes) -> dict[str, list[torch.Tensor]]:
    """Every input of every planned case at the first reduced shape."""
    shape = problem.reduced[0]
    found: dict[str, list[torch.Tensor]] = {}
    for spec in cases.plan_cases(problem, shape, key, nominal=1, structures=1, code=code):
        case = cases.materialise(problem, shape, spec, key, device="cpu", code=code)
        for name, tensor in case.inputs.items():
            found.setdefault(name, []).append(tensor)
    return found


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit; a NaN equals itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


# --- bans --------------------------------------------------------------------------------------------------


def bans(problem: Problem) -> tuple[list[dict[str, Any]], int]:
    """Banned paths that name nothing, and how many could not be looked up."""
    missing: list[dict[str, Any]] = []
    unknown = 0
    for index, ban in enumerate(problem.bans):
        for path in ban.paths:
            found = exists(path)
            unknown += found is None
            if found is False:
                missing.append({"index": index, "symbol": path, "state": "missing"})
    return missing, unknown


def exists(path: str) -> bool | None:
    """Whether a banned path names something; None when this machine cannot tell."""
    if "::" in path:
        return _header(path)
    parts = path.split(".")
    parts[:1] = _SHORT.get(parts[0], parts[0]).split(".")
    if len(parts) == 1 and hasattr(builtins, parts[0]):
        return True
    try:
        found = importlib.util.find_spec(parts[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        return False if parts[0] in IMPORTABLE or parts[0] in sys.stdlib_module_names else None
    return _resolves(parts)


def _resolves(parts: Sequence[str]) -> bool:
    """Whether the longest importable prefix holds the rest as attributes."""
    for cut in range(len(parts), 0, -1):
        try:
            item: Any = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for name in parts[cut:]:
            item = getattr(item, name, _MISSING)
            if item is _MISSING:
                return False
        return True
    return False


def _header(path: str) -> bool | None:
    """C++: torch has a header for every operator of `at::`, which `torch::` repeats; others cannot be told."""
    space, _, name = path.rpartition("::")
    folder = Path(torch.__file__).parent / "include" / "ATen" / "ops"
    if space not in ("at", "torch") or not folder.is_dir():
        return None
    return True if os.path.exists(folder / f"{name}.h") else None


if __name__ == "__main__":
    raise SystemExit(main())
