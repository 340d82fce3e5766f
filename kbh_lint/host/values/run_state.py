"""The parts of a run's state: what it did, what was decided, files, modules, the process, and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Value
from kbh_lint.host.values import taint
from kbh_lint.host.values.decisions import ALL, FOUND
from kbh_lint.host.values.tensors import Content, Event, Sort, Tensor, Unknown
from kbh_lint.source.sidecars import MODULES

if TYPE_CHECKING:
    from kbh_lint.host.effects.artifacts import Built

PROCESS = 4242  # the process number of the run

Note = tuple[str, dict[str, Any], ir.Loc | None]  # a fact about the program itself: its kind, what it says, and where


class HoleKind(Enum):
    """What else a hole leaves open, besides the code around it."""

    PLAIN = "nothing else"
    LOST = "what a statement did"
    MADE = "what code does that is made at run time"
    REWRITTEN = "what any name means, since code ran that was not read"
    UNDEFINED = "nothing: a name that nobody defines"


@dataclass(frozen=True, slots=True)
class Hole:
    """Something that could not be followed: the reason, for readers, and the place."""

    why: str
    loc: ir.Loc | None
    kind: HoleKind = HoleKind.PLAIN


class Trace:
    """What a run did: its events, facts seen on the way, and what could not be followed."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.call_index = 0
        self.round = 0  # calls of forward so far, over all shapes; 0 while none runs
        self.done: dict[Any, tuple[int, int]] = {}  # how often, and with how many operations, a place had its turn
        self.notes: list[Note] = []
        self.kinds: set[str] = set()  # of notes, also of those that were taken back
        self.unread: list[Hole] = []
        self.rewritten = ""  # code ran that could not be read: why


class Decisions:
    """The sides that branches take. `forced` holds the decisions of this run that differ from the default. With
    `as_drawn` lengths are what they are in timed runs, where all are alike, so that they decide."""

    def __init__(self, forced: dict[Any, bool], as_drawn: bool = False) -> None:
        self.forced, self.as_drawn = forced, as_drawn
        self.sites: dict[Any, Unknown] = {}
        self.mixed: set[Any] = set()
        self.places: dict[Any, ir.Loc | None] = {}
        self.settled: dict[Any, Unknown] = {}  # branches that only the inputs' legal domain, or a check, decides
        self.asserted: set[Any] = set()  # those of them that raise on the other side
        self.measured: dict[Any, None] = {}  # the work whose time was taken, in order
        self.decided: dict[Any, bool] = {}
        self.asked: dict[Any, int] = {}  # places in this call of forward
        self.late: set[Any] = set()  # branches that only calls after the second one ask, and nothing decides
        self.contrary = False  # these are taken the other way

    def choice(self, key: Value, value: Unknown) -> bool:
        """Returns which way a branch on an unknown goes in this run."""
        if key not in self.sites or taint.question(value) is not None:
            self.sites[key] = value
        if self.contrary and key in self.late:
            return not value.likely
        if key in self.forced:
            return self.forced[key]
        if self.forced and taint.question(value) in self.forced or ALL in self.forced and taint.symbol_of(value):
            return not (value.likely and taint.symbol_of(value))
        return value.likely

    def found(self) -> bool:
        """Whether a key finds something of which nobody knows whether it is kept under the same one: only where a call
        is told to find what earlier ones left."""
        self.decided.setdefault(FOUND, False)
        return self.contrary and FOUND in self.late

    def assume(self, key: Value, loc: ir.Loc | None, answer: bool, contents: tuple[Content, ...]) -> bool:
        """Records a branch that the legal domain of the inputs, or an earlier check, decides; returns the side that
        this run takes, which may be forced to be the other."""
        self.places.setdefault(key, loc)
        self.settled.setdefault(key, Unknown(contents, likely=answer))
        return self.forced.get(key, answer)

    def side(self, key: Value, value: Unknown, askers: Sequence[Value]) -> bool:
        """Returns the side of a branch on an unknown: the same at each time of asking, unless a loop asks it of many
        elements. No real run answers all elements alike, so the second time that the same call asks (the first of the
        `askers`, or a call around it, by the same way), it is the other side."""
        if value.sort is Sort.ALIKE:  # an earlier call had nothing yet to compare with
            return self.choice((key, value.sort), value)
        if self.contrary and key in self.late:
            return not value.likely
        if key not in self.decided or taint.symbol_of(value):
            self.decided[key] = self.choice(key, value)
        if value.sort is Sort.PATH:  # files are all there, or none is yet
            return self.decided[key]
        for asker in askers:
            self.asked[key, asker] = self.asked.get((key, asker), 0) + 1
        if any(self.asked[key, asker] == 2 for asker in askers):
            self.mixed.add(key)
            return not self.decided[key]
        return self.decided[key]


