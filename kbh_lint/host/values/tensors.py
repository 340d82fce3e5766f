"""Abstract tensors: real shapes, strides and element types over storages whose contents are only named.

Every write makes a new `Content`, so the contents of a run form a graph: a content knows the event that made it, the
event knows the contents it read. What a result really comes from is a walk over that graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict

from kbh_lint.base import ir
from kbh_lint.base.dtypes import ROWS, STORED
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Brief, Func, Scalar, Value

if TYPE_CHECKING:
    from kbh_lint.base.limits import Budgets
    from kbh_lint.kernels.core.facts import KernelFacts

MAX_TRACED = 200  # contents that others are traced back through
ADDRESS_BITS = 44  # one storage owns 2**44 addresses, so an address with an offset still names its storage


@dataclass(frozen=True, slots=True)
class Taint:
    """What a value tells about the caller: `symbol` is the function or variable that was asked; without a symbol the
    value comes of a clock alone, read in the call of forward `clock`."""

    symbol: str = ""
    clock: int = 0

    def __str__(self) -> str:
        return f"sniff:{self.symbol}" if self.symbol else f"clock:{self.clock}"


class Sort(Enum):
    """Special sorts of unknown values."""

    PATH = "whether a path exists"
    LIBRARY = "a value of a library"
    ALIKE = "whether two values that were got in the same way are equal"
    DESCRIPTOR = "a descriptor that the submission opened"
    NOT_IMPLEMENTED = "NotImplemented"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unknown(Brief):
    """A number, truth or object the run cannot know; `contents` are the tensor contents it was computed from.

    `why` is for readers and decides nothing. Two unknowns are the same value only when they are the same object.
    """

    contents: tuple[Content, ...] = ()
    why: str = ""
    range: tuple[float, float] | None = None  # what it lies between, where the inputs' legal domain says so
    made: int = 0  # the call of forward that computed it, counted over a whole run; 0 outside of calls
    taint: Taint | None = None
    likely: bool = False  # a branch takes it for true, unless a run is told otherwise
    sort: Sort | None = None
    reading: str = ""  # the function that read every element of its contents, where one did: no change escapes it
    origin: str = ""  # the function of a library that gave it, where that is known

    def like(self, contents: tuple[Content, ...] = (), made: int = 0) -> Unknown:
        """Returns another unknown of which the same is known, for an attribute or an item of this one."""
        return Unknown(contents, self.why, None, made, self.taint, self.likely, self.sort, self.reading, self.origin)

    def __bool__(self) -> bool:
        raise UnknownTruth(self)


class Placed(int):
    """The address of a view whose place in its storage was computed from `contents`."""

    contents: tuple[Content, ...] = ()


class UnknownTruth(Exception):
    """The truth of an unknown value was asked where only a decision can answer."""


@dataclass(slots=True, eq=False, repr=False)
class Content(Brief):
    """What a storage holds after one write. `label` names contents that come from outside: `input:x`, `state:weight`,
    `empty`, `constant`, `random`. `call` counts forward calls: 0 is before the first."""

    storage: Storage
    dtype: str
    call: int
    label: str = ""
    event: Event | None = None
    previous: Content | None = None  # a partial write keeps what was there
    place: range | None = None  # the bytes that a partial write fills without a gap, where they are known
    band: tuple[range, int] | None = None  # else those that it fills of each so many: columns of rows
    ident: int = field(init=False)
    notes: dict[str, Any] = field(default_factory=dict)  # what analyses found out about it

    def __post_init__(self) -> None:
        self.ident = next(self.storage.idents)

    def sources(self) -> list[Content]:
        """Returns the contents that this one was computed from."""
        found = list(self.event.flow(self)) if self.event is not None else []
        if self.previous is not None:
            found.append(self.previous)
        return found


def traced(contents: Iterable[Content], most: int = MAX_TRACED) -> Iterator[Content]:
    """Yields contents and all that they were computed from, each once, no more than `most`."""
    stack = list(contents)
    seen: set[int] = set()
    while stack and len(seen) < most:
        content = stack.pop()
        if content.ident not in seen:
            seen.add(content.ident)
            yield content
            stack += content.sources()


@dataclass(slots=True, eq=False, repr=False)
class Storage(Brief):
    """A piece of device or host memory. `idents` are the numbers that the run has not given to a storage or content."""

    idents: Iterator[int]
    size: int | None = None  # bytes
    content: Content = None  # type: ignore[assignment]  # set by the allocator at once
    version: int = 0
    ident: int = field(init=False)

    def __post_init__(self) -> None:
        self.ident = next(self.idents)

    @property
    def address(self) -> int:
        """The storage's made-up address, aligned to 512 bytes."""
        return self.ident << ADDRESS_BITS

    def content_at(self, start: int | None) -> Content:
        """Returns the content that was last written at a byte: where tensors lie side by side in one buffer, that of
        the one there."""
        content = self.content
        while start is not None and content.previous is not None and content.place is not None:
            if start in content.place:
                break
            content = content.previous
        return content


