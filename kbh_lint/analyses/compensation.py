"""What the launches behind a result do about rounding errors of their sum of exponentials.

Each is evaluated on what those before it left in memory. What counts as a compensation in a kernel is
`kernels.numeric.residuals`; what becomes of the promise, `promises.compensated_sum`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.analyses.exponentials import FUNCTIONS
from kbh_lint.analyses.flow import Slice, facts_of
from kbh_lint.base import ir
from kbh_lint.base.dtypes import STORED
from kbh_lint.base.values import UNKNOWN, Buffer, Descriptor, Env, Func, Made, StructArg
from kbh_lint.host.explore.probes import result_contents
from kbh_lint.host.gpu.kernel_cache import identity, normal, normal_key
from kbh_lint.host.gpu.kernel_scope import exact
from kbh_lint.host.values.tensors import Event, Tensor, product, row_major
from kbh_lint.kernels.core.calls import sums_up
from kbh_lint.problems import Problem

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.compensation import CompensationFacts

# Of the memory that holds exponentials or their partial sums: three buffers may share one, and have room for more rows.
MIN_SHARE = 1 / 16


def promised(problem: Problem) -> bool:
    """Whether a problem promises that a sum is compensated."""
    return any(promise.kind == "compensated-sum" for promise in problem.promises)


def share_of_exponentials(total: Event) -> float:
    """How much of a tensor of exponentials the torch reduction `total` sums over, from 0 to 1: the largest share of any
    tensor of exponentials that the summed values are derived from; 0 when there is none."""
    best = 0.0
    pending, seen = [(total, 1.0)], {id(total)}
    while pending and len(seen) < 200:
        event, whole = pending.pop()
        for content, tensor in event.reads:
            count, size = product(tensor.shape), content.storage.size
            known = count is not None and isinstance(size, int) and size and tensor.dtype in STORED
            share = whole * min(1.0, (count or 0) * STORED[tensor.dtype] / 8 / (size or 1)) if known else whole
            maker = content.event
            if maker is None:
                continue
            stores = [s for facts in facts_of(maker) for s in facts.stores if s.storage == content.storage.ident]
            if maker.name in FUNCTIONS or any("exp" in o.flags for s in stores for o in s.origins):
                best = max(best, share)
                continue
            if any(facts.unread for facts in facts_of(maker)):
                best = max(best, share * MIN_SHARE / 2)
            if id(maker) not in seen:
                seen.add(id(maker))
                pending.append((maker, share))
    return best


Configured = tuple[Func, dict[str, Any], Any, Any]  # a kernel with its arguments, grid and block
MAX_LAUNCHES = 24
_CONSTANT = ("constant", "random")
_ORDER = ("absent", "unknown", "vacuous", "precise", "effective")
MAX_EVALUATED = 80


def _configurations(event: Event) -> list[int]:
    """Which configurations of a launch to look at: those that the analysis tells apart first."""
    told_apart = {id(facts): i for i, facts in reversed(list(enumerate(event.attrs["facts"])))}
    order = dict.fromkeys((*sorted(told_apart.values()), *range(len(event.attrs["bindings"]))))
    return list(order)[:MAX_EVALUATED]


def _configured(event: Event, i: int) -> Configured:
    """Kernel, arguments, grid and block of one configuration of a launch; of the last one where there are fewer."""
    bindings, kernels = event.attrs["bindings"], event.attrs.get("kernels")
    i = min(i, len(bindings) - 1)
    kernel = kernels[i] if kernels else event.attrs["kernel"]
    return kernel, bindings[i], _dims(event.attrs.get("grid") if i == 0 else None), _dims(event.attrs.get("block"))


def of_launch(event: Event, found: Slice) -> CompensationFacts:
    """Whether and how the kernel of one launch compensates its sum of exponentials.

    Of an autotuned launch the least compensated configuration counts, as any of them may be the one that is timed.
    """
    answers = []
    for i in _configurations(event):
        answer = _evaluated(event, i)
        if answer.state == "effective" and not _reaches(event, event.attrs["bindings"][i], answer, found):
            answer = replace(answer, state="vacuous", reason="unused")
        answers.append(answer)
    return min(answers, key=lambda a: _ORDER.index(a.state))


def of_sides(event: Event, loc: ir.Loc) -> tuple[CompensationFacts, CompensationFacts] | None:
    """What a kernel's sums do when the branch whose test is at `loc` is always taken, and when it is never taken.

    None where no branch at `loc` sums on both sides. Each side must have a loop or a reduction of its own: in one loop,
    both sides may add terms of the same sum.
    """
    kernel, binding, grid, block = _configured(event, 0)
    found: list[CompensationFacts] = []
    for taken in (True, False):
        body = _decided(kernel.node.body or (), loc, taken, kernel.env)
        if body is None:
            return None
        decided = replace(kernel, node=replace(kernel.node, body=body))
        found.append(_on_numbers(event, (decided, binding, grid, block)))
    return found[0], found[1]


def _decided(body: tuple[ir.Stmt, ...], loc: ir.Loc, taken: bool, env: Env) -> tuple[ir.Stmt, ...] | None:
    """Statements of which one branch is decided; None where it is not among them or sums nothing on either side."""
    for at, node in enumerate(body):
        if isinstance(node, ir.If) and node.loc == loc:
            if not sums_up(node.body, env) or not sums_up(node.orelse, env):
                return None
            return (*body[:at], *(node.body if taken else node.orelse), *body[at + 1 :])
        if isinstance(node, (ir.Block, ir.If)) and (inner := _decided(node.body, loc, taken, env)) is not None:
            return (*body[:at], replace(node, body=inner), *body[at + 1 :])
    return None


def _reaches(event: Event, binding: dict[str, object], answer: CompensationFacts, found: Slice) -> bool:
    """Whether a buffer that the residual changes is one that the result depends on."""
    storages = {getattr(binding.get(name), "storage", None) for name in answer.stored_params}
    written = [w for w in event.writes if w.storage.ident in storages]
    return not written or any(w.ident in found.contents for w in written)


def _evaluated(event: Event, i: int) -> CompensationFacts:
    """The compensation of one launch, evaluated once for equal launches."""
    cache: dict[object, CompensationFacts] = event.attrs["answered"].here
    configured = kernel, binding, grid, block = _configured(event, i)
    key = ("compensation", identity(kernel), normal_key(binding), grid, block)
    if key not in cache:
        if event.attrs.get("scope", key[1]) != key[1]:  # other numbers than those that it was launched with
            changed = "what the kernel sees changed after its launch", kernel.node.loc
            return _on_numbers(event, configured, changed)
        cache[key] = _on_numbers(event, configured)
    return cache[key]


def _on_numbers(event: Event, configured: Configured, unread: tuple[str, ir.Loc] | None = None) -> CompensationFacts:
    """What a kernel of a launch does, evaluated on numbers; `unknown` where something was not read before that."""
    from kbh_lint.kernels.numeric import compensation  # start-up: few problems have kernels evaluated on numbers

    if unread is not None:
        return compensation.CompensationFacts("unknown", unread=(unread,))
    kernel, binding, grid, block = configured
    budget, outer = event.attrs["answered"].budgets.numbers, event.attrs.get("outer")
    return compensation.evaluate(kernel, binding, grid=grid, block=block, budget=budget, outer=outer)


# --- several launches -----------------------------------------------------------------------------------------------


def of_launches(events: list[Event], found: Slice, result: object) -> CompensationFacts | None:
    """How several launches that hand tensors to one another compensate a sum together; None for fewer than two
    launches, or where that cannot be told.

    A rounding error that one kernel stores counts when it goes on to the result, and not when the kernel that merges
    the partial sums leaves it aside.
    """
    if not 1 < len(events) <= MAX_LAUNCHES:
        return None

    if any(e.attrs.get("scope", key) != key for e in events for key in (identity(e.attrs["kernel"]),)):
        return None
    written = {content.storage.ident for event in events for content in event.writes}
    ends = _ends(found, result)
    answers: list[CompensationFacts] = []
    for i in dict.fromkeys(i for event in events for i in _configurations(event)):
        answer = _together(events, i, written, ends)
        if answer is None or answer.state == "unknown":
            return None
        answers.append(answer)
    return min(answers, key=lambda a: _ORDER.index(a.state))


def _ends(found: Slice, result: object) -> dict[int, tuple[range, ...] | None]:
    """What others than kernels look at: the result whole, and the parts that operations of torch read."""
    ends: dict[int, tuple[range, ...] | None] = {c.storage.ident: None for c in result_contents(result)}
    for event in found.events:
        for content, tensor in event.reads if event.kind != "launch" else ():
            ident, part = content.storage.ident, _extent(tensor)
            if ends.get(ident, ()) is not None:
                ends[ident] = None if part is None else (*(ends.get(ident) or ()), part)
    return ends


def _extent(tensor: Tensor) -> range | None:
    """The bytes of its storage that a view spans."""
    shape, strides, start = tensor.shape, tensor.strides, tensor.start
    if start is None or shape is None or tensor.dtype not in STORED:
        return None
    sizes = list(zip(shape, strides or row_major(shape) or (), strict=False))
    if len(sizes) < len(shape) or not all(isinstance(n, int) and isinstance(step, int) for n, step in sizes):
        return None
    return range(start, start + (1 + sum((n - 1) * step for n, step in sizes)) * STORED[tensor.dtype] // 8)


def _together(
    events: list[Event], i: int, written: set[int], ends: dict[int, tuple[range, ...] | None]
) -> CompensationFacts | None:
    """The compensation of launches that hand tensors to one another, in their configuration `i`; None where a buffer is
    reached through an object of the host. Chains of equal launches are evaluated once.

    `written`: the storages that any of the launches writes; `ends`: the parts of storages that others read (`_ends`).
    """
    from kbh_lint.kernels.numeric import compensation  # start-up: few problems have kernels evaluated on numbers

    numbers: dict[int, int] = {}
    launches: list[compensation.Launch] = []
    key: list[Any] = ["compensation"]
    begins: dict[int, set[int]] = {}
    for event in events:
        kernel, binding, grid, block = _configured(event, i)
        starts = event.attrs.get("starts", {})
        for path, pointer in (found for name, value in binding.items() for found in _pointers(name, value)):
            if pointer.storage in written and not path:
                return None
            begins.setdefault(pointer.storage, {0}).add(starts.get(path) or 0)
        args = {name: normal(value, numbers) for name, value in binding.items()}
        held = {ident: content for ident, content in event.attrs["contents"].items() if ident in numbers}
        filled = frozenset(numbers[ident] for ident, content in held.items() if content.label in _CONSTANT)
        launches.append(compensation.Launch(kernel, args, block, grid, event.attrs.get("outer"), starts, filled))
        key += [identity(kernel), tuple((n, exact(v)) for n, v in args.items()), tuple(starts.items()), filled]
        key += [grid, block]
    for ident, parts in ends.items():
        begins.get(ident, set()).update(end for part in parts or () for end in (part.start, part.stop))
    handed = {numbers[ident]: tuple(sorted(at)) for ident, at in begins.items() if ident in numbers}
    stops = {numbers[ident]: parts for ident, parts in ends.items() if ident in numbers}
    key += [tuple(handed.items()), tuple(stops.items())]
    shared = events[0].attrs
    cache: dict[object, CompensationFacts] = shared["answered"].here
    if tuple(key) not in cache:
        budget = shared["answered"].budgets.numbers
        fuel = min(compensation.FUEL, budget.left // 4)
        cache[tuple(key)] = compensation.evaluate_chain(tuple(launches), handed, stops, budget, fuel)
    return cache[tuple(key)]


def _pointers(path: str, value: object) -> Iterator[tuple[str, Buffer | Descriptor]]:
    """The pointers in an argument, each with its path; without one where it is held by an object of the host."""
    if isinstance(value, (Buffer, Descriptor)):
        yield path, value
    named = enumerate(value) if isinstance(value, tuple) else value.fields if isinstance(value, StructArg) else ()
    for name, item in named:
        yield from _pointers(path and f"{path}.{name}", item)
    for _, item in value.fields if isinstance(value, Made) else ():
        yield from _pointers("", item)


def _dims(value: object) -> tuple[object, object, object]:
    items = list(value) if isinstance(value, (tuple, list)) else [value]
    known: list[object] = [v if isinstance(v, int) and not isinstance(v, bool) else UNKNOWN for v in items[:3]]
    known += [1 if known and known[0] is not UNKNOWN else UNKNOWN] * (3 - len(known))
    return (known[0], known[1], known[2])
