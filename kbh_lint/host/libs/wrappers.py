"""Functions of torch and the standard library that call what they are given, or give it back in another dress."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.values.frames import Handler
from kbh_lint.host.values.named_objects import TorchLayer
from kbh_lint.host.values.objects import Bound, Compiled, Instance, LibObject, Memo, Partial
from kbh_lint.host.values.tensors import Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

CALLABLE = (Func, Bound, Partial, Memo, Compiled, Instance)


def same(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Tracing, scripting and the like: the function or module that it is given computes the same afterwards."""
    given = args[0] if args else next((v for v in kwargs.values() if isinstance(v, CALLABLE)), None)
    if isinstance(given, (*CALLABLE, TorchLayer)):
        return given
    return LibObject.by_path(path, {}, tuple(args), kwargs)


def now(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """`checkpoint(f, *args)`, `fork(f, *args)`: f is called; keywords that are the wrapper's own are left out."""
    if not args:
        return LibObject.by_path(path, {}, (), kwargs)
    return interp.call(args[0], args[1:], {k: v for k, v in kwargs.items() if k not in _OWN}, loc)


_OWN = frozenset("use_reentrant context_fn determinism_check debug early_stop preserve_rng_state".split())


def functional_call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """torch.func.functional_call(module, tensors by dotted name, args, kwargs): the module with other tensors."""
    names = ("module", "parameter_and_buffer_dicts", "args", "kwargs")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    module, changed = given.get("module"), given.get("parameter_and_buffer_dicts")
    sets = changed if isinstance(changed, (list, tuple)) else [changed]
    before: list[tuple[dict[str, Any], str, Any]] = []
    for dotted, tensor in [pair for each in sets if isinstance(each, dict) for pair in each.items()]:
        path, _, name = str(dotted).rpartition(".")
        owner = _attributes(module, path)
        if isinstance(tensor, Tensor) and name in owner:
            before.append((owner, name, owner[name]))
            owner[name] = tensor
    inner, named = given.get("args"), given.get("kwargs")
    listed = list(inner) if isinstance(inner, (list, tuple)) else [inner] if inner is not None else []
    try:
        return interp.call(module, listed, named if isinstance(named, dict) else {}, loc)
    finally:
        for owner, name, value in reversed(before):
            owner[name] = value


def _attributes(module: Value, path: str) -> dict[str, Any]:
    """The attributes of the module that a dotted name leads to; none where it leads nowhere."""
    for part in path.split(".") if path else ():
        module = module.attrs.get(part) if isinstance(module, (Instance, LibObject)) else None
    return module.attrs if isinstance(module, (Instance, LibObject)) else {}


def identity(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """What hands over a value as it is: torch.jit.wait, to_dlpack."""
    return args[0] if args else LibObject.by_path(path)


def swap_tensors(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """torch.utils.swap_tensors(a, b): whoever holds one finds the other in it."""
    if len(args) == 2 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
        for field in fields(Tensor):
            left, right = (getattr(tensor, field.name) for tensor in args)
            setattr(args[0], field.name, right)
            setattr(args[1], field.name, left)


CALLS: dict[str, Handler] = {
    "torch.utils.swap_tensors": swap_tensors,
    **dict.fromkeys(
        [
            *("torch.jit." + n for n in "trace trace_module ignore export unused freeze script_if_tracing".split()),
            "torch.jit.optimize_for_inference", "torch.fx.symbolic_trace", "torch.fx.wrap",
            "torch.func.functionalize",
            *("torch.compiler." + n for n in "disable allow_in_graph assume_constant_result".split()),
            *(f"torch.{n}.custom_{way}" for n in ("amp", "cuda.amp") for way in ("fwd", "bwd")),
            "torch.autograd.function.once_differentiable",
        ],
        same,
    ),
    **dict.fromkeys(("torch.utils.checkpoint.checkpoint", "torch.jit.fork", "torch.jit._fork"), now),
    "torch.func.functional_call": functional_call,
    "torch.nn.utils.stateless.functional_call": functional_call,
    **dict.fromkeys(("torch.jit.wait", "torch.jit._wait", "torch.utils.dlpack.to_dlpack",
                    "torch.utils.dlpack.from_dlpack", "torch.from_dlpack"), identity),
}  # fmt: skip