_Copy = TypedDict("_Copy", {"from": str, "to": str, "cast": bool}, total=False)


@dataclass(slots=True, eq=False, repr=False)
class Answered(Brief):
    """A cache of what analyses worked out about launches, and the budgets that they may spend."""

    here: dict[Any, Any]  # for the launches of a submission on one GPU
    everywhere: dict[Any, Any]  # and on all GPUs, by what `EventAttrs.seen` and normalised arguments say
    budgets: Budgets


@dataclass(frozen=True, slots=True)
class CutlassType:
    """The matrix product of a CUTLASS device type: its element types, and the architecture that it is written for."""

    a: str
    b: str
    accumulator: str
    arch: int | None
    loc: ir.Loc
    arch_loc: ir.Loc | None
    element_loc: ir.Loc | None


class EventAttrs(_Copy, total=False):
    """What is known of an event besides what it reads and writes; which keys are there depends on its kind."""

    # launches: the kernel with its configurations; what the analysis says of each, and of those it tells apart
    kernel: Func
    kernels: Sequence[Func]  # by configuration, where each has its own
    bindings: list[dict[str, Any]]  # its arguments, by configuration
    facts: list[KernelFacts]
    distinct: list[KernelFacts]
    grid: Value
    block: Value
    contents: dict[int, Content]  # by storage, as the launch found them
    numbers: dict[str, tuple[Content, ...]]  # what numbers among the arguments were computed from
    starts: dict[str, int | None]  # where in its storage each pointer argument begins, in bytes
    outer: Callable[[Any], Any] | None  # how it sees values of the host
    scope: Hashable  # what it saw around it when it was launched
    cut: str  # why not all of it was read
    lost: str  # an address that a launch is given and that leads to nothing known
    seen: Hashable  # the kernel, with what it saw around it: a key for all sessions
    answered: Answered
    # operations, libraries and launches alike
    symbol: str
    operands: tuple[str, ...]
    steer: tuple[Content, ...]  # what decided, as a number, what it does
    flops: int | None
    least: int  # stands for all smaller numbers in what it makes
    cutlass: CutlassType  # the product inside a device type of CUTLASS
    foreign: bool  # what it computes is not known
    unnamed: bool  # nor which function of torch's it is
    orders: bool  # it puts elements in the order of their values, whatever its name
    keeps: bool  # it cannot have written what it was given
    places: tuple[int, ...]  # which of the pointers that it was given it wrote
    round: int  # the call of forward, counted over a whole run
    # what runs say
    after: Event  # what does the same in the last iteration of a loop, which stands for those that are left out
    replayed: bool
    loading: bool
    compiled: bool
    tf32: bool
    beside: str  # a thread or stream that nothing waited for yet
    # what analyses note
    is_product: bool
    promised: str


@dataclass(slots=True, eq=False, repr=False)
class Event(Brief):
    """Something that ran on the device or computed on tensors: a kernel launch, a library call, a torch operation.

    kind: launch (an authored kernel), library (a product, a sort, a solver: work a library does whole), op (any other
    torch operation), copy (a copy or a conversion), cutlass (a template-built device kernel).
    `reads` are contents with the tensors they were read through; `writes` the contents it made. `weight` is how many
    iterations of a loop it stands for; `times` how often its place had run in this call of forward by then, weights
    counted, and `flops` the operations of all of these, where they are known.
    """

    kind: str
    name: str
    loc: ir.Loc | None
    reads: list[tuple[Content, Tensor]]
    writes: list[Content] = field(default_factory=list)
    call: int = 0
    attrs: EventAttrs = field(default_factory=EventAttrs)
    stack: tuple[ir.Loc, ...] = ()
    weight: int = 1
    times: int = 1
    flops: int = 0
    flows: dict[int, list[Content]] | None = None  # content id -> what flowed into it, where a kernel analysis knows

    def given_numbers(self) -> dict[str, int | float]:
        """The known numbers that a launch is given in its first configuration, by their names."""
        given = next(iter(self.attrs.get("bindings", ())), {})
        plain = {name: value.value if isinstance(value, Scalar) else value for name, value in given.items()}
        return {name: value for name, value in plain.items() if isinstance(value, (int, float))}

    def flow(self, content: Content) -> list[Content]:
        """Returns the contents whose values went into `content`."""
        if self.flows is not None and content.ident in self.flows:
            return self.flows[content.ident]
        return [read for read, _ in self.reads]


