"""What is kept of the runs of a submission: what happened at each shape, along each path, and where they part."""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env
from kbh_lint.host.values.decisions import Asked
from kbh_lint.host.values.objects import Authored
from kbh_lint.host.values.run_state import Hole
from kbh_lint.host.values.tensors import Content, Event, Tensor, Unknown
from kbh_lint.problems import Binding, Contract


class Ended(NamedTuple):
    """Why a run ended early, for readers; for an exception of the program also where it was raised and its class
    name."""

    why: str
    loc: ir.Loc | None = None
    raised: str = ""


@dataclass(slots=True, eq=False)
class ShapeRun:
    """One run at one graded shape. `stopped` says why it did not come to its end."""

    label: str
    binding: Binding | None
    calls: list[Call] = field(default_factory=list)
    probes: list[Call] = field(default_factory=list)
    l2: list[tuple[str, dict[str, Any], ir.Loc | None]] = field(default_factory=list)
    survived: list[Kept] = field(default_factory=list)
    inputs: dict[str, Tensor] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)  # state that stays as it is between calls
    loaded: bool = True  # whether state and weights were loaded, or are what the constructor drew
    registered: dict[str, str] = field(default_factory=dict)
    stopped: str = ""
    ignored: bool = False  # its own load_state_dict takes nothing of what it is given
    stopped_at: ir.Loc | None = None  # where the exception was raised that stopped it
    raised: str = ""  # the name of its class
    unread: list[Hole] = field(default_factory=list)
    rewritten: str = ""  # what ran unread and may have changed what any name means
    instance: Any = None
    layout: Any = None  # of an entry point: its arguments (`host.explore.entries.Layout`)
    handed: frozenset[int] = frozenset()  # the storages that other entry points had returned by then
    reached: tuple[object, object] | None = None  # a call, and what its result comes from (`analyses.flow.slice_of`)


@dataclass(slots=True, eq=False)
class PathRun:
    """One run along one path: the module level, then every shape."""

    forced: dict[Any, bool]
    shapes: list[ShapeRun] = field(default_factory=list)
    sites: dict[Any, Unknown] = field(default_factory=dict)
    notes: list[tuple[str, dict[str, Any], ir.Loc | None]] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)  # of these notes, and of some that were taken back
    unread: list[Hole] = field(default_factory=list)
    env: Env = field(default_factory=Env)
    failed: str = ""
    raised: str = ""  # the class of the exception that ended the module level, by its name
    no_model: bool = False  # the module level ran, and there is no class to call
    contract: Contract | None = None
    left_over: bool = False
    absent: bool = False  # it read values from a file that is not there
    given: set[int] = field(default_factory=set)  # storages of inputs and state that calls were given
    sniffing: dict[Any, Asked] = field(default_factory=dict)  # branches on what was asked for
    probes: list[Probe] = field(default_factory=list)  # each of those branches, taken the other way
    exit_loc: ir.Loc | None = None  # where an exception that ends the process was raised
    children: list[tuple[str, str, ir.Loc | None]] = field(default_factory=list)  # processes nobody waited for
    places: dict[Any, ir.Loc | None] = field(default_factory=dict)  # where the sites are
    settled: dict[Any, Unknown] = field(default_factory=dict)  # branches that legal values decide
    authored: list[Authored] = field(default_factory=list)  # all that were made, wherever they are kept
    asserted: set[Any] = field(default_factory=set)  # those of them that an assert raises on
    of_lengths: bool = False  # lengths that are all alike in timed runs decide a branch
    timed: PathRun | None = None  # of the first path: with lengths as they are in timed runs, where they decide
    beyond: list[PathRun] = field(default_factory=list)  # of the default path: what other values would make of them
    measured: tuple[Any, ...] = ()  # work whose time was taken, any of which may be the fastest
    elsewhere: list[PathRun] = field(default_factory=list)  # of the first path: the module level on other GPUs
    stateful: bool = False  # of entry points: a call may build on what the calls before it left
    untried: int = 0  # of the first path: undecided branches whose other side no run came to an end on

    def came_to_an_end(self) -> bool:
        """Whether a call of `forward` returned."""
        return any(run.calls for run in self.shapes)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """The branches on one thing that was asked for, all taken the other way: the run without it, and the run with it.

    `asked` may stand for the child of a process that the submission forks, or for all questions at once.
    """

    asked: Asked
    sites: tuple[Any, ...]
    origin: PathRun
    other: PathRun


@dataclass(slots=True, eq=False)
class Call:
    """One `forward`: its events, what it returned, and what it was given (`probes.holding`).

    `kind` says what was changed before it, `names` which inputs or counters that was about.
    """

    events: list[Event]
    result: Any
    given: dict[int, int | None] = field(default_factory=dict)
    kind: str = "in place"
    names: tuple[str, ...] = ()
    index: int = 0
    contents: list[Content] = field(default_factory=list)  # of the result, as it was when the call returned


@dataclass(frozen=True, slots=True)
class Kept:
    """A survivor as it was after the second call: where, what it is for, under which kinds of keys.

    role: `code`, `graph`, `workspace` (written again before it is read), `layout` (made of weights), `held-input`,
    `derived` (made of inputs), `output`, `value` (a number read from inputs), `descriptor`, `reference` (an address,
    an id() or a version), `number`.
    """

    path: str
    role: str
    keys: tuple[str, ...]
    loc: ir.Loc | None = None
