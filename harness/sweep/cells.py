"""The cells of a matrix, each with the key under which its runs are found again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from grader.grading.request import problem_files
from grader.record.bundle.read import canonical
from harness.agents.registry import adapter_named
from harness.proxy.base import Caps
from harness.running.request import RunError, RunRequest
from harness.running.target import CPU
from harness.scripted.script import SOLUTION_SUFFIX, ScriptError, load_script
from harness.sweep.matrix import AgentRow, Matrix, ModelRow
from kbh_lint import __version__
from kbh_lint.base import paths
from kbh_lint.problems import Problem, find_target, load_deck, load_targets

__all__ = ["Cell", "Places", "cells_of", "deck_digest"]

FORMAT = 1
PROMPT = "prompt.in.md"


@dataclass(frozen=True, slots=True)
class Places:
    """Where this machine has what a run needs; none of it is part of a key. `out` is where its runs are kept."""

    out: Path
    problems_dir: Path | None = None
    routes: Path | None = None
    prefix: Path | None = None
    known: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One trial of an agent with a model on a problem and a target. `request.sweep_key` is its key, `deck` the digest
    of its problem's files.
    """

    request: RunRequest
    trial: int
    deck: str = ""

    @property
    def key(self) -> str:
        """SHA-256 of all that decides what is asked of the run."""
        return self.request.sweep_key

    @property
    def scripted(self) -> bool:
        """Whether a script stands in for its model, which costs nothing."""
        return self.request.script is not None

    @cached_property
    def label(self) -> str:
        """The cell's name for people."""
        asked = self.request
        agent = f"{asked.agent} ({asked.effort})" if asked.effort else asked.agent
        return f"{agent}  {asked.model}  {asked.problem}  {asked.target}  trial {self.trial}"


def cells_of(matrix: Matrix, places: Places, targets: Sequence[str] = ()) -> list[Cell]:
    """The cells of a matrix, the first trial of all before the second of any; with `targets` those alone.

    Raises RunError for what is not there: a problem, a target, a script with the files that it names.
    """
    folder = paths.problems_dir(places.problems_dir)
    deck, hardware = load_deck(folder), paths.hardware_file(folder)
    known = load_targets(hardware)
    ids: dict[str, str] = {}
    for name in (*matrix.targets, *targets):
        found = None if name == CPU else find_target(known, name)
        if name != CPU and found is None:
            raise RunError(f"there is no target `{name}`; there are {', '.join(known)} and cpu")
        ids[name] = CPU if found is None else found.id
    wanted = {ids[name] for name in targets}
    decks: dict[str, Mapping[str, str]] = {}
    for name in matrix.problems:
        if name not in deck:
            raise RunError(f"there is no problem `{name}` in {folder}; `kbh problems list` lists them")
        decks[name] = _files(deck[name], hardware)
        if matrix.strict and not matrix.evidence:
            _need_no_run(matrix, deck[name])
    scripts = {path: _script(path) for path in _scripts(matrix)}
    made = []
    for trial, agent, model, problem, target in product(
        range(1, matrix.trials + 1), matrix.agents, matrix.models, matrix.problems, dict.fromkeys(matrix.targets)
    ):
        if _skipped(matrix, agent, model, problem, target) or (wanted and ids[target] not in wanted):
            continue
        script = matrix.script_of(model, problem)
        key = _key(matrix, agent, model, problem, ids[target], trial, decks[problem], scripts[script] if script else "")
        request = _request(matrix, places, agent, model, problem, ids[target], script, key)
        made.append(Cell(request, trial, hashlib.sha256(canonical(dict(decks[problem]))).hexdigest()))
    if len({cell.key for cell in made}) < len(made):
        raise RunError(f"{matrix.path} names the same cell twice: two of its targets are one")
    return made


