"""`::n`: the name of the file's scope, whatever is called `n` nearer by."""

from __future__ import annotations

from collections.abc import Iterable

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.unit import CudaUnit
from kbh_lint.frontends.walk import walk


def settle(unit: CudaUnit, names: Iterable[ir.Name], body: Iterable[ir.Stmt]) -> None:
    """Renames those of `names` that were written `::n` back to `::n` if an inner scope also declares `n`, and adds them
    to `unit.outermost`. The others stay `n`, as only one meaning is possible."""
    asked = {name.id for name in names}
    declared = (ir.Decl, ir.FuncDef, ir.Param)
    outer = (
        [node for node in body if isinstance(node, declared) and not unit.namespace_at(node.loc[1])] if asked else []
    )
    own = {node.name for node in outer} & asked
    known = {id(node) for node in outer}
    for node in walk(tuple(body)) if own else ():
        if isinstance(node, declared) and node.name in own and id(node) not in known:
            unit.outermost.add(node.name)
    for name in names:
        name.id = f"::{name.id}" if name.id in unit.outermost else name.id
