"""What entry points without a contract show: caches, arguments that a result ignores, precision that differs.

Nothing is known of what such a file promises, so facts are only what no deck can want: contents of an earlier call in
place of this one's, state of the submission's own in place of what the caller hands in, and products that are narrower
at one size, or in one entry point, than the same ones are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import permutations
from typing import Any

from kbh_lint.analyses import replay
from kbh_lint.analyses.flow import Slice, last_call, reach
from kbh_lint.analyses.products import ProductUse, effective, effective_bits, products
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts, launched_from
from kbh_lint.base.facts import EntrySplit, IgnoredArgument, Survivor
from kbh_lint.base.records import dataclass
from kbh_lint.host.explore import entries
from kbh_lint.host.explore.entries import Entry
from kbh_lint.host.values.path_runs import PathRun, ShapeRun
from kbh_lint.host.values.session import Session
from kbh_lint.host.values.tensors import Content, Event, Tensor

TF32 = 19  # bits


@dataclass(frozen=True, slots=True)
class _Use:
    """A product of one run: the kernel that does it, or that torch does; its bits; whether a setting makes it tf32."""

    group: Any
    bits: int
    tf32: bool
    inputs: tuple[str, ...]
    use: ProductUse


@dataclass(slots=True, eq=False)
class _Looked:
    """What the runs of one path showed."""

    facts: list[ShapeFacts] = field(default_factory=list)
    uses: dict[tuple[str, str], list[_Use]] = field(default_factory=dict)  # by entry point and size

    def look(self, path: PathRun, run: ShapeRun, entry: Entry) -> None:
        """Adds the facts of `run`, one run of `entry`; to be called when the run ends, while the calls of `entry` are
        its last ones."""
        shown = ShapeFacts(run.label)
        self.facts.append(shown)
        if not run.calls:
            return
        found = reach(last_call(run))
        self.uses[entry.name, run.label] = list(_uses(found))
        if len(run.calls) < 2:
            return
        shown.seeds += [
            seed
            for seed in replay.survivors(path, run, found)
            if isinstance(seed.fact, Survivor) and seed.fact.what != "nothing"
        ]
        shown.seeds += ignored_arguments(run, found)


def entry_facts(session: Session) -> list[ShapeFacts]:
    """The facts that hold on every path through the entry points of a file without a contract: one `ShapeFacts` for
    each run of an entry point. No graded shapes are known, so they are tied to none."""
    looked: list[_Looked] = []

    def examine(path: PathRun) -> entries.Examine:
        """Starts the collection for a new path and returns the function that looks at each of its runs."""
        looked.append(_Looked())
        return looked[-1].look

    paths = entries.explore(session, examine)
    first, ended = looked[0], [one for one, path in zip(looked, paths, strict=True) if path.came_to_an_end()]
    splits = [_splits(one.uses) for one in ended]
    for shown in first.facts:
        shown.seeds += splits[0].get(shown.label, []) if splits else []
    out = []
    for shown in first.facts:
        others = [{s.key() for s in _of(one, split, shown.label)} for one, split in zip(ended, splits, strict=True)]
        others = [keys for keys, one in zip(others, ended, strict=True) if one is not first and _ran(one, shown.label)]
        out.append(ShapeFacts("", [s for s in shown.seeds if all(s.key() in keys for keys in others)]))
    return out


def _of(one: _Looked, split: dict[str, list[ShapeFact]], label: str) -> Iterator[ShapeFact]:
    for shown in one.facts:
        if shown.label == label:
            yield from shown.seeds
    yield from split.get(label, ())


def _ran(one: _Looked, label: str) -> bool:
    return any(at == label for _, at in one.uses)


# --- arguments -----------------------------------------------------------------------------------------------


def ignored_arguments(run: ShapeRun, found: Slice) -> list[ShapeFact]:
    """Fact `ignored-argument`: tensors that are passed to a call and never looked at, while the result comes from
    memory that the submission returned to its caller earlier. The caller hands the state in again, and it is not
    used."""
    call = run.calls[-1]
    if run.unread or found.opaque or run.layout is None:
        return []
    inputs = {tensor.storage.ident: name for name, tensor in run.inputs.items()}
    touched = {c.storage.ident for event in call.events for c, _ in event.reads} | {
        c.storage.ident for event in call.events for c in event.writes
    }
    touched |= {c.storage.ident for c in found.outside} | {c.storage.ident for c in found.start}
    seen = {inputs[ident] for ident in touched if ident in inputs}
    ignored = [name for name, inside in run.layout.tensors().items() if not inside & seen]
    if not ignored:
        return []
    returned = {tensor.storage.ident for tensor in _tensors(call.result)}
    reader = next(
        (e for e in found.events for c, _ in e.reads if e.call == call.index and _kept(c, run, returned)), None
    )
    if reader is None:
        return []
    return [ShapeFact(IgnoredArgument(names=tuple(ignored)), reader.loc, tuple(launched_from(reader)[1:]))]


def _kept(content: Content, run: ShapeRun, returned: set[int]) -> bool:
    """Whether contents are of memory that outlived a call and that the caller knows."""
    storage = content.storage.ident
    call = run.calls[-1]
    if content.call == call.index or content.label.startswith(("input:", "state:")) or storage in call.given:
        return False
    return storage in returned or storage in run.handed


def _tensors(value: object, depth: int = 0) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)) and depth < 4:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item, depth + 1)


# --- precision -----------------------------------------------------------------------------------------------


def _uses(found: Slice) -> Iterator[_Use]:
    for use in products(found):
        event = use.event
        tf32 = bool(event.attrs.get("tf32"))
        bits = [effective_bits(effective(dtype, use.mode)) or 0 for dtype in use.operands]
        if not all(bits):
            continue
        known = TF32 if tf32 and min(bits) == 32 else min(bits)
        yield _Use(_group(event), known, tf32 and known == TF32, use.inputs, use)


def _group(event: Event) -> object:
    """What makes two products the same work: the kernel that does them; torch's are alike."""
    return id(event.attrs["kernel"].node) if event.kind == "launch" else event.kind