@dataclass(slots=True, eq=False, repr=False)
class Tensor(Brief):
    """A view of a storage. A None dimension, or shape None, is not known. Strides and `offset` count elements; an
    offset of None is not known."""

    storage: Storage
    dtype: str
    shape: tuple[Any, ...] | None
    strides: tuple[Any, ...] | None = None
    offset: int | None = 0
    device: str = "cuda"
    parameter: bool = False
    attrs: dict[str, Any] = field(default_factory=dict)
    is_slice: bool = False  # shows only part of its storage

    def is_contiguous(self) -> bool:
        """Whether the strides are not known to differ from row-major order."""
        if self.shape is None or self.strides is None:
            return True
        want = row_major(self.shape)
        if want is None:
            return True
        return all(
            d == 1 or a == b or not isinstance(a, int) or not isinstance(b, int)
            for d, a, b in zip(self.shape, self.strides, want, strict=False)
        )

    def is_nameless(self) -> bool:
        """Whether nothing is known of what torch, or code that was not read, gave: it may be a number, or no tensor."""
        event = self.storage.content.event if self.shape is None else None
        return event is not None and (event.kind in ("op", "unread") or "foreign" in event.attrs)

    def numel(self) -> int | None:
        """Returns the number of elements; None when a dimension is unknown."""
        return product(self.shape)

    @property
    def address(self) -> int:
        """The made-up address of the tensor's first element."""
        return self.storage.address + (self.start or 0)

    @property
    def start(self) -> int | None:
        """The offset in bytes at which the tensor begins in its storage; None where it is not known."""
        return None if self.offset is None else self.offset * STORED.get(self.dtype, 32) // 8

    @property
    def place(self) -> range | None:
        """The range of bytes of its storage that the tensor shows; None where it is not known or has gaps."""
        start, count = self.start, self.numel()
        if start is None or count is None or not self.is_contiguous():
            return None
        return range(start, start + count * STORED.get(self.dtype, 32) // 8)

    @property
    def band(self) -> tuple[range, int] | None:
        """The range of bytes that the tensor shows of each row of its storage, and the row length in bytes; None where
        it is no such view."""
        return _band(self)


def _band(tensor: Tensor) -> tuple[range, int] | None:
    """The bytes that a view shows of each row that it goes through, and how long a row is: columns of a matrix."""
    start, shape, strides = tensor.start, tensor.shape, tensor.strides
    if start is None or shape is None or strides is None or None in (*shape, *strides):
        return None
    dims = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    width = 1
    while dims and dims[-1][1] == width:
        width *= dims.pop()[0]
    every = min((stride for _, stride in dims), default=0)
    if every < width or any(stride % every for _, stride in dims):
        return None
    size = STORED.get(tensor.dtype, 32) // 8
    first = start % (every * size) if every * size else 0
    return (range(first, first + width * size), every * size) if first + width * size <= every * size else None


def product(shape: tuple[Any, ...] | None) -> int | None:
    """Returns the number of elements of a shape; None when a dimension is unknown."""
    if shape is None:
        return None
    n = 1
    for d in shape:
        if not isinstance(d, int):
            return None
        n *= d
    return n


def row_major(shape: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    """Returns the strides of a contiguous tensor, in elements; None for an unknown shape."""
    if shape is None:
        return None
    out: list[Any] = []
    step: Any = 1
    for d in reversed(shape):
        out.append(step)
        step = step * d if isinstance(step, int) and isinstance(d, int) else None
    return tuple(reversed(out))


def broadcast(shapes: list[tuple[Any, ...] | None]) -> tuple[Value, ...] | None:
    """Returns the shape of an elementwise operation over `shapes`; None when one is unknown."""
    out: list[Any] = []
    whole = shapes[0] if shapes else ()
    if all(shape == whole for shape in shapes):  # as of most operations
        return whole
    for shape in shapes:
        if shape is None:
            return None
        rank = max(len(out), len(shape))
        a = [1] * (rank - len(out)) + out
        b = [1] * (rank - len(shape)) + list(shape)
        out = [y if x == 1 else x if y == 1 or y is None else y if x is None else x for x, y in zip(a, b, strict=True)]
    return tuple(out)


_RANK = ["bool", "u4", "i4", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"]
# Of the types that torch has: the smaller first, of two as large the one with fewer fraction bits.
_FORMATS = [(row.bits, row.fmt.fraction, row.name) for row in ROWS if row.torch and row.fmt and row.fmt.fraction]
_FLOAT_RANK = [name for _, _, name in sorted(_FORMATS)]


def promote(a: str, b: str) -> str:
    """Returns the element type that torch gives an elementwise operation on `a` and `b`, the types of tensors with
    dimensions."""
    if a == b:
        return a
    if "?" in (a, b):
        return a if b == "?" else b
    if a in _FLOAT_RANK and b in _FLOAT_RANK:
        if {a, b} == {"f16", "bf16"}:
            return "f32"
        return max(a, b, key=_FLOAT_RANK.index)
    if a in _FLOAT_RANK:
        return a
    if b in _FLOAT_RANK:
        return b
    if a in _RANK and b in _RANK:
        return max(a, b, key=_RANK.index)
    return a
