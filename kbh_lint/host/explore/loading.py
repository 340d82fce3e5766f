"""What a benchmark gives a model before it is called: sizes of the module, its state, and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from kbh_lint.base.dtypes import FLOATS, INTS
from kbh_lint.base.formulas import evaluate_int
from kbh_lint.base.values import Value
from kbh_lint.host.libs import module_methods, trace_nn
from kbh_lint.host.torch import recording, whole_numbers
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.objects import Instance, LibObject
from kbh_lint.host.values.path_runs import ShapeRun
from kbh_lint.host.values.tensors import Content, Tensor, Unknown
from kbh_lint.problems import Binding, Contract

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def set_sizes(interp: Run, binding: Binding) -> None:
    """Overwrites the sizes at the submission's top level by those of the shape, as the benchmark does in the
    reference."""
    for name, value in binding.shape.symbols.items():
        if name in interp.scopes.main.vars and isinstance(interp.scopes.main.vars[name], (int, float)):
            interp.scopes.main.vars[name] = value


def name_weights(run: ShapeRun, model: Instance, dtype: str = "") -> None:
    """Labels the weights that the constructor drew and that no state replaces, converting them to `dtype` if given.
    What the constructor computed from them keeps them as its source."""
    run.loaded = False
    for name, tensor in trace_nn.state_of(model).items():
        if dtype and tensor.dtype in FLOATS:
            tensor.dtype = tensor.storage.content.dtype = dtype
        run.registered[name] = tensor.dtype
        run.weights[name] = tensor
        if tensor.storage.content.event is None and not tensor.storage.content.label.startswith("state:"):
            tensor.storage.content.label = f"state:{name}"


def load_state(interp: Run, run: ShapeRun, model: Instance, binding: Binding) -> None:
    """Models `load_state_dict` with the problem's names; hooks of the submission run."""
    for name, spec in binding.state.items():
        if isinstance(model.attrs.get(name), Unknown):  # made by means that were not followed; loaded all the same
            model.attrs[name] = recording.make(interp, spec.shape, spec.dtype, "random")
            model.buffers[name] = True
    state = trace_nn.state_of(model)
    run.registered = {name: tensor.dtype for name, tensor in state.items()}
    if _load_by_own_code(interp, run, model, binding):
        state = trace_nn.state_of(model)
    for name, tensor in state.items():
        declared = binding.state.get(name)
        storage = tensor.storage
        if storage.content.event is not None and storage.content.event.attrs.get("loading"):
            continue
        if declared is not None and tensor.shape != declared.shape:
            tensor.shape, tensor.strides = declared.shape, None
        storage.content = Content(storage, tensor.dtype, 0, f"state:{name}")
        storage.version += 1
        run.state[name] = tensor
    for name, hook in trace_nn.state_hooks(model):
        if "post_hook" in name and hook is not None:
            interp.call(hook, [model, LibObject("incompatible_keys")], {}, None)


def _hooks_before(model: Instance) -> list[tuple[Value, list[Value]]]:
    """The hooks that run before a state is loaded, each with what it is given first."""
    rows = [row for row in trace_nn.state_hooks(model) if "pre_hook" in row[0] and "load" in row[0]]
    return [(hook, [model] if kind.startswith("register") else []) for kind, hook in rows]


def _load_by_own_code(interp: Run, run: ShapeRun, model: Instance, binding: Binding) -> bool:
    """Run a submission's own loading: an overridden load_state_dict, or a hook before it. False when it has none."""
    own = [name for name in ("load_state_dict", "_load_from_state_dict") if name in _methods(model)]
    hooks = _hooks_before(model)
    if not own and not hooks:
        return False
    given: dict[str, Any] = {
        name: recording.make(interp, spec.shape, spec.dtype, f"state:{name}") for name, spec in binding.state.items()
    }
    start = len(interp.trace.events)
    rest: list[Any] = ["", {}, True, [], [], []]
    for hook, first in hooks:
        interp.call(hook, [*first, given, *rest], {}, None)
    if own:
        method = interp.get_attr(model, own[0], None)
        interp.call(method, [given] if own[0] == "load_state_dict" else [given, *rest], {}, None)
    else:
        module_methods.instance_method(Site(interp, f"{model.cls.name}.load_state_dict", None, [given]), model)
    for event in interp.trace.events[start:]:
        event.attrs["loading"] = True
    held = [v for v in model.attrs.values() if isinstance(v, Tensor) and v.storage.content.label.startswith("state:")]
    run.ignored = (
        bool(own) and bool(given) and not held and not interp.trace.unread and len(interp.trace.events) == start
    )
    return True


