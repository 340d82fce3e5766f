"""Grids that cover a product's rows only when its groups are balanced, loops that step over a part of an input, and
states that begin anew in the midst of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from kbh_lint import registry
from kbh_lint.analyses.flow import Slice, facts_of, roots
from kbh_lint.analyses.seeds import ShapeFact, launched_from
from kbh_lint.base.facts import ShortGrid
from kbh_lint.base.formulas import evaluate_int
from kbh_lint.base.values import Scalar
from kbh_lint.host.gpu.kernel_cache import normalised
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensor_arguments import tensors_in
from kbh_lint.host.values.tensors import Content, Event, Tensor
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.kernels.extents.gaps import stepped_over
from kbh_lint.kernels.extents.restarts import Restart, restarts
from kbh_lint.kernels.extents.reuse import axes
from kbh_lint.problems import ArgSpec, Contract, Problem, Promise

MIN_TILE, MAX_TILE = 8, 512  # columns of one
MAX_COPIES = 8
MAX_CONFIGS = 12  # of one launch


def asks_for_heights(problem: Problem) -> bool:
    """Whether `short_grids`, which alone asks for the rows of products, has anything to look for in a problem."""
    return any(_gives_total(spec) for contract in problem.contracts.values() for spec in contract.forward)


def _gives_total(spec: ArgSpec) -> bool:
    """Whether an input is offsets of groups of which it is said how many rows they have together."""
    return "offsets" in str(spec.domain.get("kind", "")) and "total" in spec.domain


def short_grids(contract: Contract, run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Facts `short-grid`: launches whose grid covers the rows of a grouped product only when groups are balanced.

    Legal offsets may put all rows into any one group. A grid that depends on sizes alone must have enough tiles for
    that, or the kernel must loop as the offsets say.
    """
    if run.binding is None:
        return []
    out: list[ShapeFact] = []
    columns = run.binding.outputs[0].shape[-1] if run.binding.outputs and run.binding.outputs[0].shape else 0
    for spec, shape in zip(contract.forward, run.binding.inputs, strict=True):
        if len(shape.shape) != 1 or not _gives_total(spec):
            continue
        groups, rows = shape.shape[0] - 1, evaluate_int(spec.domain["total"], run.binding.shape.symbols)
        for event in found.events:
            facts = next(iter(facts_of(event)), None)
            if event.kind != "launch" or facts is None or not _by_offsets(event, facts, spec.name):
                continue
            grid = _numbers(event.attrs.get("grid"))
            height = max((p.rows or 0 for p in facts.products), default=0)
            if grid is None or not height or event.attrs.get("steer"):
                continue
            held = _held(grid, _group_axis(event, facts, spec.name, grid, groups), _column_tiles(event, columns))
            if held is not None and _short(*held, groups, rows, height):
                each = held[0] * height // (1 if held[1] else groups)
                fact = ShortGrid(name=spec.name, rows=each, of=rows)
                out.append(ShapeFact(fact, event.loc, tuple(launched_from(event)[1:])))
    return out


def _numbers(grid: object) -> tuple[int, ...] | None:
    grid = grid if isinstance(grid, (tuple, list)) else (grid,)
    return tuple(grid) if all(isinstance(g, int) and g > 0 for g in grid) else None


def _by_offsets(event: Event, facts: KernelFacts, name: str) -> bool:
    """Whether a kernel that multiplies reads the offsets, and bounds no loop by them."""
    held: dict[int, Content] = event.attrs["contents"]
    reads = any(load.storage in held and _itself(held[load.storage], name) for load in facts.loads)
    looped = any(name in _names(held, origin.storage) for bound in facts.bounds for origin in bound.origins)
    return bool(facts.products) and reads and not looped and not facts.unread


def _itself(content: Content, name: str) -> bool:
    """Whether a content is an input, or a conversion of it; a plan that was made of it holds its own tiles."""
    for _ in range(MAX_COPIES):
        event = content.event
        if event is None or event.kind != "copy" or "from" not in event.attrs or len(event.reads) != 1:
            break
        content = event.reads[0][0]
    return content.label == f"input:{name}"


def _names(held: dict[int, Content], storage: int) -> set[str]:
    return {root.name for root in roots(held[storage])} if storage in held else set()


