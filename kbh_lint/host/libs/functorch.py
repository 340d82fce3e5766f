"""torch.func and torch.autograd.grad: functions of functions. What goes back through a function, or beside it, is work
of the same kind as the function's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.datamodel import prelude
from kbh_lint.host.effects import foreign
from kbh_lint.host.torch import recording
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.tensors import Event, Tensor

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_COMPUTE = ("op", "copy", "library")
MAX_BACK = 400  # operations that a gradient goes back through


def _named(*names: str) -> list[str]:
    return [f"{module}.{name}" for name in names for module in ("torch.func", "torch._functorch.eager_transforms")]


@builtin
def stacked(interp: Run, args: list[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Puts the results for the samples of a batch side by side, for interpreted library code."""
    return interp.call(Sym("torch.stack"), args, {}, loc)


prelude.NATIVE["__stacked__"] = stacked


class Functorch(Library):
    """What makes functions of functions in torch."""

    @models("torch.vmap", "torch.func.vmap", "functorch.vmap", "torch._functorch.apis.vmap")
    def vmap(self, site: Site, /, *given: Value, **named: Value) -> Value:
        """Models `torch.vmap(func, in_dims, out_dims)`: a function that calls `func` for each sample of a batch."""
        return site.run.call(prelude.value(site.run, "functorch.vmap"), list(given), named, site.loc)

    @models(*_named("vjp"))
    def vjp(self, site: Site, func: Value, /, *primals: Value, has_aux: Value = False) -> Value:
        """Models `torch.func.vjp(func, *primals)`: the result, and the function that takes its gradient back."""
        made, events = _followed(site, func, primals)

        @builtin
        def back(interp: Run, args: list[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
            return through(interp, events[::-1], tensor_arguments.tensors_in(args), primals, loc)

        if has_aux is True and isinstance(made, (tuple, list)) and len(made) == 2:
            return made[0], back, made[1]
        return made, back

    @models(*_named("jvp"))
    def jvp(self, site: Site, func: Value, primals: Value, tangents: Value, **options: Value) -> Value:
        """Models `torch.func.jvp(func, primals, tangents)`: the result, and what the tangents come to."""
        given = primals if isinstance(primals, (tuple, list)) else (primals,)
        made, events = _followed(site, func, given)
        beside = through(site.run, events, tensor_arguments.tensors_in([tangents]), _outputs(made), site.loc)
        return made, beside if isinstance(made, (tuple, list)) else beside[0]

    @models(*_named("linearize"))
    def linearize(self, site: Site, func: Value, /, *primals: Value) -> Value:
        """Models `torch.func.linearize(func, *primals)`: the result, and the function that takes tangents along."""
        made, events = _followed(site, func, primals)

        @builtin
        def along(interp: Run, args: list[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
            beside = through(interp, events, tensor_arguments.tensors_in(args), _outputs(made), loc)
            return beside if isinstance(made, (tuple, list)) else beside[0]

        return made, along

    @models(*_named("grad", "grad_and_value"))
    def grad(self, site: Site, func: Value, argnums: Value = 0, has_aux: Value = False) -> Value:
        """Models `torch.func.grad(func)`: the function that returns the gradient of the argument at `argnums`."""
        both = site.name == "grad_and_value"

        @builtin
        def gradient(interp: Run, args: list[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
            made, events = _followed(Site(interp, site.path, loc, args, dict(kwargs)), func, args)
            places = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
            chosen = [args[at] for at in places if isinstance(at, int) and -len(args) <= at < len(args)]
            found = through(interp, events[::-1], [], chosen, loc)
            result = found if isinstance(argnums, (tuple, list)) or not found else found[0]
            return (result, made) if both or has_aux is True else result

        return gradient

    @models("torch.autograd.grad")
    def backward(
        self, site: Site, outputs: Value, inputs: Value, grad_outputs: Value = None, *more: Value, **options: Value
    ) -> Value:
        """Models `torch.autograd.grad(outputs, inputs, grad_outputs)`."""
        wanted = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        events = _between(tensor_arguments.tensors_in([outputs]), tensor_arguments.tensors_in(list(wanted)))
        return through(site.run, events, tensor_arguments.tensors_in([grad_outputs]), wanted, site.loc)


def _outputs(made: Value) -> Sequence[Value]:
    return made if isinstance(made, (tuple, list)) else (made,)


def _followed(site: Site, func: Value, args: Sequence[Value]) -> tuple[Value, list[Event]]:
    """What a function returns, and what ran to make it, in order."""
    start = len(site.run.trace.events)
    made = site.run.call(func, list(args), dict(site.kwargs) if site.name.startswith("grad") else {}, site.loc)
    return made, site.run.trace.events[start:]


def _between(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Event]:
    """What ran to make outputs of inputs, the last first."""
    ends = {tensor.storage.content.ident for tensor in inputs}
    stack = [tensor.storage.content for tensor in outputs]
    seen: set[int] = set()
    found: dict[int, Event] = {}
    while stack and len(found) < MAX_BACK:
        content = stack.pop()
        if content.ident in seen or content.ident in ends or content.event is None:
            continue
        seen.add(content.ident)
        found[id(content.event)] = content.event
        stack += [read for read, _ in content.event.reads]
    return list(found.values())


def through(
    interp: Run, events: Sequence[Event], given: Sequence[Tensor], wanted: Sequence[Value], loc: ir.Loc | None
) -> tuple[Value, ...]:
    """Records for each operation another one of its kind, which reads what it read and what came of the one before it;
    returns tensors like `wanted`. Where more than operations of torch ran, what comes of it is not known."""
    last = list(given)
    if any(event.kind not in _COMPUTE for event in events):
        return tuple(
            foreign.unread_call(interp, "a gradient through kernels", [*last, *_read(events)], loc) for _ in wanted
        )
    event: Event | None = None
    for one in events[:MAX_BACK]:
        event = recording.record(interp, one.kind, one.name, loc, [*last, *_read([one])], one.attrs.copy())
        last = [recording.make(interp, None, given[0].dtype if given else "?", event=event)]
    return tuple(_like(interp, value, event) if isinstance(value, Tensor) else value for value in wanted)


def _read(events: Sequence[Event]) -> list[Tensor]:
    return [tensor for event in events for _, tensor in event.reads]


def _like(interp: Run, tensor: Tensor, event: Event | None) -> Tensor:
    return recording.make(interp, tensor.shape, tensor.dtype, event=event, device=tensor.device)