class Files:
    """The files that a run finds and makes."""

    def __init__(self, sidecars: Mapping[str, str], binaries: Iterable[str]) -> None:
        self.texts: dict[str, str] = dict(sidecars)
        self.extensions = {name.partition(".")[0]: name for name in sorted(binaries) if name.endswith(MODULES)}
        self.kept: dict[str, Any] = {}  # the values that were written to files in this run, by path
        self.held: list[Any] = []  # the objects among the files that were written to
        self.handed: set[str] = set()  # paths that library functions were given that may have written to them
        self.built: dict[str, Built] = {}  # the binaries that were built in this run, by path
        self.asked: set[str] = set()  # paths whose existence was asked about and taken for granted
        self.unread_build = False  # an extension was built of sources that are not all known
        self.left_over = False  # this path needs a file that only an earlier run could have left behind
        self.absent = False  # and that file holds values, not something that was built


class Scopes:
    """The variables of modules: of the submission, of the files beside it, of libraries that are followed as Python."""

    def __init__(self) -> None:
        self.main = Env()
        self.sidecars: dict[str, Env] = {}
        self.library: dict[str, Env] = {}


class Process:
    """The process that the submission runs in, and what it changed there."""

    def __init__(self) -> None:
        self.id = PROCESS
        self.environ: dict[str, Any] = {}  # variables of the environment that the submission set
        self.hooks: dict[tuple[str, str], list[Any]] = {}  # hooks of the process, with all they were set to
        self.children: list[tuple[str, str, ir.Loc | None]] = []  # processes that nothing waited for
        self.tf32 = False  # whether the settings by now let products of fp32 run as tf32
        self.patches: dict[str, Any] = {}  # names of libraries that were given another meaning
        self.loaded: dict[str, Any] = {}  # modules that the submission made, and keeps in `sys.modules`


class Memory:
    """Storages and objects by address, and what is known of some of them."""

    def __init__(self) -> None:
        self.views: dict[int, Tensor] = {}
        self.numbers: dict[int, Any] = {}  # of tensors of one whole number, by storage
        self.variables: dict[int, Tensor] = {}  # __device__ variables, by declaration
        self.given: set[int] = set()  # storages of inputs and state that calls were given
        self.ids: dict[int, tuple[int, Any]] = {}
        self.colliding = False  # sums and samples of changed contents are taken to be equal
        self.compared = False  # one was compared with what an earlier call saw
        self.versions = False  # a tensor was asked how often it was written
        self.opaque: dict[int, tuple[Any, int]] = {}  # keys that are not known, by id(), each with its shape's model
        self.referred: dict[int, tuple[Any, Any]] = {}  # objects by id(), each with its weak reference
        self.cut = False  # some of what outlives calls was not looked at
        self.first_model = self.model = 0  # the numbers that contents had when the first and this shape's model began

    def begin(self, number: int) -> None:
        """Begins a graded shape with a model of its own; contents made from here on have idents from `number` up."""
        self.first_model, self.model = self.first_model or number, number

    def of_another_model(self, content: Content) -> bool:
        """Whether a content was left, in memory that outlives its model, by the model of another graded shape."""
        return self.first_model <= content.ident < self.model

    def identity(self, value: Value) -> int:
        """Returns the id() of a value: a made-up number, one for each object."""
        if id(value) not in self.ids:
            self.ids[id(value)] = (0x7F00_0000_0000 + 48 * len(self.ids), value)
        return self.ids[id(value)][0]
