"""Running a submission: module, constructor, state loaded, `forward` twice, for every graded shape, along each path."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from kbh_lint.base.dtypes import FLOATS
from kbh_lint.base.errors import SetupError
from kbh_lint.base.values import Env, Value
from kbh_lint.host.effects import outside
from kbh_lint.host.explore import background, layouts, loading, probes
from kbh_lint.host.libs import trace_nn
from kbh_lint.host.python import module_calls
from kbh_lint.host.run import Run
from kbh_lint.host.values import escapes, taint
from kbh_lint.host.values.decisions import ALL, FORK, Asked, Later
from kbh_lint.host.values.frames import Frame, OutOfFuel, Raised
from kbh_lint.host.values.objects import ClassV, Instance
from kbh_lint.host.values.path_runs import Call, Ended, PathRun, Probe, ShapeRun
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Content, Unknown, traced
from kbh_lint.problems import Contract, Problem, Shape

FUEL = 400_000
PROCESS = 4242  # the process number of the run
MAX_FORCED = 5
MAX_PROBES = 4
MAX_LATER = 3  # questions that another answer leads to, each answered with no
MAX_FASTEST = 15  # kinds of work that are taken for the fastest beside the first
MAX_BEYOND = 3


def run_path(
    session: Session, problem: Problem | None, contract: Contract | None, forced: dict[Any, bool],
    further: bool = False, as_drawn: bool = False,
) -> PathRun:  # fmt: skip
    """Runs the submission once, along the path that the decisions in `forced` choose; without a contract, uses the one
    that fits what the model registers. With `further`, state that outlives the calls is probed by further calls; with
    `as_drawn` lengths are what they are in timed runs, and decide."""
    interp = Run(session, forced, as_drawn)
    path = PathRun(forced, env=interp.scopes.main)
    frame = Frame(interp.scopes.main, interp.scopes.main, None, None)
    try:
        interp.block(session.module.body, frame)
    except Exception as error:
        path.failed, path.exit_loc, path.raised = ended(error, "the module", session)
    path.unread = list(interp.trace.unread)
    if problem is not None and problem.shapes and not path.failed:
        called = next((known for known in problem.contracts.values() if known.call is not None), None)
        if called is not None and called.call is not None:
            path.contract, path.stateful = called, True
            if called.call.name.partition(".")[0] not in interp.scopes.main.vars:
                path.failed = f"there is no {called.call.name} that could be read"
        elif not any(model_class(interp.scopes.main, known) for known in problem.contracts.values()):
            path.failed, path.no_model = "there is no class Model that could be read", True
        else:
            path.contract = contract or choose_contract(interp, problem)
        for shape in problem.shapes:
            if path.contract is None or path.failed:
                break
            interp.refuel()
            interp.trace.unread = []
            path.shapes.append(run_shape(interp, path.contract, shape, further))
    path.sites = {key: value for key, value in interp.decisions.sites.items() if key not in interp.decisions.mixed}
    path.of_lengths = any(map(_of_lengths, interp.decisions.sites.values()))
    outside.hooks_left(interp)
    interp.refuel(0)
    path.sniffing = {
        key: asked for key, value in interp.decisions.sites.items() if (asked := taint.question(value)) is not None
    }
    path.children = interp.process.children
    path.asserted = interp.decisions.asserted
    path.settled, path.places = interp.decisions.settled, interp.decisions.places
    path.given, path.authored = interp.memory.given, interp.authored
    path.measured = tuple(interp.decisions.measured)
    path.notes, path.kinds = interp.trace.notes, interp.trace.kinds
    path.left_over, path.absent = interp.files.left_over, interp.files.absent
    return path


def choose_contract(interp: Run, problem: Problem) -> Contract | None:
    """Constructs the model once and returns the contract that fits what it registers; None when construction fails."""
    first = next(iter(problem.contracts.values()), None)
    cls = model_class(interp.scopes.main, first) if first is not None else None
    if first is None or cls is None:
        return None
    interp.trace.call_index = 0
    interp.training = first.training
    interp.refuel()
    state: dict[str, str | None] = {}
    try:
        model = interp.call(cls, list(first.bind(problem.shapes[0]).init.values()), {}, None)
        state = {
            name: tensor.dtype if tensor.dtype != "?" else None for name, tensor in trace_nn.state_of(model).items()
        }
    except Exception as error:  # the runs of the shapes come to the same, and say so
        ended(error, "the run", interp.session)
    return problem.match(state)


def model_class(module: Env, contract: Contract) -> ClassV | None:
    """Returns the class that a submission is graded by, from the names that the contract allows; None without one."""
    found = (module.vars.get(name) for name in contract.entry)
    return next((cls for cls in found if isinstance(cls, ClassV)), None)


def run_shape(interp: Run, contract: Contract, shape: Shape, further: bool) -> ShapeRun:
    """Constructs the model, loads the state, and calls `forward` twice with inputs that change in place between the
    calls."""
    binding = contract.bind(shape)
    run = ShapeRun(shape.label, binding)
    cls = model_class(interp.scopes.main, contract)
    if cls is None and contract.call is None:
        run.stopped = "there is no class Model"
        return run
    interp.trace.call_index = 0
    interp.trace.events = []
    interp.memory.compared = interp.memory.versions = False
    interp.memory.begin(next(interp.session.idents))
    interp.training = contract.training
    noted = len(interp.trace.notes)
    try:
        loading.set_sizes(interp, binding)
        if contract.call is not None:
            model, holder = layouts.declared(interp, run, contract.call, binding)
            if model is None:
                run.stopped = f"{contract.call.name}, or the class of a model that it takes, is not there"
                return run
            if holder is not None:
                loading.name_weights(run, holder)
        else:
            model = interp.call(cls, list(binding.init.values()), {}, None)
            if not isinstance(model, Instance):
                run.stopped = "Model(...) did not make an object"
                return run
            model = holder = run.instance = module_calls.placed(interp, model)
            if contract.weights == "loaded":
                loading.load_state(interp, run, model, binding)
                if contract.made is not None:
                    run.weights, run.state = run.state, {}
            else:
                loading.name_weights(run, model, contract.converts)
        loading.make_inputs(interp, run, contract, binding)
        seen = [escapes.slots(interp, holder, run.inputs)] if further else []
        for call in (1, 2):
            interp.trace.call_index = call
            interp.trace.round += 1
            interp.decisions.asked = {}
            if call == 2:
                probes.change(interp, run.inputs.items(), "input")
                probes.change(interp, run.state.items(), "state")
                background.tick(interp)
            given = probes.holding(interp, (*run.inputs.values(), *run.state.values()))
            start = len(interp.trace.events)
            result = probes.called(interp, run, model, run.inputs)
            contents = probes.result_contents(result)
            run.calls.append(Call(interp.trace.events[start:], result, given, index=call, contents=contents))
            if further:
                seen.append(escapes.slots(interp, holder, run.inputs))
    except Exception as error:
        run.stopped, run.stopped_at, run.raised = ended(error, "the run", interp.session)
    run.unread, run.rewritten = list(interp.trace.unread), interp.trace.rewritten
    run.l2 = [note for note in interp.trace.notes[noted:] if note[0] == "l2"]
    if not run.stopped and further:
        try:
            probes.probe(interp, run, model, seen, holder)
        except Exception as error:
            run.stopped, run.stopped_at, run.raised = ended(error, "the run", interp.session)
    return run


def explore(
    session: Session, problem: Problem | None, contract: Contract | None, limit: int = MAX_FORCED
) -> list[PathRun]:
    """Runs the default path, then paths with one undecided branch taken the other way each, then one with all that are
    left."""
    first = run_path(session, problem, contract, {}, True)
    # what a path shows must hold on all, and one that needs an earlier run's file shows nothing of a first run
    further = first.left_over or any(run.probes for run in first.shapes)

    def follow(forced: dict[Any, bool]) -> PathRun:
        return run_path(session, problem, contract or first.contract, forced, further)

    paths = [first]
    seen: set[Any] = set()
    waiting = other_ways(first, seen)
    while waiting and len(paths) <= limit:
        paths.append(follow(waiting.pop(0)))
        waiting += other_ways(paths[-1], seen)
    if waiting:
        paths.append(follow({key: side for forced in waiting for key, side in forced.items()}))
    untried = len(waiting) if waiting and not paths[-1].came_to_an_end() else 0
    if first.came_to_an_end():
        paths += [follow({Later(key): True}) for path in paths[1 : limit + 1] for key in _begun_with_nothing(path)]
    paths += [follow({key: True}) for key in first.measured[1 : MAX_FASTEST + 1]]
    untried += len(first.measured[MAX_FASTEST + 1 :])
    first.beyond = [follow(forced) for forced in _beyond(first)]
    # the first path stands for the file: one that comes to an end, and starts from nothing where one does
    paths.sort(key=lambda path: (not path.came_to_an_end(), path.left_over))
    paths[0].untried, paths[0].timed = untried, _timed(session, problem, first, further)
    for group in _questions(first):
        forced: dict[Any, bool] = dict.fromkeys(group, True)
        forced |= {key: not _usual(first, key) for keys in group.values() for key in keys}
        others = [follow(forced)]
        # what is asked only there ("found, and is it not None?") may have to be answered with no to go on
        later = [key for key in others[0].sniffing if key not in first.sniffing]
        others += [follow(forced | {key: _usual(others[0], key)}) for key in later[:MAX_LATER]]
        paths[0].probes += [Probe(mark, tuple(keys), first, other) for mark, keys in group.items() for other in others]
        if all(map(taint.either_way, group)):
            paths += others
    return paths


def _begun_with_nothing(path: PathRun) -> list[Hashable]:
    """The branch that `path` takes the other way, where its first call returns nothing then: what is kept is not there
    yet, and only later calls may go this way."""
    nothing = any(run.calls and not probes.result_contents(run.calls[0].result) for run in path.shapes)
    return list(path.forced)[-1:] if nothing else []


def _timed(session: Session, problem: Problem | None, first: PathRun, further: bool) -> PathRun | None:
    """The run that takes lengths as they are in timed runs; None where they decide nothing."""
    return run_path(session, problem, first.contract, {}, further, as_drawn=True) if first.of_lengths else None


def other_ways(path: PathRun, seen: set[Any]) -> list[dict[Any, bool]]:
    """Returns the forced decisions for each undecided branch that only `path` met: what leads there, and the other
    side."""
    if path.forced and not path.came_to_an_end():
        return []
    plain = [key for key in path.sites if key not in path.sniffing and key not in seen]
    seen.update(plain)
    return [{**path.forced, key: not _default(path.sites[key])} for key in plain]


def _beyond(first: PathRun) -> list[dict[Any, bool]]:
    """The branches that legal inputs decide, taken the other way: one by one, those past the bound together. Asserts
    come last and apart, since what fails in one hides what follows it."""
    doubted = [key for key, value in first.settled.items() if _on_inputs_alone(value.contents)]
    doubted.sort(key=first.asserted.__contains__)
    sides = {key: not _default(first.settled[key]) for key in doubted}
    ways = [{key: sides[key]} for key in doubted[:MAX_BEYOND]]
    for raising in (False, True):
        rest = {key: sides[key] for key in doubted[MAX_BEYOND:] if (key in first.asserted) is raising}
        ways += [rest] if rest else []
    return ways


def _questions(first: PathRun) -> list[dict[Asked, list[Any]]]:
    """What is asked about who runs a submission, with the branches on it: in groups that one run answers otherwise.

    All at once, then one by one; those past the bound together.
    """
    marks: dict[Asked, list[Any]] = {}
    for key, mark in first.sniffing.items():
        marks.setdefault(mark, []).append(key)
    groups: list[dict[Asked, list[Any]]] = []
    if any(kind == "fork" for kind, _, _ in first.notes):
        groups.append({FORK: []})
    if marks or groups:
        groups.append({ALL: []})
    asked = iter(marks.items())
    groups += [{mark: keys} for mark, keys in islice(asked, MAX_PROBES - 1)]
    rest = dict(asked)
    return [*groups, rest] if rest else groups


def run_reduced(
    session: Session, problem: Problem, contract: Contract, forced: dict[Any, bool], as_drawn: bool = False
) -> list[ShapeRun]:
    """Runs the same path at the reduced shapes, which stand for the graded ones where nothing is timed."""
    small = replace(problem, shapes=problem.reduced)
    return run_path(session, small, contract, forced, as_drawn=as_drawn).shapes if problem.reduced else []


def _of_lengths(value: Unknown) -> bool:
    """Whether an unknown was computed from lengths that are all alike in timed runs."""
    return any("drawn" in content.notes for content in traced(value.contents))


def _on_inputs_alone(contents: Iterable[Content]) -> bool:
    """Whether a test reads only floating-point inputs and weights, or what operations of torch computed from them.

    Where a kernel or a library computed any of it from inputs, the test may be a check of that kernel's results.
    """
    looked = [_looked_at(content) for content in contents]
    return any(drawn and not made for drawn, made in looked) and not any(drawn and made for drawn, made in looked)


def _looked_at(content: Content) -> tuple[bool, bool]:
    """Whether floating-point inputs or weights are in a content, and whether more than torch's operations made it."""
    drawn = made = False
    for current in traced([content]):
        drawn = drawn or current.label.startswith(("input:", "state:")) and current.dtype in FLOATS
        made = made or current.event is not None and current.event.kind not in ("op", "copy")
    return drawn, made


