"""Which paths are problem folders, and which are submissions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kbh_lint.base.records import dataclass

PROBLEM = "problem.yaml"
FAULTS = "faults.yaml"
SUBMISSION = "solution.py"
MAX_ENTRIES = 2_000  # of one problem folder
_OURS = ("reference*.py", "legal.py", "library.py", "rows.py", "cases.py", "mutants.py")
_PARTS = ("honest", "decoys")


@dataclass(frozen=True, slots=True)
class Found:
    """Problem folders, folders of problems (each once, in order), and the paths that are neither."""

    problems: tuple[Path, ...]
    decks: tuple[Path, ...]
    rest: tuple[Path, ...]


def find(paths: Iterable[Path], *, authors: bool = False) -> Found:
    """Sorts the paths of a command line.

    A problem folder holds `problem.yaml` and no `solution.py` (that is an agent's workspace). A path may be such a
    folder, its `problem.yaml`, or a folder whose subfolders are problem folders. Python files in them that are no part
    of a problem stay submissions: nothing escapes the linter by lying beside a `problem.yaml`. With `authors`, any
    path inside a problem folder stands for that folder (a pre-commit hook names the files that changed).
    """
    problems: dict[Path, None] = {}
    decks: dict[Path, None] = {}
    rest: dict[Path, None] = {}
    for path in paths:
        owner = _owner(path) if authors else None
        if owner is not None:
            problems[owner] = None
        elif authors and path.name == FAULTS and any(_folders(path.parent)):
            decks[path.parent] = None
        elif path.name == PROBLEM and is_problem(path.parent):
            problems[path.parent] = None
        elif is_problem(path):
            problems[path] = None
        elif path.is_dir() and any(_folders(path)):
            decks[path] = None
            problems.update(dict.fromkeys(_folders(path)))
            rest.update(dict.fromkeys(_beside(path)))
        elif not authors:
            rest[path] = None
    for folder in problems:
        rest.update(dict.fromkeys(strangers(folder)))
    return Found(tuple(problems), tuple(decks), tuple(rest))


def is_problem(folder: Path) -> bool:
    """Whether a folder is a problem's."""
    return (folder / PROBLEM).is_file() and not (folder / SUBMISSION).exists()


def strangers(folder: Path) -> Iterator[Path]:
    """Python files of a problem folder that are no part of a problem."""
    ours = {path for pattern in _OURS for path in folder.glob(pattern)}
    for index, path in enumerate(sorted(folder.rglob("*.py"))):
        if index >= MAX_ENTRIES:
            return
        inside = path.relative_to(folder).parts
        if path not in ours and inside[0] not in _PARTS and not any(part.startswith((".", "__")) for part in inside):
            yield path


def _owner(path: Path) -> Path | None:
    """The nearest problem folder that holds a path."""
    return next((folder for folder in (path, *path.parents) if is_problem(folder)), None)


def _folders(deck: Path) -> Iterator[Path]:
    try:
        children = sorted(deck.iterdir())
    except OSError:
        return
    yield from (child for child in children if is_problem(child))


def _beside(deck: Path) -> Iterator[Path]:
    """What else in a deck holds Python files."""
    for child in sorted(deck.iterdir()):
        if child.name.startswith((".", "__")) or is_problem(child):
            continue
        if child.suffix == ".py" or (child.is_dir() and next(child.rglob("*.py"), None) is not None):
            yield child
