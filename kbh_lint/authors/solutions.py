"""`solutions.yaml`: the honest solutions and the decoys of a problem."""

from __future__ import annotations

from pathlib import Path

from kbh_lint import marked
from kbh_lint.base.records import dataclass
from kbh_lint.marked import DataError, Fields, Items, Map

MAX_BYTES = 256 * 1024
LANGUAGES = ("triton", "cuda")
CPU_WAYS = ("interpreter", "native")


@dataclass(frozen=True, slots=True)
class Honest:
    """A solution that keeps every promise. `cpu` says how a CPU checks it, or why it cannot."""

    file: str
    language: str
    cpu: str
    line: int

    @property
    def runs_on_cpu(self) -> bool:
        """Whether a machine without a GPU can check the solution."""
        return self.cpu in CPU_WAYS


@dataclass(frozen=True, slots=True)
class Decoy:
    """A solution with right numbers by wrong means: the rule that must flag it, and the promise that it breaks."""

    file: str
    rule: str
    promise: str
    idea: str
    line: int


@dataclass(frozen=True, slots=True)
class Solutions:
    """Both lists, in the order of the file."""

    honest: tuple[Honest, ...] = ()
    decoys: tuple[Decoy, ...] = ()


def read_solutions(folder: Path) -> Solutions:
    """The solutions of a problem folder; none without a `solutions.yaml`. Raises DataError naming file and line."""
    path = folder / "solutions.yaml"
    if not path.is_file():
        return Solutions()
    if path.stat().st_size > MAX_BYTES:
        raise DataError(str(path), 1, f"the file is larger than {MAX_BYTES // 1024} KB")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(str(path), 1, "the file cannot be read as UTF-8 text") from None
    fields = Fields(marked.load(text, str(path)), str(path), "the solutions")
    honest = tuple(_honest(f, line, folder) for f, line in _entries(fields, "honest", "an honest solution"))
    decoys = tuple(_decoy(f, line, folder) for f, line in _entries(fields, "decoys", "a decoy"))
    fields.done()
    return Solutions(honest, decoys)


def _entries(fields: Fields, key: str, what: str) -> list[tuple[Fields, int]]:
    items = fields.items(key) if fields.data.get(key) is not None else Items(fields.data.line)
    fields.take(key)
    found = []
    for item, line in zip(items, items.lines, strict=True):
        if not isinstance(item, Map):
            raise DataError(fields.path, line, f"{what} must be a mapping")
        found.append((Fields(item, fields.path, what), line))
    return found


def _honest(fields: Fields, line: int, folder: Path) -> Honest:
    file = _inside(fields, folder)
    entry = Honest(file, fields.choice("language", LANGUAGES), fields.text("cpu"), line)
    fields.done()
    return entry


def _decoy(fields: Fields, line: int, folder: Path) -> Decoy:
    file = _inside(fields, folder)
    entry = Decoy(file, fields.text("rule"), fields.text("promise"), fields.text("idea"), line)
    fields.done()
    return entry


def _inside(fields: Fields, folder: Path) -> str:
    """The relative path of a file that must lie in the problem's folder."""
    file = fields.text("file")
    if Path(file).is_absolute() or not (folder / file).resolve().is_relative_to(folder.resolve()):
        raise fields.fail("file", f"`{file}` is not a path inside the problem's folder")
    return file
