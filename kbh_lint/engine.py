"""From a submission to facts and promise states: front ends, host trace, analyses, agreed over shapes and paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from kbh_lint import kernelbench
from kbh_lint.analyses import said
from kbh_lint.analyses.agreement import UNTRIED, across_targets, agree, differing
from kbh_lint.analyses.coverage import asks_for_heights
from kbh_lint.analyses.entries import entry_facts, split_by_shape
from kbh_lint.analyses.flow import last_call, reach
from kbh_lint.analyses.reference import Traits, traits
from kbh_lint.analyses.seeds import ShapeFacts, merge, span_of
from kbh_lint.analyses.shape_facts import shape_facts
from kbh_lint.analyses.steering import steered
from kbh_lint.analyses.tracing import trace_lines
from kbh_lint.analyses.whole_file.program import file_facts
from kbh_lint.analyses.whole_file.vendored import vendored_facts
from kbh_lint.base import architectures, ir
from kbh_lint.base.facts import BrokenPromise
from kbh_lint.base.limits import Budgets
from kbh_lint.base.paths import hardware_file
from kbh_lint.base.records import dataclass
from kbh_lint.findings import NOTHING_FOLLOWED, Analysis, Fact, PromiseState, Related, Unread, fact_of
from kbh_lint.frontends import python
from kbh_lint.frontends.walk import forget_nodes
from kbh_lint.host.explore.exploration import MAX_FORCED, explore, run_path, run_reduced
from kbh_lint.host.values.path_runs import PathRun
from kbh_lint.host.values.run_state import Hole, HoleKind
from kbh_lint.host.values.session import Session, Shared
from kbh_lint.marked import DataError
from kbh_lint.problems import Contract, Problem, Target, load_problem, load_targets
from kbh_lint.source.embedded import FileText, Piece, Text
from kbh_lint.source.profiles import PROFILES
from kbh_lint.source.submissions import Submission
from kbh_lint.verdict import combine

MAX_UNREAD = 40
MAX_EVIDENCE = 8
REFERENCE = "reference.py"


def analyse(submission: Submission, *, problems_dir: Path, trace: bool = False, raise_errors: bool = False) -> Analysis:
    """Everything that can be proved about one submission. Nothing of it is imported or executed.

    With `raise_errors` an error of ours that ends a run is raised, which else is a reason for `unproven`.
    Raises ProblemError when the problem's own data cannot be read.
    """
    problem, hole, known = _problem(problems_dir, submission)
    module = _lowered(submission)
    if isinstance(module, Unread):
        return Analysis(unread=(module,), contract=None)
    graded = problem if problem is not None and problem.shapes and problem.contracts else None
    runs = _explored(submission, module, problems_dir, problem, graded, raise_errors)
    paths = [p for group in runs.groups for p in group]
    default = paths[0]
    contract = default.contract
    judged = _Judged()
    if graded is not None and contract is not None:
        judged = _judged(graded, contract, runs, _reference(problems_dir, graded, contract) if known is None else known)
    shapes = judged.shapes
    foreign = vendored_facts(module, submission.sidecars, runs.sessions[0].lowered.values(), problem, paths)
    whole = ShapeFacts("", [*file_facts(module, paths, judged.per_path, judged.reference), *foreign])
    apart = entry_facts(runs.sessions[0]) if not default.failed and (contract is None or contract.call) else []
    promises = _promises(graded, contract, shapes) if graded is not None and contract is not None else ()
    analysis = Analysis(
        facts=(*merge([*shapes, *apart, whole]), *broken_promises(promises)),
        promises=promises,
        unread=(*hole, *_unfollowed(problem, graded, contract, hole), *_unread(module, default, shapes)),
        contract=contract.id if contract is not None else None,
        notes=(*_notes(problem, default), *judged.notes),
        trace=tuple(trace_lines(default)) if trace else None,
        shares={shape.label: shape.shares for shape in shapes if shape.shares},
        doubtful=merge([replace(shape, seeds=shape.doubtful) for shape in shapes if shape.doubtful]),
    )
    for session in (*runs.sessions, *runs.beside):
        session.close()
    forget_nodes()
    return analysis


def _lowered(submission: Submission) -> ir.Module | Unread:
    """The submission's Python; why it cannot be read."""
    try:
        return python.lower(submission.text, str(submission.path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        return Unread(f"line {line} is not Python: {getattr(error, 'msg', error)}")
    except (python.TooDeep, RecursionError, MemoryError):
        return Unread("the program nests too deeply to be read")


@dataclass(frozen=True, slots=True)
class _Explored:
    """What was followed of a submission: a session a GPU, each with its paths. Those beside follow the top level alone,
    on GPUs of other generations."""

    sessions: list[Session]
    groups: list[list[PathRun]]
    beside: list[Session]


_OF_GPUS = ("apabilit", "APABILIT", "ropert", "device_name", "current_target", ".arch")  # in what asks for the GPU


def _explored(
    submission: Submission, module: ir.Module, problems_dir: Path, problem: Problem | None, graded: Problem | None,
    raise_errors: bool,
) -> _Explored:  # fmt: skip
    """Follows a submission on its target, and on others where it asks which GPU it has."""
    files = _own_reference(submission, problems_dir, problem) | sidecar_texts(submission)
    binaries = {name for name, sidecar in submission.sidecars.items() if sidecar.binary}
    target = _target(problems_dir, submission.target)
    capability = _capability(target)
    heights = graded is not None and asks_for_heights(graded)
    several = any(word in text for text in (submission.text, *files.values()) for word in _OF_GPUS)
    budgets, shared = Budgets(), Shared(heights, several)

    def on(gpu: tuple[int, int], named: Target | None = None) -> Session:
        known = partial(_gpu, problems_dir, gpu, named)
        return Session(module, files, gpu, budgets, known, raise_errors, binaries, shared)

    sessions = [on(capability, target)]
    groups = [explore(session, graded, None, MAX_FORCED) for session in sessions]
    default = groups[0][0]
    asks = any(kind == "capability-read" for kind, _, _ in default.notes)
    if submission.target is None and asks:
        more = [on(gpu) for gpu in architectures.DECK[1:]]
        groups += [explore(session, graded, None, MAX_FORCED) for session in more]
        sessions += more
    beside = [on(gpu) for gpu in architectures.GENERATIONS if gpu[0] != capability[0]] if asks else []
    if asks:
        default.elsewhere = [run_path(session, None, None, {}) for session in beside]
    return _Explored(sessions, groups, beside)


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the graded shapes show, agreed, and of each path; empty where no contract is graded."""

    shapes: list[ShapeFacts] = field(default_factory=list)
    per_path: list[list[ShapeFacts]] = field(default_factory=list)
    reference: Traits = field(default_factory=Traits)
    notes: tuple[str, ...] = ()


def _judged(graded: Problem, contract: Contract, runs: _Explored, reference: Traits) -> _Judged:
    """Asks all paths on all graded shapes, and puts together what they and all GPUs agree on."""
    per_path: list[list[ShapeFacts]] = []
    per_target: list[list[ShapeFacts]] = []
    for session, group in zip(runs.sessions, runs.groups, strict=True):
        found = []
        for p in group:
            reduced = cache(partial(run_reduced, session, graded, contract, p.forced))
            found.append([shape_facts(graded, contract, p, run, reference, reduced) for run in p.shapes])
            splits = split_by_shape(contract.id, p) if contract.call is not None else {}
            for shape in found[-1]:
                shape.seeds += splits.get(shape.label, [])
        per_path += found
        timed = group[0].timed
        reduced = cache(partial(run_reduced, session, graded, contract, {}, as_drawn=True))
        drawn = [shape_facts(graded, contract, timed, run, reference, reduced) for run in timed.shapes] if timed else []
        agreed = agree(group, found, drawn)
        for shape, seeds in zip(agreed, steered(graded, contract, group), strict=False):
            shape.seeds += seeds
        said.stays_in_cache(agreed, runs.sessions[0].module)
        per_target.append(agreed)
    notes = tuple(differing(per_target, [session.capability for session in runs.sessions]))
    return _Judged(across_targets(per_target), per_path, reference, notes)


def _target(problems_dir: Path, name: str | None) -> Target | None:
    return load_targets(hardware_file(problems_dir)).get(name) if name is not None else None


def _gpu(problems_dir: Path, capability: tuple[int, int], target: Target | None) -> Target | None:
    """The target; where none is named the deck's largest GPU of a capability, the first of those."""
    if target is not None:
        return target
    try:
        known = load_targets(hardware_file(problems_dir)).values()
    except DataError:  # nobody named a GPU of that file; whoever does is told of it
        return None
    wanted = capability[0] * 10 + capability[1]
    return max((t for t in known if t.capability == wanted), key=lambda t: t.sms or 0, default=None)


def _capability(target: Target | None) -> tuple[int, int]:
    """The compute capability of the target; of the deck's first target when none is named."""
    number = target.capability if target is not None else None
    return (number // 10, number % 10) if number is not None else architectures.DECK[0]


def _problem(problems_dir: Path, submission: Submission) -> tuple[Problem | None, tuple[Unread, ...], Traits | None]:
    """The submission's problem; what of a problem file could not be read, and what its reference does."""
    if submission.problem_file is not None:
        profile = PROFILES[submission.profile]
        loaded = kernelbench.load(Path(submission.problem_file), profile, submission.precision)
        hole = f"{loaded.path.name} is not a problem that can be read: {loaded.hole}"
        return loaded.problem, (Unread(hole),) if loaded.hole else (), loaded.reference
    if submission.problem is None:
        return None, (), None
    path = problems_dir / submission.problem / "problem.yaml"
    try:
        stat = path.stat()
    except OSError:
        return load_problem(path), (), None  # which says why
    return _unchanged(path, stat.st_mtime_ns, stat.st_size), (), None


@lru_cache(maxsize=32)
def _unchanged(path: Path, modified_ns: int, size: int) -> Problem:
    """A problem, read once while its file stays as it is: editors keep this process for long."""
    return load_problem(path)


def _own_reference(submission: Submission, problems_dir: Path, problem: Problem | None) -> dict[str, str]:
    """The problem's reference, which a submission that is run beside it may import by its name; nothing for one that
    does not speak of it, for a file beside a submission may give it any name.
    """
    if REFERENCE.removesuffix(".py") not in submission.text:
        return {}
    path = problems_dir / (problem.id if problem is not None else "") / REFERENCE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return {REFERENCE: Text(text, (Piece(0, len(text), FileText(str(path), text), 0),))} if text else {}


def sidecar_texts(submission: Submission) -> dict[str, str]:
    """The sidecars as texts that know their place in the file that holds them, by name."""
    out: dict[str, str] = {}
    for name, sidecar in submission.sidecars.items():
        if sidecar.binary:
            continue
        literal = FileText(sidecar.path, sidecar.text, sidecar.first_line)
        out[name] = Text(sidecar.text, (Piece(0, len(sidecar.text), literal, 0),))
    return out


def _promises(problem: Problem, contract: Contract, shapes: list[ShapeFacts]) -> tuple[PromiseState, ...]:
    out: list[PromiseState] = []
    for promise in problem.promises_for(contract.id):
        states: dict[str, Any] = {s.label: s.states.get(promise.id, "unproven") for s in shapes}
        evidence: list[Related] = []
        for shape in shapes:
            for loc, message in shape.evidence.get(promise.id, ()):
                span = span_of(loc)
                item = Related(span, message) if span is not None else None
                if item is not None and item not in evidence and len(evidence) < MAX_EVIDENCE:
                    evidence.append(item)
        reason = next((s.reasons[promise.id] for s in shapes if promise.id in s.reasons), "")
        if not shapes:
            reason = "no graded shape could be followed"
        accepts: Any = promise.accepts
        out.append(
            PromiseState(
                promise.id,
                combine(states, promise.quantifier),
                states,
                tuple(evidence),
                reason,
                promise.quantifier,
                promise.kind.value,
                accepts,
            )
        )
    return tuple(out)


def broken_promises(promises: Iterable[PromiseState]) -> Iterable[Fact]:
    """Yields a fact for each broken promise, at the first place that shows it."""
    for promise in promises:
        if promise.state == "broken":
            shapes = tuple(label for label, state in promise.shapes.items() if state == "broken")
            first = promise.evidence[0] if promise.evidence else None
            why = first.message if first is not None else promise.reason or "nothing that would keep it is there"
            fact = BrokenPromise(promise=promise.id, kind=promise.kind, why=why)
            span = first.span if first is not None else None
            yield fact_of(fact, span, promise.evidence[1:], shapes, len(promise.shapes))


_ANYWHERE = (HoleKind.LOST, HoleKind.MADE, HoleKind.REWRITTEN)  # of the module level: told whatever they leave open


def _unread(module: ir.Module, path: PathRun, shapes: list[ShapeFacts]) -> Iterable[Unread]:
    """Holes on the shapes whose promises they leave open, with those at module level that may be their cause. What a
    statement did that was lost, by a fault of ours too, may be anything: that is a hole wherever it was.
    """
    found: dict[tuple[str, Any], Unread] = {}
    holes = [Hole(why, loc) for why, loc in module.unread]
    if path.failed:
        holes.append(Hole(path.failed, None))
    if path.untried:
        holes.append(Hole(UNTRIED, None))
    open_labels = {s.label for s in shapes if any(state == "unproven" for state in s.states.values())}
    for run in path.shapes:
        if run.stopped and (run.label in open_labels or not open_labels and not run.calls):
            holes.append(Hole(run.stopped, None))
        holes += run.unread if run.label in open_labels else [hole for hole in run.unread if hole.kind is HoleKind.LOST]
    left_open = not path.shapes or len(holes) > len(module.unread)
    holes += [hole for hole in path.unread if left_open or hole.kind in _ANYWHERE]
    for hole in holes:
        span = span_of(hole.loc)
        found.setdefault((hole.why, span.line if span else 0), Unread(hole.why, span))
    return list(found.values())[:MAX_UNREAD]


def _unfollowed(
    problem: Problem | None, graded: Problem | None, contract: Contract | None, hole: tuple[Unread, ...]
) -> Iterable[Unread]:
    """Why no promise could be looked at, where none was: a file that nobody followed is not a clean one."""
    if contract is not None or hole:
        return
    if problem is None:
        yield Unread(f"{NOTHING_FOLLOWED}: no problem is known (--problem names one)")
    elif graded is None:
        yield Unread(f"{NOTHING_FOLLOWED}: {problem.id} has no graded shapes")
    else:
        yield Unread(f"{NOTHING_FOLLOWED}: no contract of {problem.id} could be matched")


def _notes(problem: Problem | None, path: PathRun) -> Iterable[str]:
    if problem is not None and not problem.shapes:
        yield f"{problem.id} has no graded shapes yet, so only problem-independent rules spoke"
    if len(path.sites) > MAX_FORCED:
        yield f"{len(path.sites)} branches could not be decided; past the first {MAX_FORCED} they were turned together"


# --- the problem's reference -------------------------------------------------------------------------------


def _reference(problems_dir: Path, problem: Problem, contract: Contract) -> Traits:
    """What the reference of a problem of the deck does and reads; nothing for one without."""
    own = problems_dir / problem.id / f"reference_{contract.id}.py"
    path = own if own.is_file() else own.with_name(REFERENCE)
    return reference_traits(path, problems_dir / problem.id / "problem.yaml", contract.id)


def reference_traits(path: Path, problem: Path, contract_id: str) -> Traits:
    """The operations of the problem's own reference at its first graded shape, and what they read, from the same host
    trace; followed once while both files stay as they are."""
    try:
        stats = path.stat(), problem.stat()
    except OSError:
        return Traits()
    return _reference_traits(path, problem, contract_id, tuple((s.st_mtime_ns, s.st_size) for s in stats))


@lru_cache(maxsize=32)
def _reference_traits(path: Path, file: Path, contract_id: str, stamps: tuple[tuple[int, int], ...]) -> Traits:
    problem = load_problem(file)
    module = python.lower(path.read_text(encoding="utf-8"), str(path))
    first = replace(problem, shapes=problem.shapes[:1])
    run = run_path(Session(module, {}, architectures.DECK[0]), first, problem.contracts[contract_id], {})
    return traits(reach(last_call(run.shapes[0]))) if run.shapes and run.shapes[0].calls else Traits()
