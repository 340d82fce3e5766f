"""What others said of their runs: annotations in YAML or JSON, scores on leaderboards, KernelBench's results.

Any of it may be hostile: sizes, depths and numbers of rows are bounded, YAML makes plain values only, and of each text
no more is kept than is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.audit.reading import AuditError
from kbh_lint.marked import DataError, load_any
from kbh_lint.report.text import one_line

__all__ = ["RUN", "Theirs", "parse", "results", "rows", "scores", "theirs"]

MOST_ROWS = 50_000
MOST_LINES = 200
MOST_SAID = 2_000
MOST_WALK = 2_000_000
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@,~-]{0,239}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,39}")
_RUN_KEYS = ("run_id", "run", "id")
_FILE_KEYS = ("file", "path")
_VERDICT_KEYS = ("verdict", "label")
_SOLUTIONS = ("", "solution.py")


@dataclass(frozen=True, slots=True)
class Theirs:
    """What an archive says of a run. `word` is its verdict, empty where it has none; `lines` are those of the solution
    that it points at; `said` its reason, which is theirs and is shown only where sources are. `at` is where it was
    read."""

    word: str = ""
    lines: tuple[int, ...] = ()
    said: str = ""
    at: str = ""
    problem: str = ""
    board: str = ""
    model: str = ""
    score: float | None = None
    sha256: str = ""


@dataclass(slots=True)
class Row:
    """A row of `--annotations` or `--only`: the run or file that it names, and what it says."""

    run: str
    file: str
    theirs: Theirs
    source: str = ""


def parse(data: bytes, name: str) -> Any:
    """What a JSON or YAML file holds. Raises AuditError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise AuditError(f"{name} is not UTF-8") from None
    if text.lstrip()[:1] in ("{", "[") or name.endswith(".json"):
        try:
            return json.loads(text)
        except RecursionError:
            raise AuditError(f"{name} nests too deeply") from None
        except ValueError as error:
            if not name.endswith((".yaml", ".yml")):
                raise AuditError(f"{name} is not JSON ({one_line(str(error))[:120]})") from None
    try:
        return load_any(text, name)
    except DataError as error:
        raise AuditError(str(error)) from None


def rows(value: object, name: str) -> list[Row]:
    """The rows of a list of annotations, or of runs. Raises AuditError where it is no such list."""
    if isinstance(value, Mapping) and isinstance(value.get("annotations"), list):
        value = value["annotations"]
    if isinstance(value, Mapping):  # by run
        value = [
            {"run_id": key, **(one if isinstance(one, Mapping) else {"verdict": one})} for key, one in value.items()
        ]
    if not isinstance(value, list):
        raise AuditError(f"{name} must hold a list of rows with run_id or file, and a verdict or label")
    if len(value) > MOST_ROWS:
        raise AuditError(f"{name} holds more than {MOST_ROWS:,} rows")
    return [_row(one, number, name) for number, one in enumerate(value, 1)]


def _row(one: object, number: int, name: str) -> Row:
    if isinstance(one, str):
        one = {"run_id": one}
    known: Mapping[str, Any] = one if isinstance(one, Mapping) else {}
    run, file = _first(known, _RUN_KEYS), _first(known, _FILE_KEYS)
    if not run and not file:
        raise AuditError(f"row {number} of {name} names neither a run_id nor a file")
    if run and not RUN.fullmatch(run):
        raise AuditError(f"row {number} of {name} names the run {one_line(run)[:80]!r}, which no run can be called")
    return Row(run, file, theirs(known, name.rsplit("/", 1)[-1]), _first(known, ("source",)))


def theirs(one: Mapping[str, Any], at: str) -> Theirs:
    """What a mapping states of a run (verdict, lines, score, model); a field of a wrong type counts as missing."""
    word = _first(one, _VERDICT_KEYS).strip()
    score = one.get("peak_fraction", one.get("score"))
    said = one.get("why") or one.get("summary") or ""
    return Theirs(
        word=word if _WORD.fullmatch(word) else ("unreadable" if word else ""),
        lines=tuple(_lines(one)), said=one_line(said[:MOST_SAID]) if isinstance(said, str) else "", at=at,
        problem=_name(one.get("problem")), board=_name(one.get("board")), model=_name(one.get("model")),
        score=_number(score), sha256=_name(one.get("sha256")),
    )  # fmt: skip


def _lines(one: Mapping[str, Any]) -> list[int]:
    """Lines of the solution that an annotation points at, itself or in its quotes."""
    found: list[int] = []
    quotes = one.get("quotes")
    places = [
        one,
        *(quote for quote in (quotes if isinstance(quotes, list) else [])[:50] if isinstance(quote, Mapping)),
    ]
    for place in places:
        file, lines = place.get("file", ""), place.get("lines", place.get("line"))
        if place is not one and (not isinstance(file, str) or file.rsplit("/", 1)[-1] not in _SOLUTIONS):
            continue
        listed = lines if isinstance(lines, list) else [lines]
        numbers = [number for number in listed[:MOST_LINES] if type(number) is int and 0 < number < 10_000_000]
        if place is not one and len(numbers) == 2:  # a quote goes from one line to another
            numbers = list(range(numbers[0], min(numbers[1], numbers[0] + MOST_LINES) + 1)) or numbers
        found += numbers
    return sorted(set(found))[:MOST_LINES]


def _first(one: Mapping[str, Any], keys: Sequence[str]) -> str:
    return next((value for key in keys if isinstance(value := one.get(key), str) and value), "")


def _name(value: object) -> str:
    return one_line(value[:200]) if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    """A score; None for what is no number that JSON could hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e12 < value < 1e12:
        return None
    return float(value)


# --- boards ------------------------------------------------------------------------------------------------


def scores(value: object) -> Iterator[tuple[str, float | None, str]]:
    """Yields (run, score, model) of every run that a leaderboard names, however deep it stands."""
    left = [MOST_WALK]
    stack: list[tuple[Any, str]] = [(value, "")]
    while stack and left[0] > 0:
        one, model = stack.pop()
        left[0] -= 1
        if isinstance(one, Mapping):
            model = _name(one.get("model") or one.get("label")) or model
            run = one.get("run_id")
            if isinstance(run, str) and RUN.fullmatch(run):
                yield run, _number(one.get("peak_fraction", one.get("score"))), model
            stack += [(item, model) for item in one.values() if isinstance(item, (Mapping, list))]
        elif isinstance(one, list):
            stack += [(item, model) for item in one if isinstance(item, (Mapping, list))]


def results(value: object, name: str) -> dict[tuple[int, int], Theirs]:
    """KernelBench's `eval_results.json`: by problem and sample, whether the benchmark counts it. Raises AuditError."""
    if not isinstance(value, Mapping):
        raise AuditError(f"{name} must hold results by problem")
    found: dict[tuple[int, int], Theirs] = {}
    for key, samples in list(value.items())[:MOST_ROWS]:
        if not isinstance(key, str) or not key.isdecimal() or len(key) > 6:
            continue
        for position, one in enumerate((samples if isinstance(samples, list) else [samples])[:1000]):
            if isinstance(one, Mapping):
                sample = one.get("sample_id", position)
                counted = one.get("compiled") is not False and one.get("correctness") is True
                word = "counted" if counted else "not_counted"
                if type(sample) is int:
                    found[int(key), sample] = Theirs(word=word, at=name)
    return found
