"""The evidence of a grading from the silicon, as plain data that a bundle keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grader.record.bundle import from_json, to_json
from grader.record.cell import LATER, FindingRecord
from kbh_lint.findings import State

__all__ = ["CodeRow", "KernelRow", "ShapeEvidence", "Silicon", "silicon_from_json", "silicon_to_json"]


@dataclass(frozen=True, slots=True)
class KernelRow:
    """The launches of one kernel with one grid in one call. `library`: who wrote it; empty for the submission.

    `seconds` is the sum over its launches by the profiler, which runs them one at a time.
    """

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    launches: int
    seconds: float
    library: str


@dataclass(frozen=True, slots=True)
class CodeRow:
    """The machine code of a kernel that ran. `sha256` is of its cubin, `digest` of its instructions without what two
    builds may differ in, and `again` whether a second build gave the same ones. `loaded`: it is the code that the
    driver had loaded, by Nsight Compute, and not only what a cache held. `products` are its matrix instructions
    in words, and `shapes` the labels of those that ran it."""

    name: str
    sha256: str
    digest: str
    again: bool
    loaded: bool
    products: str
    shapes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShapeEvidence:
    """One call of one shape. All of it is the profilers' claim, from a process whose outputs were those of the trial.

    `tensor` are executed operations by the type of their operands and `needed` the algorithm's; `read` and `written`
    bytes of DRAM and `compulsory` those that a cold call must read. `seconds` is the sum over the kernels beside the
    counters, where each begins with empty caches; `busy` is how long the device worked under the tracer alone (0: not
    traced), `scored` the longer of the trial's events without the empty call and its sealed batches. `library` is the
    share of the time in kernels that the submission did not bring. `model` is what the raw report calls the model that
    was counted; 0 in older bundles, where it is the shape's place among `shapes`, from 1 on.
    """

    shape: str
    kernels: tuple[KernelRow, ...]
    tensor: Mapping[str, float]
    needed: float
    read: float
    written: float
    compulsory: float
    seconds: float
    busy: float
    scored: float
    library: float
    model: int = field(default=0, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Silicon:
    """`layers`: layer -> promise -> state, for the layers that were had; `reasons`: promise -> a sentence where the
    state is not that of the source. `notes` say what could not be had. `capability` is the GPU's, such as 9.0; `counts`
    and `traces` are the hashes of the raw texts in the bundle, empty where there are none. `shapes_by_layer` has the
    states of `layers` at each shape: layer -> promise -> label. `code` are the kernels that were compiled again, and
    `spent` the seconds that each pass took."""

    layers: Mapping[str, Mapping[str, State]]
    reasons: Mapping[str, str]
    findings: tuple[FindingRecord, ...]
    shapes: tuple[ShapeEvidence, ...]
    notes: tuple[str, ...]
    capability: str = ""
    counts: str = ""
    traces: tuple[str, ...] = ()
    shapes_by_layer: Mapping[str, Mapping[str, Mapping[str, State]]] = field(default_factory=dict, metadata=LATER)
    code: tuple[CodeRow, ...] = field(default=(), metadata=LATER)
    spent: Mapping[str, float] = field(default_factory=dict, metadata=LATER)

    @property
    def reports(self) -> tuple[str, ...]:
        """The hashes of all raw texts."""
        return tuple(filter(None, (self.counts, *self.traces)))


def silicon_to_json(silicon: Silicon) -> object:
    """The evidence as JSON values. Raises CodecError."""
    return to_json(silicon, Silicon)


def silicon_from_json(data: object) -> Silicon:
    """The reverse of `silicon_to_json`. Raises CodecError."""
    return from_json(data, Silicon)
