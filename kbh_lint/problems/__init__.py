"""The problems of a deck and the GPUs that it is scored on: their types (`model`), and reading them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kbh_lint import marked
from kbh_lint.marked import DataError as ProblemError
from kbh_lint.problems.files import problem_of, read_problem
from kbh_lint.problems.hardware import read_targets
from kbh_lint.problems.model import (
    ArgSpec,
    Argument,
    Ban,
    Binding,
    Compare,
    Contract,
    EntryPoint,
    Exemption,
    Legal,
    OutputSpec,
    Problem,
    Promise,
    Quantifier,
    Shape,
    StateSpec,
    Stress,
    StructureCase,
    Target,
    TensorSpec,
)

__all__ = [
    "ArgSpec", "Argument", "Ban", "Binding", "Compare", "Contract", "Deck", "EntryPoint", "Exemption", "Legal",
    "OutputSpec", "Problem", "ProblemError", "Promise", "Quantifier", "Shape", "StateSpec", "Stress", "StructureCase",
    "Target", "TensorSpec", "find_target", "load_deck", "load_problem", "load_targets", "parse_problem",
]  # fmt: skip


class Deck(Mapping[str, Problem]):
    """The problems of a folder by id; each is read when it is first asked for, which is when ProblemError may come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[str, Problem] = {}
        self._ids: tuple[str, ...] | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids, sorted; no file is read for it."""
        if self._ids is None:
            self._ids = tuple(sorted(path.parent.name for path in self._folder.glob("*/problem.yaml")))
        return self._ids

    def path(self, problem_id: str) -> Path:
        """The path of the problem's file."""
        return self._folder / problem_id / "problem.yaml"

    def __getitem__(self, problem_id: str) -> Problem:
        if problem_id not in self._loaded:
            if problem_id not in self.ids:
                raise KeyError(problem_id)
            self._loaded[problem_id] = load_problem(self.path(problem_id))
        return self._loaded[problem_id]

    def __contains__(self, problem_id: object) -> bool:
        return problem_id in self.ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)


def load_deck(folder: str | Path) -> Deck:
    """The problems under a folder, one `<id>/problem.yaml` each; lazy. An absent folder is an empty deck."""
    return Deck(Path(folder))


def load_problem(path: str | Path) -> Problem:
    """One problem from its `problem.yaml`. Raises ProblemError naming file and line."""

    return read_problem(Path(path))


def parse_problem(text: str, path: str | Path) -> Problem:
    """The problem that `text` describes, as if it stood in `path`. Raises ProblemError naming file and line."""

    return problem_of(marked.load(text, str(path)), Path(path))


def load_targets(path: str | Path) -> dict[str, Target]:
    """The GPUs of `problems/hardware.yaml` by id. Raises ProblemError naming file and line."""

    return read_targets(Path(path))


def find_target(targets: Mapping[str, Target], name: str) -> Target | None:
    """The target that a run or a command line calls `name`: an id, or one of its other names; case does not matter."""
    wanted = " ".join(name.replace("-", " ").replace("_", " ").lower().split())
    for target in targets.values():
        if wanted in (target.id.replace("_", " "), *target.names):
            return target
    return None