def _column_tiles(event: Event, columns: int) -> list[int]:
    """The numbers of column tiles that the launch's constants allow, fewest first."""
    sizes = set()
    for value in event.attrs["bindings"][0].values():
        number = value.value if isinstance(value, Scalar) else value
        if isinstance(number, int) and not isinstance(number, bool) and MIN_TILE <= number <= MAX_TILE:
            sizes.add(-(-columns // number))
    return sorted(sizes)


def _group_axis(event: Event, facts: KernelFacts, name: str, grid: tuple[int, ...], groups: int) -> int | None:
    """The axis of the grid that counts the groups: as long as there are, and what chooses the offsets that are read.
    Columns may come in as many tiles."""
    held: dict[int, Content] = event.attrs["contents"]
    kernel = event.attrs["kernel"]
    loads = [load for load in facts.loads if load.storage in held and _itself(held[load.storage], name)]
    seen = registry.by_pointers(kernel.language)
    known = [axes(kernel.node, load.loc, kernel.env) if seen else None for load in loads]
    chosen = {at for found in known for at in found or ()}
    return next((at for at, size in enumerate(grid) if size == groups and (at in chosen or None in known)), None)


def _held(grid: tuple[int, ...], by_group: int | None, tiles: list[int]) -> tuple[int, bool] | None:
    """The row tiles that a grid holds: (of each group, True) when one axis counts the groups, else (of all, False)."""
    each = by_group is not None
    others = [g for at, g in enumerate(grid) if g != 1 and at != by_group]
    across = next((t for t in tiles if t in others and len(others) > 1), None)
    if across is not None:
        others.remove(across)
        return prod(others), each
    left = prod(others)
    across = next((t for t in tiles if left % t == 0 and left > t), None)
    return (left // across, each) if across is not None else None


def _short(tiles: int, each: bool, groups: int, rows: int, height: int) -> bool:
    """Whether some routing of the rows needs more tiles than there are, although a balanced one does not."""
    average = -(-rows // groups)
    if each:
        return average <= tiles * height < rows
    return rows <= tiles * height and tiles < rows // height + groups - 1


def stepped(promise: Promise, run: ShapeRun, found: Slice) -> dict[str, tuple[Event, Any]]:
    """The inputs named by `promise` of which a launch reads some elements and skips others between them, by name: the
    launch, and the place of the loop that skips."""
    names = {name for key in ("inputs", "must_read") for name in promise.params.get(key, ())}
    specs = run.binding.inputs if run.binding is not None else ()
    numbers = {spec.name: spec.value for spec in specs if isinstance(spec.value, int)}
    known: dict[str, tuple[Event, Any]] = {}
    for content in found.outside:
        name = content.label.partition(":")[2]
        readers = [event for event in found.events if any(read is content for read, _ in event.reads)]
        if name not in names or len(readers) != 1 or readers[0].kind != "launch" or readers[0].weight != 1:
            continue
        loc = _hole(content, readers[0], numbers)
        if loc is not None:
            known[name] = readers[0], loc
    return known


def _hole(content: Content, event: Event, numbers: dict[str, int]) -> object:
    """The loop of a launch that steps over a part of a content, in each of its configurations."""
    attrs = event.attrs
    if not attrs["bindings"] or any(facts.unread for facts in attrs["distinct"]):
        return None
    held: dict[int, Content] = attrs["contents"]
    known = {at: numbers[name] for at, one in held.items() if (name := one.label.partition(":")[2]) in numbers}
    grid = attrs["grid"]
    dims = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    answers, found = attrs["answered"].everywhere, None
    for binding in attrs["bindings"][:MAX_CONFIGS]:
        launch = normalised(attrs["answered"].here, binding)
        told = {launch.storages[at]: number for at, number in known.items() if at in launch.storages}
        key = ("holes", attrs["seen"], launch.key, str(dims), str(told))
        if key not in answers:
            answers[key] = stepped_over(attrs["kernel"], launch.binding, dims, told)
        found = answers[key].get(launch.storages.get(content.storage.ident, -1))
        if found is None:
            return None
    return found


def restarted(run: ShapeRun, found: Slice) -> tuple[Event, Any] | None:
    """The launch, and the place of the loop in it, that computes a recurrence in pieces and starts the state of each
    piece at zero, so that a piece stores less than the axis that its loop runs along; None when no launch does."""
    tensors = {tensor.storage.ident: tensor for tensor in tensors_in(run.calls[-1].result)} if run.calls else {}
    for content in found.start:
        tensor, event = tensors.get(content.storage.ident), content.event
        if tensor is None or event is None or content.previous is not None:
            continue
        if event.kind != "launch" or event.weight != 1:
            continue
        seen = [_restart(event, content.storage.ident, binding) for binding in event.attrs["bindings"][:MAX_CONFIGS]]
        told = [one for one in seen if one is not None and _shorter(one, tensor)]
        if told and len(told) == len(seen):
            return event, told[0].loc
    return None


def _restart(event: Event, storage: int, binding: Mapping[str, object]) -> Restart | None:
    attrs, grid = event.attrs, event.attrs["grid"]
    if any(facts.unread for facts in attrs["distinct"]):
        return None
    dims = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    launch = normalised(attrs["answered"].here, binding)
    answers = attrs["answered"].everywhere
    key = ("restarts", attrs["seen"], launch.key, str(dims), launch.storages.get(storage))
    if key not in answers:
        answers[key] = restarts(attrs["kernel"], launch.binding, dims, launch.storages.get(storage, -1))
    found: Restart | None = answers[key]
    return found


def _shorter(one: Restart, tensor: Tensor) -> bool:
    """Whether the longest piece is shorter than the axis that it goes along: the one with the longest steps that are no
    longer than the loop's."""
    sizes = list(zip(tensor.strides or (), tensor.shape or (), strict=False))
    along = [(stride, size) for stride, size in sizes if isinstance(stride, int) and 0 < stride <= one.stride]
    if len(along) < 1 or not all(isinstance(size, int) for _, size in along):
        return False
    stride, size = max(along)
    return one.stride % stride == 0 and one.stride * one.longest < stride * size
