"""Is a solution a known one? By runs of normalised tokens that names, layout, comments and other numbers do not change.

Tokens and hashes are those of kbh_lint.fingerprints: a name counts by the distance to its last use (so every name is
canonical), all numbers are one, and CUDA in strings is read as C++. Of the hashes of all runs of GRAM tokens the least
of each WINDOW is kept (winnowing), so a copied stretch of GRAM + WINDOW - 1 tokens shares one. bench/resemblance.py
prints what the two bounds rest on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.contamination.rules import finding
from harness.record.archive import ArchiveError, RunFolder, is_run
from harness.record.events import Finding
from kbh_lint.base.paths import problems_dir
from kbh_lint.fingerprints.functions import CPP_SUFFIXES, TOKEN_BYTES, cpp_functions, python_functions
from kbh_lint.fingerprints.store import GRAM, load, matches
from kbh_lint.source.sidecars import split_bundle

__all__ = ["ALIKE", "HELD", "Known", "Library", "Match", "known_library", "near_identical", "prints", "resemblance"]

WINDOW = 4
ALIKE = 0.6  # shared prints, of the larger of the two
HELD = 0.75  # shared prints, of the known one: it stands in a longer text
LEAST_PRINTS = 40  # a shorter solution says too little
LEAST_HELD = 100  # the same where only a part of the text is meant
MOST_FILE = 1 << 20  # bytes
MOST_KNOWN = 2000
MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Known:
    """A solution that is known, by a label for people."""

    label: str
    prints: frozenset[int]


@dataclass(frozen=True, slots=True)
class Library:
    """Known solutions of a problem. `given` are the prints of what the agent was given: they count for nothing."""

    known: tuple[Known, ...]
    given: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Match:
    """A known solution that a text resembles: the share of its prints that the text has, and of the larger one's."""

    label: str
    held: float
    alike: float


def prints(text: str, sidecars: Sequence[str] = ()) -> frozenset[int]:
    """The winnowed hashes of a Python solution, of the CUDA in it, and of C++ files that it loads."""
    main, blocks, _ = split_bundle(text, "solution.py")
    functions = python_functions(main)
    more = [(block.name, block.text) for block in blocks.values() if not block.binary]
    for name, other in [*more, *(("sidecar.cu", one) for one in sidecars)]:
        functions += cpp_functions(other) if name.endswith(CPP_SUFFIXES) else python_functions(other)
    found: set[int] = set()
    width = GRAM * TOKEN_BYTES
    for function in functions:
        code = function.code
        hashes = [_mixed(code[at : at + width]) for at in range(0, len(code) - width + 1, TOKEN_BYTES)]
        found.update(min(hashes[at : at + WINDOW]) for at in range(max(min(len(hashes), 1), len(hashes) - WINDOW + 1)))
    return frozenset(found)


def _mixed(run: bytes) -> int:
    # crc32 of neighbouring runs is alike in its high bits; the least of a window must be any of them.
    return zlib.crc32(run) * 0x9E3779B1 & 0xFFFFFFFF


def resemblance(text: str | frozenset[int], library: Library, sidecars: Sequence[str] = ()) -> list[Match]:
    """The known solutions that a text (or its prints) is nearly identical to, the likest first."""
    own = (prints(text, sidecars) if isinstance(text, str) else text) - library.given
    found = []
    for known in library.known:
        held, alike, least = shares(own, known.prints - library.given)
        if (alike >= ALIKE and least >= LEAST_PRINTS) or (held >= HELD and least >= LEAST_HELD):
            found.append(Match(known.label, held, alike))
    return sorted(found, key=lambda match: (-match.alike, -match.held, match.label))


def shares(text: frozenset[int], known: frozenset[int]) -> tuple[float, float, int]:
    """Compares two sets of fingerprints: the shared ones as a share of the known set and of the larger one, and the
    size of the smaller one."""
    common, least = len(text & known), min(len(text), len(known))
    return (common / len(known), common / max(len(text), len(known)), least) if least else (0.0, 0.0, 0)


def near_identical(
    text: str, library: Library, *, sidecars: Sequence[str] = (), step: int = 0,
    earlier: Iterable[tuple[int, str]] = (),
) -> list[Finding]:  # fmt: skip
    """Findings of the final solution, the likest known ones first, and of functions of published libraries in it.

    `earlier` are (step, text) of its snapshots in order: a finding names the first that was as much alike.
    """
    found = resemblance(text, library, sidecars)
    first: dict[str, int] = {}
    for at, snapshot in earlier if found else ():
        for match in resemblance(snapshot, library):
            first.setdefault(match.label, at)
    out = []
    for match in found[:MOST_TOLD]:
        at = first.get(match.label, step)
        where = f"since step {at}" if at else "at the end"
        told = f"The solution is nearly identical to {match.label}, {where}."
        shown = f"{match.held:.0%} of its runs of {GRAM} tokens; {match.alike:.0%} of the longer one's"
        out.append(finding("near-identical", told, shown, step=at))
    functions = python_functions(text) + [one for other in sidecars for one in cpp_functions(other)]
    for held in matches(functions, load())[:MOST_TOLD]:
        told = (
            f"The solution holds `{held.function}` of {held.origin.name} {held.origin.version} ({held.origin.licence})."
        )
        shown = f"{held.share:.0%} of its prints, in {functions[held.where].name[:80]}"
        out.append(finding("library-code", told, shown, step=step))
    return out


# --- what is known -----------------------------------------------------------------------------------------


def known_library(
    problem: str, *, known: Sequence[Path] = (), out_dir: Path | None = None, not_by: tuple[str, str] = ("", ""),
    deck: Path | None = None,
) -> Library:  # fmt: skip
    """What a solution of a problem is compared with: the deck's honest solutions and decoys, files and archives below
    the folders `known`, and the runs of the problem in `out_dir`, without those `not_by` names (agent, model).
    """
    folder = (deck or problems_dir()) / problem
    found = [
        Known(
            f"{kind} solution {file.stem} of {problem}" if kind == "honest" else f"decoy {file.stem} of {problem}", made
        )
        for kind in ("honest", "decoys")
        for file in sorted((folder / kind).rglob("*.py"))
        if (made := _prints_of(file))
    ]
    for top in known:
        found += [Known(f"the known solution {label}", made) for label, made in _below(top)]
    if out_dir is not None:
        found += [Known(f"the run {name}", made) for name, made in _runs(out_dir, problem, not_by)]
    given = frozenset().union(*(_prints_of(file) for file in sorted(folder.glob("reference*.py"))))
    return Library(tuple(found[:MOST_KNOWN]), given)


def _below(top: Path) -> Iterator[tuple[str, frozenset[int]]]:
    files = [top] if top.is_file() else sorted(islice(top.rglob("*.py"), MOST_KNOWN))
    for file in files:
        label = file.parent.name if file.name == "solution.py" else file.stem
        if made := _prints_of(file):
            yield label, made


def _runs(out_dir: Path, problem: str, not_by: tuple[str, str]) -> Iterator[tuple[str, frozenset[int]]]:
    try:
        folders = sorted(islice(out_dir.iterdir(), MOST_KNOWN))
    except OSError:
        return
    for folder in folders:
        if folder.is_symlink() or not is_run(folder):
            continue
        try:
            record = RunFolder(folder).load()
        except ArchiveError:
            continue
        if record.problem == problem and (record.agent, record.model) != not_by:
            if made := _prints_of(folder / "solution.py"):
                yield record.run_id, made


def _prints_of(file: Path) -> frozenset[int]:
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_FILE:
            return frozenset()
        return prints(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return frozenset()
