"""What a run holds and writes down: fuel, events, notes, what could not be followed, and what was decided.

`Recorder` knows no meaning of any value; `host.run.Run` adds that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.dtypes import INTS
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import prelude
from kbh_lint.host.python.lanes import Lanes
from kbh_lint.host.torch import whole_numbers
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import CallSite, OutOfFuel, Raised
from kbh_lint.host.values.objects import Authored, Graph, LibObject
from kbh_lint.host.values.run_state import Decisions, Files, Hole, HoleKind, Memory, Process, Scopes, Trace
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import ADDRESS_BITS, Content, Event, Placed, Tensor, Unknown
from kbh_lint.source.embedded import Text, doubts

FUEL = 400_000
MOST_UNREAD = 400
MOST_NOTES = 4000

Plan = tuple[ir.FuncDef, dict[int, bool] | None]  # a generator function, and which of its statements yield

MAX_ASKERS = 3  # calls inside one another that may be rounds of one loop


def _of_elements(value: Unknown) -> bool:
    """Whether a number was computed from elements of inputs of whole numbers, and of nothing else."""
    sources = [whole_numbers.source(content) for content in value.contents]
    return bool(sources) and all(s.label.startswith("input:") and s.dtype in INTS for s in sources)


class Recorder:
    """One run's state, in parts, and the ways to add to it. `forced` holds the decisions that are not the default."""

    def __init__(self, session: Session, forced: dict[Any, bool], as_drawn: bool = False) -> None:
        self.session = session
        self.granted = session.budgets.host.grant(FUEL)
        self.fuel = self.granted
        self.trace = Trace()
        self.decisions = Decisions(forced, as_drawn)
        self.files = Files(session.sidecars, session.binaries)
        self.scopes = Scopes()
        self.process = Process()
        self.memory = Memory()
        self.lanes = Lanes()
        self.frames: list[CallSite] = []
        self.around: list[Value] | None = None  # what the next generator yields to: the body of a with statement
        self.capturing: list[Graph] = []  # the graphs
        self.trying = 0  # blocks around this place that may catch an exception
        self.handling: list[Value] = []  # the exceptions whose handlers run
        self.compiling = 0
        self.weight = 1
        self.tasks: list[LibObject] = []  # of asyncio's loop, that have not had their turn
        self.watched: list[weakref.ref[Any]] = []  # weak references to objects whose end brings something about
        self.dying: list[Callable[[], object]] = []  # what the ends of objects bring about, after this statement
        self.plans: dict[int, Plan] = {}  # of generator functions, by the node
        self.custom_ops: dict[str, Value] = {}  # `ns.name`, or the bare name of an operator registered from C++
        self.module_hooks: dict[str, Value] = {}  # hooks of all modules, by the tables of `module_calls`
        self.authored: list[Authored] = []  # all that were made, wherever they are kept
        self.made = 0  # texts that were made into code
        self.spread = False  # whether the last call was given `*` or `**` of something that is not known
        self.handing = False  # whether code that is not followed calls what it was given
        self.entered = 0  # calls of functions of the submission
        self.guarding = False  # whether the test of an if statement is evaluated
        self.aged = False  # whether numbers stand where they may never stand, to see what hangs on them
        self.training = False  # whether models are in training mode until somebody says otherwise

    def burn(self, amount: int = 1) -> None:
        """Pays `amount` of fuel; raises OutOfFuel when there is none left."""
        self.fuel -= amount
        if self.fuel < 0:
            raise OutOfFuel

    def refuel(self, most: int = FUEL) -> None:
        """Grants fuel for the next part of the run, at most `most`; what is left of the last part's goes back to the
        budget."""
        budget = self.session.budgets.host
        budget.take(self.granted - max(self.fuel, 0))
        self.fuel = self.granted = budget.grant(most)

    def miss(self, reason: str, loc: ir.Loc | None, kind: HoleKind = HoleKind.PLAIN) -> None:
        """Records a hole: something that could not be followed, with the reason."""
        if len(self.trace.unread) < MOST_UNREAD:
            self.trace.unread.append(Hole(reason, loc, kind))

    def lost(self, reason: str, loc: ir.Loc | None) -> None:
        """Records a hole: something that the program did and nobody followed, so that no file with it is clean."""
        self.miss(reason, loc, HoleKind.LOST)

    def may_fail(self, name: str, loc: ir.Loc | None) -> None:
        """Records that an operation fails, with Python's exception `name` (`IndexError`), on what is known of its
        operands. The run goes on, as values may be known badly; where the exception could be caught, another run raises
        it."""
        if self.trying and not self.decisions.choice(("fails", self.place(loc)), taint.presumed(True)):
            raise Raised(LibObject.by_path(f"builtins.{name}", {"args": ()}), loc)

    def fails(self, path: str, loc: ir.Loc | None, why: str = "") -> None:
        """Records that an operation cannot succeed on any graded machine; `path` is its exception,
        `builtins.RuntimeError`. Where a handler could catch the exception, it is raised. Elsewhere the run goes on, as
        its result tells more than an early end; but with `why` it ends always: `analyses.crashes` makes the fact
        `crash` of it, and KBH710 the finding."""
        if (self.trying or why) and not self.aged:
            raise Raised(LibObject.by_path(path, {"args": (why,) if why else ()}), loc)

    def ran_unread(self, reason: str, loc: ir.Loc | None, kind: HoleKind | None = None) -> None:
        """Records code that ran and was not read: from here on any name may mean something else."""
        self.miss(reason, loc, kind or (HoleKind.PLAIN if self.trace.rewritten else HoleKind.REWRITTEN))
        self.trace.rewritten = self.trace.rewritten or reason

    def note(self, kind: str, attrs: dict[str, Any], loc: ir.Loc | None) -> None:
        """Notes a fact about the program itself, such as a question that it asks; of kinds that somebody looks for."""
        if len(self.trace.notes) < MOST_NOTES:
            self.trace.notes.append((kind, attrs, loc))
            self.trace.kinds.add(kind)

    def stack(self) -> tuple[ir.Loc, ...]:
        """Returns the places of the calls in progress in the submission's own text, the outermost first."""
        return tuple([f.loc for f in self.frames if f.loc is not None and f.loc[0].language != prelude.LANGUAGE])

    def emit(self, event: Event) -> None:
        """Records an event in the trace, and in a graph that is being captured."""
        trace = self.trace
        event.call = trace.call_index
        event.stack = self.stack()
        if event.loc is not None and event.loc[0].language == prelude.LANGUAGE and event.stack:
            event.loc = event.stack[-1]  # called back by a library that is written in Python
        event.weight = self.weight
        # A set: at every depth of a recursion the place is the same.
        place = (trace.round, event.name, event.loc, frozenset(event.stack))
        times, flops = trace.done.get(place, (0, 0))
        event.times = times + self.weight
        event.flops = flops + (event.attrs.get("flops") or 0) * self.weight
        trace.done[place] = (event.times, event.flops)
        if self.compiling:
            event.attrs["compiled"] = True
        if self.process.tf32 and event.kind == "library":
            event.attrs["tf32"] = True
        self.burn(3)
        self.lanes.emitted(event, bool(self.capturing))
        trace.events.append(event)
        self.session.events.append(event)
        for graph in self.capturing:
            graph.events.append(event)

    def tensor_at(self, address: Value) -> Tensor | None:
        """Returns the tensor whose storage contains an address; None for other values."""
        if isinstance(address, bool) or not isinstance(address, int) or address < (1 << ADDRESS_BITS):
            return None
        return self.memory.views.get(address >> ADDRESS_BITS)

    def contents_of(self, value: Value, depth: int = 0) -> tuple[Content, ...]:
        """Returns the tensor contents that a value was computed from."""
        if isinstance(value, Tensor):
            return (value.storage.content,)
        if isinstance(value, (Unknown, Placed)):
            return value.contents
        if isinstance(value, Text):
            value = doubts(value)
        if isinstance(value, (list, tuple, set)) and depth < 3:
            out: list[Content] = []
            for item in list(value)[:200]:
                if item is None or type(item) is int:
                    continue
                for content in self.contents_of(item, depth + 1):
                    if content not in out:
                        out.append(content)
            return tuple(out)
        if isinstance(value, LibObject) and value.path.startswith("cpp:"):  # it may hold all that it was given
            held = [pointer.tensor for pointer in value.attrs.get("pointers", ())]
            return self.contents_of(held, depth) if held else ()
        return ()

    def decide(self, key: Value, value: Unknown) -> bool:
        """Returns the side that a branch on an unknown value takes (see `Decisions.side`)."""
        return self.decisions.side(key, value, self._askers(_of_elements(value)))

    def _askers(self, around: bool) -> list[Value]:
        """The call of a function that asks something; if `around`, also the calls around it, each with the places that
        lead from it to the question: the same once more is the next round of a loop."""
        found: list[Any] = []
        way: list[Any] = []
        for frame in reversed(self.frames[-MAX_ASKERS if around else -1 :]):
            found.append((frame.serial, *way))
            if frame.loc is None:
                break
            way.append(frame.loc)
        return found or [0]

    def assume(self, loc: ir.Loc | None, answer: bool, contents: tuple[Content, ...]) -> bool:
        """Notes that a branch at a place goes one way because all legal inputs take it, or all that passed an earlier
        check; `contents` are those that the test reads. Returns the side that this run takes."""
        return self.decisions.assume(self.place(loc), loc, answer, contents)

    @staticmethod
    def place(loc: ir.Loc | None) -> Any:
        """Returns a source location as a key of decisions."""
        return None if loc is None else (loc[0].language, *loc[1:])
