"""`__device__` variables: memory that belongs to no argument, and that outlives every launch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import Func
from kbh_lint.host.torch import recording
from kbh_lint.host.values.tensors import Tensor
from kbh_lint.kernels.core.facts import KernelFacts, Origin

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from kbh_lint.host.run import Run

F = TypeVar("F", bound="DataclassInstance")  # one fact of a kernel: a load, a store, a product, ...

MEMORY = frozenset(("__device__", "__constant__"))


def resolve(interp: Run, kernel: Func, facts: list[KernelFacts], tensors: dict[int, Tensor]) -> list[KernelFacts]:
    """Returns the kernel's facts with a storage for each `__device__` variable that it uses; adds these storages to
    `tensors`."""
    named = {name for f in facts for name in f.traffic().unplaced}
    storages: dict[str, int] = {}
    for name in sorted(named):
        tensor = _variable(interp, kernel, name)
        if tensor is not None:
            storages[name] = tensor.storage.ident
            tensors[tensor.storage.ident] = tensor
    return [_placed(f, storages) for f in facts] if storages else facts


def _variable(interp: Run, kernel: Func, name: str) -> Tensor | None:
    try:
        decl = kernel.env.lookup(name.removesuffix("[]"))  # what addresses in it lead to counts as the variable
    except KeyError:
        return None
    return variable(interp, decl) if isinstance(decl, ir.Decl) and decl.storage & MEMORY else None


def variable(interp: Run, decl: ir.Decl) -> Tensor:
    """Returns the tensor that stands for the memory of a `__device__` or `__constant__` variable."""
    known: Tensor | None = interp.memory.variables.get(id(decl))
    if known is None:
        dtype = (dtypes.from_cpp(decl.type.name) if decl.type is not None else None) or "?"
        known = interp.memory.variables[id(decl)] = recording.make(interp, None, dtype, "constant")
    return known


def _placed(facts: KernelFacts, storages: dict[str, int]) -> KernelFacts:
    def origins(values: frozenset[Origin]) -> frozenset[Origin]:
        return frozenset(replace(o, storage=storages.get(o.param, o.storage)) for o in values)

    def one(item: F) -> F:
        changes: dict[str, Any] = {
            name: origins(getattr(item, name)) for name in ("origins", "a_origins", "b_origins") if hasattr(item, name)
        }
        if hasattr(item, "storage"):
            changes["storage"] = storages.get(getattr(item, "param", ""), item.storage)
        return replace(item, **changes) if changes else item

    return replace(
        facts,
        loads=[one(x) for x in facts.loads],
        stores=[one(x) for x in facts.stores],
        products=[one(x) for x in facts.products],
        casts=[one(x) for x in facts.casts],
        unpacks=[one(x) for x in facts.unpacks],
        sums=[one(x) for x in facts.sums],
        branches=[one(x) for x in facts.branches],
        bounds=[one(x) for x in facts.bounds],
        lost=[one(x) for x in facts.lost],
        hints=[one(x) for x in facts.hints],
        choices=[one(x) for x in facts.choices],
        waits=[one(x) for x in facts.waits],
        gates=[one(x) for x in facts.gates],
        amounts=[one(x) for x in facts.amounts],
    )