def _default(value: Unknown) -> bool:
    return value.likely


def _usual(path: PathRun, key: Hashable) -> bool:
    """Which way a branch goes where nobody is told otherwise."""
    return key in path.sites and _default(path.sites[key])


def ended(error: Exception, what: str, session: Session) -> Ended:
    """Describes, for a reader, what ended a run early, and where the program raised its exception. An error of this
    analysis ends the run like one of the program; sessions that ask for errors get it raised, unless it came up in code
    that the program calls, where odd values may cause it."""
    if isinstance(error, (MemoryError, SetupError)):
        raise error
    if isinstance(error, Raised):
        subject = "it" if what == "the run" else what
        return Ended(f"{subject} raises {exception(error.value)}", error.loc, exception_class(error.value))
    if isinstance(error, OutOfFuel):
        return Ended(f"{what if what == 'the run' else what + ' level'} did not end within its bound")
    if isinstance(error, RecursionError):
        return Ended(f"{what} nests too deeply")
    if session.raise_errors and not _in_a_call(error):
        raise error
    return Ended(f"{what} could not be followed ({type(error).__name__}: {str(error)[:80]})")


def _in_a_call(error: Exception) -> bool:
    """Whether an error came up below a call that the interpreted program made, or that was made for it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not Run.call.__code__:
        trace = trace.tb_next
    return trace is not None


def exception_class(value: Value) -> str:
    """Returns the class name of an exception of the interpreted program."""
    return value.cls.name if isinstance(value, Instance) else getattr(value, "path", "an exception").rpartition(".")[2]


def exception(value: Value) -> str:
    """Describes an exception of the interpreted program for a reader: its class and, where it has one, its text."""
    name = exception_class(value)
    args = getattr(value, "attrs", {}).get("args", ())
    words = [a for a in args if isinstance(a, str)] if isinstance(args, (tuple, list)) else []
    said = " ".join(words).split("\n")[0][:120]
    return f"{name}: {said}" if said else name
