"""What an agent must not see, known by its own words: the distinctive lines of every such file.

A line is distinctive when it has LEAST letters and digits and stands in the files of one problem (or in one other
file) only: what several problems share is an idiom. bench/contamination.py measures what independent work shares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from grader.record.bundle.packed import SUFFIX, unpacked
from kbh_lint.base.paths import problems_dir

__all__ = [
    "HEX",
    "Index",
    "Source",
    "build",
    "checkout",
    "hidden_index",
    "hidden_texts",
    "lines_of",
    "look_up",
    "plain_lines",
    "texts_of",
]

LEAST = 32  # letters and digits
MOST_LINE = 2000  # characters; longer ones are data on one line
MOST_FILE = 4 << 20  # bytes of a file that is indexed
MOST_DEPTH = 40
# Given to the agent, or rendered into what is given.
_GIVEN = frozenset(("prompt.md", "prompt.in.md", "problem.yaml"))
_SUFFIXES = frozenset((".py", ".json", ".yaml", ".md", ".cu", ".cuh", ".h", ".txt"))
# Other folders of a checkout, each with what its files are called in a finding. A wheel has none of them.
_BESIDE = (
    "results", "examples", "tests/idioms", "tests/variants", "tests/hostile", "docs/results-h200.md",
    "tools/seed_audit.yaml",
)  # fmt: skip
_OPEN = "examples/toy/"  # a problem for tests and benches, of which no agent is scored
HEX = re.compile(r"[0-9a-f]{64}")  # a SHA-256 or a key of ours
# What stands before a line when a tool shows it: `12→`, `file.py:12:`, `+`, `> `.
_BEFORE = re.compile(r"(?:[\w./+-]{0,200}[:-])?\d{1,7}[:→|\-]? ?|[-+>|] ?")
_LETTERS = re.compile(r"[^\W_]")
_BOILERPLATE = (
    "import ",
    "from ",
    "def forward(",
    "def __init__(",
    "self.register_buffer(",
    "torch.testing.",
    "#include",
)


@dataclass(frozen=True, slots=True)
class Source:
    """A file that is known: its label for people, and the group within which lines may repeat."""

    label: str
    group: str


@dataclass(frozen=True, slots=True)
class Index:
    """Which sources have a line, or a number of 64 hexadecimal digits."""

    sources: tuple[Source, ...]
    lines: Mapping[str, tuple[int, ...]]
    numbers: Mapping[str, int] = field(default_factory=dict)


def checkout() -> Path | None:
    """The folder of this project's checkout; None when it runs from an installation."""
    here = Path(__file__).resolve().parents[2]
    return here if (here / "pyproject.toml").is_file() and (here / "problems").is_dir() else None


def plain_lines(text: str) -> Iterator[str]:
    """The lines of a text that are neither short nor huge (LEAST to MOST_LINE characters), runs of blanks made one."""
    for line in text.splitlines():
        if LEAST <= len(line) <= MOST_LINE:
            yield " ".join(line.split())


def lines_of(text: str) -> set[str]:
    """The distinct lines of a text that are long enough to be distinctive."""
    return {
        line
        for line in plain_lines(text)
        if not line.startswith(_BOILERPLATE) and len(_LETTERS.findall(line)) >= LEAST and not HEX.search(line)
    }


def build(files: Iterable[tuple[Source, str]]) -> Index:
    """The index of some texts: lines that only one group has."""
    sources: list[Source] = []
    owners: dict[str, list[int]] = {}
    numbers: dict[str, int] = {}
    for source, text in files:
        sources.append(source)
        for line in lines_of(text):
            owners.setdefault(line, []).append(len(sources) - 1)
        for number in HEX.findall(text):
            numbers.setdefault(number, len(sources) - 1)
    lines = {line: tuple(of) for line, of in owners.items() if len({sources[at].group for at in of}) == 1}
    return Index(tuple(sources), lines, numbers)


def look_up(text: str, index: Index) -> tuple[set[str], set[str]]:
    """The lines and the numbers of an index that a text holds, also behind line numbers and marks of a diff."""
    found: set[str] = set()
    known = index.lines
    if not index.sources:
        return found, set()
    for line in plain_lines(text):
        if line in known:
            found.add(line)
        elif (before := _BEFORE.match(line)) is not None and (rest := line[before.end() :].strip()) in known:
            found.add(rest)
    numbers = {number for number in HEX.findall(text) if number in index.numbers} if index.numbers else set()
    return found, numbers


@lru_cache(maxsize=2)
def hidden_index(root: Path | None = None) -> Index:
    """The index of all that no agent must see: the deck, the grader, this package and, in a checkout, what is beside.

    `root` is the checkout (by default this one's, or the installation).
    """
    return build(hidden_texts(root or checkout()))


def hidden_texts(root: Path | None) -> Iterator[tuple[Source, str]]:
    """Every file that no agent must see, with its text: of a checkout, or of the installation where it is None."""
    deck = root / "problems" if root is not None else problems_dir()
    for file in _files(deck):
        parts = file.relative_to(deck).parts
        if file.name not in _GIVEN:
            yield from _one(file, "/".join(("problems", *parts)), parts[0])
    packages = root or Path(__file__).resolve().parents[2]
    for name in ("grader", "harness"):
        for file in _files(packages / name):
            label = file.relative_to(packages).as_posix()
            yield from _one(file, label, label)
    for name in _BESIDE if root is not None else ():
        assert root is not None
        yield from _beside(root / name, root)
        for archive in sorted((root / name).glob(f"*{SUFFIX}")):  # of bundles, as if they lay there as folders
            with unpacked(archive) as place:
                yield from _beside(place, place.parent, f"{name}/")


def _beside(place: Path, root: Path, before: str = "") -> Iterator[tuple[Source, str]]:
    """The files of a folder that lies beside the deck, labelled from `root` on."""
    for file in _files(place):
        label = before + file.relative_to(root).as_posix()
        if label.startswith(_OPEN):
            continue
        # A result, a variant and a solution of the deck are of one problem.
        group = next((part[:2] + part[2:].partition("-")[0] for part in Path(label).parts if part[:2].isdigit()), label)
        yield from _one(file, label, group)


def _files(place: Path) -> Sequence[Path]:
    if place.is_file():
        return [place]
    return sorted(file for file in place.rglob("*") if file.suffix in _SUFFIXES and file.is_file())


def _one(file: Path, label: str, group: str) -> Iterator[tuple[Source, str]]:
    try:
        if file.stat().st_size <= MOST_FILE:
            yield Source(label, group), file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # it was removed meanwhile


def texts_of(text: str) -> list[str]:
    """A text as it stands, and what it says where it is JSON or has escaped line ends."""
    found = [text]
    start = text[:200].lstrip()[:1]
    if start and start in '{["':
        try:
            found += _strings(json.loads(text), 0)
            return found
        except (ValueError, RecursionError):
            pass
    if "\\n" in text:
        found.append(text.replace("\\n", "\n").replace("\\t", " ").replace('\\"', '"').replace("\\\\", "\\"))
    return found


def _strings(value: object, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > MOST_DEPTH or not isinstance(value, (dict, list)):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [text for item in inner for text in _strings(item, depth + 1)]