def _methods(model: Instance) -> set[str]:
    return {name for cls in model.cls.mro() for name in cls.env.vars}


_LARGEST = {"constant": "value", "balanced-offsets": "total", "ragged-offsets": "total", "integers": "high"}


def make_inputs(interp: Run, run: ShapeRun, contract: Contract, binding: Binding) -> None:
    """Makes tensors for the arguments of `forward`, with what is known of every legal value of them."""
    domains = {spec.name: spec.domain for spec in contract.forward}
    for spec in binding.inputs:
        tensor = recording.make(interp, spec.shape, spec.dtype, f"input:{spec.name}")
        domain = domains.get(spec.name, {})
        tensor.attrs["known"] = known_elements(domain, binding)
        tensor.attrs["range"] = value_range(domain)
        tensor.storage.content.notes[whole_numbers.FIXED] = tensor.attrs["known"]
        tensor.storage.content.notes["rising"] = "offsets" in str(domain.get("kind", ""))
        rows = whole_numbers.drawn(domain, prod(spec.shape), tensor.attrs["known"].get(-1))
        if rows is not None:
            tensor.storage.content.notes[whole_numbers.APART] = rows
        if spec.dtype in INTS:
            tensor.storage.content.notes["whole"] = whole_range(domain, binding)
            if domain.get("kind") == "constant" and isinstance(spec.value, int):
                tensor.storage.content.notes["drawn"] = spec.value
        run.inputs[spec.name] = tensor


def known_elements(domain: Mapping[str, Value], binding: Binding) -> dict[int, int]:
    """Returns the elements, by index, whose value all legal inputs share: the first and the last of an offsets
    array."""
    total = domain.get("total")
    if "offsets" not in str(domain.get("kind", "")) or not isinstance(total, (str, int)):
        return {}
    return {0: 0, -1: evaluate_int(total, binding.shape.symbols)}


def whole_range(domain: Mapping[str, Value], binding: Binding) -> tuple[int, int] | None:
    """Returns the least and the largest whole number that a legal input holds; None where not known. A length is at
    least one and at most the one drawn, an offset at most the total, a page number one of the pages there are."""
    if domain.get("kind") == "distinct-pages":
        pages = next((spec.shape for spec in binding.inputs if spec.name == domain.get("of")), ())
        return (0, pages[0] - 1) if pages else None
    constant = domain.get("kind") == "constant"
    low, high = domain.get("low", int(constant)), domain.get(_LARGEST.get(str(domain.get("kind")), ""))
    if not isinstance(high, (str, int)) or not isinstance(low, (str, int)):
        return None
    least, most = (evaluate_int(end, binding.shape.symbols) for end in (low, high))
    return min(least, most), most - (domain["kind"] == "integers")


def value_range(domain: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the interval that drawn values stay in, for all practical purposes: eight deviations of a normal; None
    where not known."""
    if domain.get("kind") == "uniform":
        return float(domain.get("low", 0)), float(domain.get("high", 1))
    if domain.get("kind") == "normal":
        spread, mean = 8 * float(domain.get("std", 1)), float(domain.get("mean", 0))
        spike = float(domain.get("spikes", {}).get("value", mean))
        return min(mean - spread, spike), max(mean + spread, spike)
    if domain.get("kind") == "when":
        one, other = value_range(domain["then"]), value_range(domain["else"])
        return (min(one[0], other[0]), max(one[1], other[1])) if one and other else None
    return None
