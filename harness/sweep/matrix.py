"""The matrix of a sweep, read from YAML: strict, bounded, and told with the line where something is wrong."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.agents.registry import adapter_named
from harness.proxy.base import Caps
from harness.running.request import MOST_TRIALS, duration
from harness.scripted.script import SOLUTION_SUFFIX
from kbh_lint import marked
from kbh_lint.base import paths
from kbh_lint.marked import DataError, Fields, Items, Map
from kbh_lint.problems import load_deck

__all__ = ["MOST_CELLS", "AgentRow", "Matrix", "ModelRow", "read_matrix"]

MOST_BYTES = 1 << 20
MOST_ROWS = 500
MOST_CELLS = 100_000
MOST_ATTEMPTS = 20
MOST_USD = 1e7
PLACEHOLDER = "{problem}"
EVERY = "*"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,59}", re.ASCII)
_MODEL = re.compile(r"[A-Za-z0-9][\w.:@/+-]{0,199}", re.ASCII)
_AXES = ("agent", "model", "problem", "target")


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent with how it is started. `arguments` are those of the agent `command`."""

    name: str
    effort: str = ""
    arguments: tuple[str, ...] = ()
    mounts: tuple[Path, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model by its route, or a name for what a script says, or for a file that is handed in as the solution.

    `script` and `solution` may hold {problem}. A row whose `solution` had a `*` is a row for each text that the `*`
    stands for, and `sparse`: there are no cells where it has no file.
    """

    name: str
    script: str = ""
    line: int = 0
    solution: str = ""
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """Agents x models x problems x targets x trials, without those that `skip` names (axis: value).

    `budget_s` is wall clock of one agent. `run_usd` and `sweep_usd` are caps in US dollars, None for none. `attempts`
    are made of a cell whose runs end as an ERR.
    """

    name: str
    path: Path
    agents: tuple[AgentRow, ...]
    models: tuple[ModelRow, ...]
    problems: tuple[str, ...]
    targets: tuple[str, ...]
    trials: int
    budget_s: float
    run_usd: float | None = None
    sweep_usd: float | None = None
    calls: int = Caps().calls
    silence_s: float = Caps().silent_s
    strict: bool = True
    evidence: bool = True
    samples: int | None = None
    sealed: bool = True
    gpu: str = "room"
    attempts: int = 3
    skip: tuple[dict[str, str], ...] = field(default=())

    def script_of(self, model: ModelRow, problem: str) -> Path | None:
        """The file of a script or solution for a problem, beside the matrix's own; None for a model behind a route."""
        if not (model.script or model.solution):
            return None
        return self.path.parent / (model.script or model.solution).replace(PLACEHOLDER, problem)

    def has(self, model: ModelRow, problem: str) -> bool:
        """Whether the matrix has cells of `model` on `problem`."""
        file = self.script_of(model, problem)
        return not model.sparse or file is None or file.is_file()


def read_matrix(path: Path, problems_dir: Path | None = None) -> Matrix:
    """The matrix in a file; problems "*" are all that a deck grades. Raises DataError, with the line, and OSError."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise DataError(str(path), 1, f"a matrix has {MOST_BYTES:,} bytes at most")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError(str(path), 1, "a matrix is UTF-8 text") from None
    return _matrix(Fields(marked.load(text, str(path)), str(path), "the matrix"), path, problems_dir)


def _matrix(fields: Fields, path: Path, problems_dir: Path | None) -> Matrix:
    name = fields.text("name")
    if _NAME.fullmatch(name) is None:
        raise fields.fail("name", f"{name[:60]!r} is no name: letters, digits, dot, dash and underscore, at most 60")
    agents = tuple(_agent(fields, *row) for row in _rows(fields, "agents"))
    problems = _graded(fields, problems_dir) if fields.data.get("problems") == EVERY else _words(fields, "problems")
    models = tuple(
        model for row in _rows(fields, "models") for model in _models(fields, _model(fields, *row), path, problems)
    )
    targets = _words(fields, "targets")
    trials = int(_number(fields, "trials", 1, 1, MOST_TRIALS, whole=True) or 1)
    budget_s = _duration(fields, "budget", None)
    attempts = int(_number(fields, "attempts", 3, 1, MOST_ATTEMPTS, whole=True) or 3)
    _once(fields, "agents", [repr((a.name, a.effort, a.arguments)) for a in agents])
    _once(fields, "models", [model.name for model in models])
    caps, grading, room = (_part(fields, key) for key in ("caps", "grading", "room"))
    if "auto" in targets:
        raise fields.fail(
            "targets", "a target is named: cpu, or a GPU of `kbh hardware`; auto would be another elsewhere"
        )
    made = Matrix(
        name, path, agents, models, problems, targets, trials, budget_s,
        run_usd=_number(caps, "run_usd", None, 0.0, MOST_USD),
        sweep_usd=_number(caps, "sweep_usd", None, 0.0, MOST_USD),
        calls=int(_number(caps, "calls", Caps().calls, 1, 1_000_000, whole=True) or 1),
        silence_s=_duration(caps, "silence", Caps().silent_s),
        strict=_flag(grading, "strict"), evidence=_flag(grading, "evidence"),
        samples=_samples(grading), sealed=_flag(room, "sandbox"), gpu=room.choice("gpu", ("room", "judge"), "room"),
        attempts=attempts, skip=_skips(fields, agents, models, problems, targets),
    )  # fmt: skip
    if made.sweep_usd is not None and made.run_usd is None:
        raise caps.fail("sweep_usd", "a cap on the sweep can be kept only with `run_usd`, a cap on each run")
    for one in (caps, grading, room, fields):
        one.done()
    count = len(agents) * len(models) * len(problems) * len(targets) * trials
    if count > MOST_CELLS:
        raise DataError(str(path), 1, f"the matrix has {count:,} cells; a sweep has {MOST_CELLS:,} at most")
    return made


def _rows(fields: Fields, key: str) -> list[tuple[object, int]]:
    items: Items = fields.items(key)
    if not 1 <= len(items) <= MOST_ROWS:
        raise fields.fail(key, f"`{key}` of the matrix has 1 to {MOST_ROWS} rows, not {len(items)}")
    return list(zip(items, items.lines, strict=True))


def _row(fields: Fields, value: object, line: int, what: str) -> Fields:
    """A row, which is a mapping, or a text that is its `name`."""
    if isinstance(value, Map):
        return Fields(value, fields.path, what)
    row = Map(line)
    row["name"], row.lines["name"] = value, line
    return Fields(row, fields.path, what)


def _agent(fields: Fields, value: object, line: int) -> AgentRow:
    row = _row(fields, value, line, "an agent")
    name, effort = row.text("name"), row.text("effort", "")
    arguments = row.texts("arguments")
    mounts = tuple(Path(fields.path).parent / mount for mount in row.texts("mounts"))
    row.done()
    try:
        adapter = adapter_named(name)
    except ValueError as error:
        raise row.fail("name", str(error)) from None
    if effort and effort not in adapter.efforts:
        known = ", ".join(adapter.efforts) or "none"
        raise row.fail("effort", f"{name} does not know the effort {effort[:40]!r}; it knows: {known}")
    if bool(arguments) != (name == "command"):
        raise row.fail("arguments", "the agent `command`, and no other, takes `arguments`: a program and its own")
    return AgentRow(name, effort, arguments, mounts, line)


def _model(fields: Fields, value: object, line: int) -> ModelRow:
    row = _row(fields, value, line, "a model")
    name, script, solution = row.text("name"), row.text("script", ""), row.text("solution", "")
    row.done()
    if script and solution:
        raise row.fail("solution", "a model has a `script` or a `solution`, not both")
    if solution and not solution.endswith(SOLUTION_SUFFIX):
        raise row.fail("solution", f"`solution` is a Python file (*{SOLUTION_SUFFIX}), not {solution[:60]!r}")
    if name.count(EVERY) != solution.count(EVERY) or name.count(EVERY) > 1:
        raise row.fail("name", f"a `{EVERY}` stands once in the `name` and once in the `solution`, or in neither")
    if _MODEL.fullmatch(name.replace(EVERY, "x")) is None or (not script and not solution and "/" not in name):
        raise row.fail("name", f"{name[:60]!r} is no model: write ROUTE/MODEL, or give it a `script` or a `solution`")
    return ModelRow(name, script, line, solution, EVERY in solution)


def _models(fields: Fields, row: ModelRow, path: Path, problems: tuple[str, ...]) -> list[ModelRow]:
    """A row as it is, or a row for each text that the `*` of its `solution` stands for, over all problems."""
    if not row.sparse:
        return [row]
    found = set()
    for problem in problems:
        before, _, after = row.solution.replace(PLACEHOLDER, problem).partition(EVERY)
        folder, start = (path.parent / f"{before}x").parent, before.rpartition("/")[2]
        if "/" in after:
            raise DataError(fields.path, row.line, f"the `{EVERY}` of a `solution` stands in the file's name")
        with contextlib.suppress(OSError):
            names = [entry.name for entry in folder.iterdir() if entry.is_file()]
            found |= {
                name[len(start) : -len(after)]
                for name in names
                if name.startswith(start) and name.endswith(after) and len(name) > len(start) + len(after)
            }
    odd = sorted(name for name in found if _MODEL.fullmatch(row.name.replace(EVERY, name)) is None)
    if odd:
        raise DataError(fields.path, row.line, f"no model can be named after the file of {odd[0][:80]!r}")
    if not 1 <= len(found) <= MOST_ROWS:
        raise DataError(
            fields.path, row.line, f"{row.solution[:200]!r} names 1 to {MOST_ROWS} kinds of files, not {len(found)}"
        )
    return [
        replace(row, name=row.name.replace(EVERY, name), solution=row.solution.replace(EVERY, name))
        for name in sorted(found)
    ]


def _graded(fields: Fields, problems_dir: Path | None) -> tuple[str, ...]:
    """The graded problems of a deck, in their order."""
    folder = paths.problems_dir(problems_dir)
    fields.take("problems")
    found = tuple(name for name, problem in load_deck(folder).items() if problem.status == "graded")
    if not found:
        raise fields.fail("problems", f"there is no graded problem in {folder}")
    return found


def _words(fields: Fields, key: str) -> tuple[str, ...]:
    found = []
    for value, line in _rows(fields, key):
        if not isinstance(value, str) or _NAME.fullmatch(value) is None:
            raise DataError(fields.path, line, f"`{key}` of the matrix holds {str(value)[:40]!r}, which is no name")
        found.append(value)
    _once(fields, key, found)
    return tuple(found)


def _once(fields: Fields, key: str, names: list[str]) -> None:
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        lines = fields.data[key].lines
        line = lines[max(number for number, name in enumerate(names) if name == twice[0])]
        raise DataError(fields.path, line, f"`{key}` of the matrix holds {twice[0][:80]} twice")


def _part(fields: Fields, key: str) -> Fields:
    value = fields.take(key, Map(fields.data.line))
    if not isinstance(value, Map):
        raise fields.fail(key, f"`{key}` of the matrix must be a mapping")
    return Fields(value, fields.path, f"`{key}`")


def _number(
    fields: Fields, key: str, default: float | None, least: float, most: float, *, whole: bool = False
) -> float | None:
    value = fields.take(key, default)
    if value is None and key not in fields.data:
        return None
    if type(value) not in ((int,) if whole else (int, float)) or not math.isfinite(value) or not least <= value <= most:
        kind = "a whole number" if whole else "a number"
        raise fields.fail(key, f"`{key}` of {fields.what} must be {kind} from {least:g} to {most:g}")
    return float(value)


def _samples(fields: Fields) -> int | None:
    found = _number(fields, "samples", None, 3, 400, whole=True)
    return None if found is None else int(found)


def _flag(fields: Fields, key: str) -> bool:
    value = fields.take(key, True)
    if not isinstance(value, bool):
        raise fields.fail(key, f"`{key}` of {fields.what} must be true or false")
    return value


def _duration(fields: Fields, key: str, default: float | None) -> float:
    if key not in fields.data:
        if default is None:
            raise DataError(fields.path, fields.data.line, f"{fields.what} needs `{key}`, a length of time such as 45m")
        return default
    value = fields.take(key)
    try:
        return duration(str(value) if type(value) in (int, float, str) else "")
    except ValueError:
        raise fields.fail(key, f"`{key}` of {fields.what} must be a length of time, such as 45m or 90s") from None


def _skips(
    fields: Fields, agents: tuple[AgentRow, ...], models: tuple[ModelRow, ...], problems: tuple[str, ...],
    targets: tuple[str, ...],
) -> tuple[dict[str, str], ...]:  # fmt: skip
    """What is left out; a row must name values of the matrix, for a misspelt one would leave out nothing."""
    there = {"agent": {a.name for a in agents}, "model": {m.name for m in models}, "problem": set(problems),
             "target": set(targets)}  # fmt: skip
    found = []
    for value, line in _rows(fields, "skip") if "skip" in fields.data else ():
        if not isinstance(value, Map) or not value:
            raise DataError(fields.path, line, f"a row of `skip` is a mapping with some of {', '.join(_AXES)}")
        row = Fields(value, fields.path, "a row of `skip`")
        one = {axis: row.text(axis) for axis in _AXES if axis in value}
        row.done()
        for axis, name in one.items():
            if name not in there[axis]:
                raise row.fail(axis, f"the matrix has no {axis} {name[:60]!r}, so nothing is left out")
        found.append(one)
    return tuple(found)