def _splits(uses: dict[tuple[str, str], list[_Use]]) -> dict[str, list[ShapeFact]]:
    """Facts `entry-split`, by the label of the run that is narrower."""
    out: dict[str, list[ShapeFact]] = {}
    names = list(dict.fromkeys(name for name, _ in uses))
    told: set[Any] = set()
    for name in names:
        labels = [label for at, label in uses if at == name]
        for label, beside in permutations(labels, 2):
            for use in _narrower(uses[name, label], uses[name, beside], across=False):
                if (name, label, use.use.loc) not in told:
                    told |= {(name, use.use.loc), (name, label, use.use.loc)}
                    out.setdefault(label, []).append(_split(use, name, "sizes", uses[name, beside]))
    for name in names:
        mine = [use for (at, _), found in uses.items() if at == name for use in found]
        for other_name in names:
            other = [use for (at, _), found in uses.items() if at == other_name for use in found]
            for use in _narrower(mine, other, across=True) if other_name != name else ():
                if (name, use.use.loc) in told:
                    continue
                told.add((name, use.use.loc))
                label = next(label for (at, label), found in uses.items() if at == name and use in found)
                out.setdefault(label, []).append(_split(use, name, "entry points", other))
    return out


def split_by_shape(name: str, path: PathRun) -> dict[str, list[ShapeFact]]:
    """Facts `entry-split` of the entry point `name` of a contract, along one path: products that run narrower on some
    shapes than on others. Facts are grouped by the label of the narrower shape."""
    return _splits({(name, run.label): list(_uses(reach(last_call(run)))) for run in path.shapes if run.calls})


def _narrower(mine: list[_Use], other: list[_Use], *, across: bool) -> Iterator[_Use]:
    """The products that are narrower than all that the same kernel, or torch, does in the other run. `across` entry
    points, of which one may be there to be compared with, torch's must also be of the same inputs and weights, where
    these are known, and narrower by a setting alone."""
    for use in mine:
        same = [o for o in other if o.group == use.group]
        if across and not isinstance(use.group, int):
            same = [o for o in same if _alike(o.inputs, use.inputs)] if use.tf32 else []
        if same and all(use.bits < o.bits for o in same) and max(o.bits for o in same) >= TF32:
            yield use


def _alike(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether products may be of the same weights; a run may make a model of its own, whose weights have no names."""
    return not one or not other or bool(set(one) & set(other))


def _split(use: _Use, name: str, between: str, other: list[_Use]) -> ShapeFact:
    types = ("tf32", "tf32") if use.tf32 else tuple(effective(d, use.use.mode) for d in use.use.operands)
    wide = [(o.use.loc, f"the same work in {_type_of(o)}") for o in other if o.group == use.group][:2]
    fact = EntrySplit(entry=name, types=types, between=between)
    return ShapeFact(fact, use.use.loc, (*wide, *launched_from(use.use.event)))


def _type_of(use: _Use) -> str:
    return "tf32" if use.tf32 else effective(use.use.operands[0], use.use.mode)