def deck_digest(request: RunRequest) -> str:
    """The digest of a problem's files as this machine has them. Raises RunError where it has no such problem."""
    folder = paths.problems_dir(request.problems_dir)
    found = load_deck(folder).get(request.problem)
    if found is None:
        raise RunError(f"there is no problem `{request.problem}` in {folder}")
    return hashlib.sha256(canonical(dict(_files(found, paths.hardware_file(folder))))).hexdigest()


def _scripts(matrix: Matrix) -> Iterator[Path]:
    for model, problem in product(matrix.models, matrix.problems):
        here = [(agent, target) for agent, target in product(matrix.agents, matrix.targets)
                if not _skipped(matrix, agent, model, problem, target)]  # fmt: skip
        script = matrix.script_of(model, problem)
        if script is not None and here:
            yield script


def _script(path: Path) -> str:
    """The version of a script or solution: the hash of its file, and of the files that it names."""
    digest = _digest(path)
    if path.suffix == SOLUTION_SUFFIX or b"content_file" not in path.read_bytes():
        return digest
    try:
        return hashlib.sha256(f"{digest} {load_script(path)!r}".encode()).hexdigest()
    except ScriptError as error:
        raise RunError(str(error)) from None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RunError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _files(problem: Problem, hardware: Path) -> Mapping[str, str]:
    """The version of a problem: the hashes of its files, and of its prompt."""
    prompt = Path(problem.path).parent / PROMPT
    more = {PROMPT: _digest(prompt)} if prompt.is_file() else {}
    return {**problem_files(problem, hardware), **more}


def _need_no_run(matrix: Matrix, problem: Problem) -> None:
    """Raises RunError where strict gradings without evidence could accept nothing at all."""
    for promise in problem.promises:
        if "run" in promise.settled_by:
            raise RunError(
                f"{matrix.path}: nothing can pass on {problem.id}: --strict asks that a second run shows its promise "
                f"{promise.id} kept, and `grading: {{evidence: false}}` leaves that run out; take `evidence: false` "
                "out, or add `strict: false`"
            )


def _skipped(matrix: Matrix, agent: AgentRow, model: ModelRow, problem: str, target: str) -> bool:
    if not matrix.has(model, problem):
        return True
    here = {"agent": agent.name, "model": model.name, "problem": problem, "target": target}
    return any(all(here[axis] == name for axis, name in one.items()) for one in matrix.skip)


def _key(
    matrix: Matrix, agent: AgentRow, model: ModelRow, problem: str, target: str, trial: int, deck: Mapping[str, str],
    script: str,
) -> str:  # fmt: skip
    package = adapter_named(agent.name).package
    parts: dict[str, Any] = {
        "format": FORMAT, "agent": agent.name, "version": __version__ if package is None else package.version,
        "effort": agent.effort, "arguments": list(agent.arguments), "model": model.name, "script": script,
        "problem": problem, "deck": dict(deck), "target": target, "trial": trial, "budget_s": matrix.budget_s,
        "run_usd": matrix.run_usd, "calls": matrix.calls, "silence_s": matrix.silence_s, "strict": matrix.strict,
        "evidence": matrix.evidence, "samples": matrix.samples, "sealed": matrix.sealed, "gpu": matrix.gpu,
    }  # fmt: skip
    return hashlib.sha256(canonical(parts)).hexdigest()


def _request(
    matrix: Matrix, places: Places, agent: AgentRow, model: ModelRow, problem: str, target: str, script: Path | None,
    key: str,
) -> RunRequest:  # fmt: skip
    return RunRequest(
        agent.name, model.name, problem, budget_s=matrix.budget_s, effort=agent.effort, target=target, out=places.out,
        problems_dir=places.problems_dir, routes=places.routes, script=script, prefix=places.prefix,
        mounts=agent.mounts, arguments=agent.arguments, sealed=matrix.sealed, gpu=matrix.gpu, strict=matrix.strict,
        samples=matrix.samples, evidence=matrix.evidence, known=places.known, sweep_key=key,
        caps=Caps(calls=matrix.calls, cost_usd=matrix.run_usd, silent_s=matrix.silence_s),
    )  # fmt: skip
