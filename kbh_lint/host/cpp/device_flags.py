"""Flags and counters in device memory: `__device__` numbers, by the values that launches and the host leave in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, Env, Func, Overloads, Scalar, Sym, Value
from kbh_lint.frontends.walk import all_nodes
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.gpu import device_memory
from kbh_lint.host.torch import recording
from kbh_lint.host.values.cpp_objects import Pointer, Slot
from kbh_lint.host.values.tensors import Content, Tensor, Unknown
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.kernels.core.flags import PREFIX

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run

MAX_FUNCTIONS = 64
# Calls of the runtime that name a variable, with the positions of the variable and of what it is copied to or from.
SYMBOL_CALLS = {
    "cudaMemcpyToSymbol": (0, 1), "cudaMemcpyToSymbolAsync": (0, 1), "cudaMemcpyFromSymbol": (1, 0),
    "cudaMemcpyFromSymbolAsync": (1, 0), "cudaGetSymbolAddress": (1, 0),
}  # fmt: skip


def values(interp: Run, kernel: Func) -> dict[str, Scalar]:
    """Returns the known numbers in the `__device__` variables that a kernel names, as arguments of its analysis."""
    found: dict[str, Scalar] = {}
    for name, decl in _named(interp, kernel).items():
        value = _table(interp, decl, kernel.env)[decl.name]
        if isinstance(value, (bool, int, float)):
            found[PREFIX + name] = Scalar(value)
    return found


def after_launch(interp: Run, kernel: Func, facts: KernelFacts) -> None:
    """Updates the `__device__` flags that a launch stored to: to the stored number, or to an unknown one. A known
    number carries no data from call to call."""
    facts = facts.plain()
    decls = _named(interp, kernel) if facts.settings or facts.stores else {}
    written = {s.param for s in facts.stores}
    settings = dict(facts.settings)
    for name, decl in decls.items():
        if name in written:
            left = settings.get(name, UNKNOWN)
            _put(interp, decl, kernel.env, Unknown((), "a flag in device memory") if left is UNKNOWN else left)


def symbol_call(run: Cpp, name: str, node: ir.Call, env: Env) -> Value:
    """Models cudaMemcpyToSymbol(variable, &source, size), cudaMemcpyFromSymbol(&target, variable, size) and the like;
    NotImplemented where the variable is not in the source."""
    at, other_at = SYMBOL_CALLS[name]
    decl = _declared(node.args[at], env) if len(node.args) > max(at, other_at) else None
    if decl is None:
        return NotImplemented
    interp = run.interp
    other = run.eval_place(node.args[other_at], env)
    held = other.get() if isinstance(other, Slot) else other
    tensor = device_memory.variable(interp, decl)
    scalar = _is_scalar(decl)
    if name == "cudaGetSymbolAddress":
        if scalar:
            _table(interp, decl, env)[decl.name] = Unknown((), "memory whose address is known")
        if isinstance(other, Slot):
            other.set(Pointer(tensor, tensor.dtype))
    elif name.startswith("cudaMemcpyTo"):
        if scalar and isinstance(held, (bool, int, float)):
            _put(interp, decl, env, held)
        else:
            _copy(run, name, held, tensor, node.loc)
            if scalar:
                _table(interp, decl, env)[decl.name] = Unknown(tuple(interp.contents_of(held)), "a number in a flag")
    elif isinstance(held, (Pointer, Tensor)):
        _copy(run, name, tensor, held.tensor if isinstance(held, Pointer) else held, node.loc)
    elif isinstance(other, Slot):
        other.set(_table(interp, decl, env)[decl.name] if scalar else Unknown((tensor.storage.content,), decl.name))
    return Sym("cudaSuccess")


def _copy(run: Cpp, name: str, source: Value, target: Tensor, loc: ir.Loc | None) -> None:
    source = source.tensor if isinstance(source, Pointer) else source
    if isinstance(source, Tensor):
        event = recording.record(run.interp, "copy", name, loc, [source], {"cast": False})
        recording.write(run.interp, target, event, dtype=source.storage.content.dtype)
    elif led := cpp_arguments.pointers(source):  # what kernels find behind addresses in a variable is not followed
        event = recording.record(run.interp, "unread", f"what {name} copies", loc, [p.tensor for p in led])
        recording.write(run.interp, target, event)


def _put(interp: Run, decl: ir.Decl, env: Env, value: Value) -> None:
    _table(interp, decl, env)[decl.name] = value
    if not isinstance(value, Unknown):
        storage = device_memory.variable(interp, decl).storage
        storage.content = Content(storage, storage.content.dtype, interp.trace.call_index, "constant")


def _table(interp: Run, decl: ir.Decl, env: Env) -> dict[str, Value]:
    """Where the value of a variable is held: with the other variables of the file, which outlive calls."""
    table: dict[str, Any] = interp.cpp.globals.setdefault((id(decl), decl.name), {})
    if decl.name not in table:
        if decl.init is None:
            table[decl.name] = 0
        else:
            interp.cpp.global_slot(decl, env)
            if isinstance(table[decl.name], (list, tuple)) and len(table[decl.name]) == 1:
                table[decl.name] = table[decl.name][0]
    return table


def _named(interp: Run, kernel: Func) -> dict[str, ir.Decl]:
    """The `__device__` numbers that a kernel or a function below it names."""
    known: dict[int, dict[str, ir.Decl]] = interp.session.flags
    if id(kernel.node) not in known:
        known[id(kernel.node)] = _search(kernel)
    return known[id(kernel.node)]


def _search(kernel: Func) -> dict[str, ir.Decl]:
    found: dict[str, ir.Decl] = {}
    bodies, seen = [kernel.node], {id(kernel.node)}
    while bodies and len(seen) < MAX_FUNCTIONS:
        for node in all_nodes(bodies.pop().body or ()):
            name = node.id if isinstance(node, ir.Name) else node.name if isinstance(node, ir.TypeRef) else ""
            value = kernel.env.get(name) if name else None
            if isinstance(value, ir.Decl) and _is_scalar(value):
                found[value.name] = value
            for func in value.funcs if isinstance(value, Overloads) else ():
                if id(func.node) not in seen:
                    seen.add(id(func.node))
                    bodies.append(func.node)
    return found


def _is_scalar(decl: ir.Decl) -> bool:
    """Whether a declaration is of one number in device memory."""
    ref = decl.type
    return bool(
        decl.storage & device_memory.MEMORY
        and isinstance(ref, ir.TypeRef)
        and not ref.dims
        and not ref.pointers
        and dtypes.from_cpp(ref.name) is not None
    )


def _declared(node: object, env: Env) -> ir.Decl | None:
    """The variable that an argument names, also by its address."""
    while isinstance(node, (ir.Unary, ir.Cast)):
        node = node.value
    value = env.get(node.id) if isinstance(node, ir.Name) else None
    return value if isinstance(value, ir.Decl) and value.storage & device_memory.MEMORY else None
