"""Layers and containers of torch.nn: making them, what they hold, and what calling one comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from kbh_lint.base import ir
from kbh_lint.base.values import DType, Value
from kbh_lint.host.python import module_calls
from kbh_lint.host.torch import layers, recording, signatures, torchlib
from kbh_lint.host.torch.layers import CONTAINERS, LAYERS, Layer
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.named_objects import TorchLayer
from kbh_lint.host.values.objects import Instance, LibObject, Method, find_method, is_module
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

OF_LAYERS = "torch.nn."
_STACKS = {"TransformerEncoder": "TransformerEncoderLayer", "TransformerDecoder": "TransformerDecoderLayer"}
_MOST_COPIES = 256
_DEEPEST = 32  # modules in modules
_BLOCK = (
    "d_model nhead dim_feedforward=2048 dropout=0.1 activation=None layer_norm_eps=1e-5 batch_first=False "
    "norm_first=False bias=True device=None dtype=None"
)


def kind(path: str) -> str:
    """Returns the class name of a layer: `Linear` of `torch.nn.modules.linear.Linear`."""
    return path.rpartition(".")[2]


def is_layer(value: object) -> TypeGuard[TorchLayer]:
    """Whether a value is a layer or a container made by torch.nn."""
    return isinstance(value, TorchLayer)


def is_known(path: str) -> bool:
    """Whether torch.nn has a class of this path whose objects are modelled."""
    name = kind(path)
    return path.startswith(OF_LAYERS) and (name in LAYERS or name in CONTAINERS or name in _STACKS or name in _BLOCKS)


def module(site: Site) -> LibObject:
    """Constructs a layer or a container of torch.nn."""
    interp, path, args, kwargs, loc = site.run, site.path, site.args, site.kwargs, site.loc
    name = kind(path)
    made = LibObject.by_path(path, {}, tuple(args), kwargs)
    if name in CONTAINERS:
        given = next(iter([*args, *kwargs.values()]), None)
        items: Any = given if len(args) < 2 and isinstance(given, (list, tuple, dict)) else list(args)
        if len(args) == 1 and name != "Sequential" and not isinstance(given, (list, tuple, dict)):
            items = interp.call(interp.builtins["list"], [given], {}, loc)
            items = items if isinstance(items, list) else []
        return LibObject.by_path(path, {"items": dict(items) if isinstance(items, dict) else list(items)})
    if name in _STACKS and args:
        _stack(interp, made, args, kwargs, loc)
    elif name in _BLOCKS:
        _block(interp, made, args, kwargs, loc)
    elif name in LAYERS:
        _layer(interp, made, name, args, kwargs)
    return made


def _layer(interp: Run, made: LibObject, name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> None:
    """A layer of the table."""
    layer = LAYERS[name]
    attrs = signatures.bind(layer.constructor, args, kwargs)
    if attrs is None:
        return
    said = attrs.pop("dtype", None)
    device = tensor_arguments.device_of(attrs.pop("device", None))
    dtype = said.name if isinstance(said, DType) else "f32"
    layers.finished(name, layer, attrs)
    made.attrs.update(attrs)
    if layer.weights is None:
        return
    weights = layer.weights(attrs)
    for key in layer.first + (("running_mean", "running_var") if "running_mean" in layer.passed else ()):
        if key not in weights:
            made.attrs[key] = None
    for key, (shape, what) in weights.items():
        held = recording.make(interp, shape, "i64" if what == "counter" else dtype, "random", device=device)
        held.parameter = what == "weight"
        made.attrs[key] = held
    if name == "MultiheadAttention":
        size, bias = attrs.get("embed_dim"), attrs.get("bias")
        made.attrs["out_proj"] = module(Site(interp, OF_LAYERS + "Linear", None, [size, size, bias], _typed(said)))
    given = attrs.get("_weight")
    if isinstance(given, Tensor):
        made.attrs["weight"] = given


def _typed(dtype: object) -> dict[str, Value]:
    return {"dtype": dtype} if isinstance(dtype, DType) else {}


# What a transformer's block holds, in torch's order; `n` norms.
_BLOCKS = {"TransformerEncoderLayer": ("self_attn",), "TransformerDecoderLayer": ("self_attn", "multihead_attn")}


def _block(
    interp: Run, made: LibObject, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> None:
    given = signatures.bind(_BLOCK, args, kwargs)
    if given is None:
        return
    size, wide, bias = given["d_model"], given["dim_feedforward"], {"bias": given["bias"], **_typed(given["dtype"])}

    def part(name: str, *values: object, **more: object) -> Any:
        return module(Site(interp, OF_LAYERS + name, loc, list(values), {**more}))

    attention = {**bias, "batch_first": given["batch_first"], "dropout": given["dropout"]}
    names = _BLOCKS[kind(made.path)]
    for name in names:
        made.attrs[name] = part("MultiheadAttention", size, given["nhead"], **attention)
    made.attrs["linear1"] = part("Linear", size, wide, **bias)
    made.attrs["dropout"] = part("Dropout", given["dropout"])
    made.attrs["linear2"] = part("Linear", wide, size, **bias)
    for i in range(1, len(names) + 2):
        made.attrs[f"norm{i}"] = part("LayerNorm", size, given["layer_norm_eps"], **bias)
        made.attrs[f"dropout{i}"] = part("Dropout", given["dropout"])
    made.attrs["norm_first"] = given["norm_first"]
    made.attrs["activation"] = given["activation"] if given["activation"] is not None else "relu"


def _stack(
    interp: Run, made: LibObject, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> None:
    """TransformerEncoder(layer, num_layers, norm): copies of one layer."""
    given = signatures.bind("layer num_layers norm=None enable_nested_tensor=True mask_check=True", args, kwargs)
    count = given.get("num_layers") if given is not None else None
    first = given.get("layer") if given is not None else None
    if given is None or not isinstance(count, int) or not isinstance(first, LibObject) or count > _MOST_COPIES:
        return
    copies = [module(Site(interp, first.path, loc, list(first.args), first.kwargs)) for _ in range(count)]
    made.attrs["layers"] = LibObject.by_path(OF_LAYERS + "ModuleList", {"items": copies})
    made.attrs.update(num_layers=count, norm=given["norm"])


def children(owner: object) -> Iterator[tuple[str, Any]]:
    """Yields the modules and tensors that a module holds, with their names."""
    attrs = owner.attrs if isinstance(owner, (Instance, LibObject)) else {}
    for name, value in attrs.items():
        if isinstance(value, Tensor) or is_layer(value) or isinstance(value, Instance) and is_module(value.cls):
            yield name, value
    if is_layer(owner) or isinstance(owner, Instance) and is_module(owner.cls):
        items = attrs.get("items")
        listed = items if isinstance(items, (list, tuple)) else ()
        for key, item in items.items() if isinstance(items, dict) else enumerate(listed):
            if isinstance(item, (Tensor, Instance, LibObject)):
                yield str(key), item


def set_mode(interp: Run, owner: object, training: object, depth: int = 0) -> None:
    """Sets the mode of `train(mode)` or `eval()` on a module and those inside it."""
    if not isinstance(owner, (Instance, LibObject)) or depth > _DEEPEST:
        return
    if owner.attrs.get("training", interp.training) != training:
        owner.attrs["training"] = training
    for _, child in children(owner):
        own = find_method(child, "train") if isinstance(child, Instance) else None
        if own is not None:
            interp.call(own, [training], {}, None)
        elif not isinstance(child, Tensor):
            set_mode(interp, child, training, depth + 1)


def attribute(interp: Run, owner: LibObject, name: str) -> Any:
    """Returns `owner.name` of a layer: an attribute of the layer table, an item by name, a method of torch.nn.Module,
    or unknown."""
    if name in owner.attrs:
        return owner.attrs[name]
    if name == "training":
        return interp.training
    if name == "__class__":
        return interp.call(interp.builtins["type"], [owner], {}, None)
    items = owner.attrs.get("items")
    if isinstance(items, dict) and name in items:
        return items[name]
    if isinstance(items, list) and name.isdigit() and int(name) < len(items):
        return items[int(name)]
    if name in module_calls.TABLES:
        return module_calls.table(owner.attrs, name)
    if items is not None or name in module_calls.NAMES or name.startswith("__") or name in METHODS:
        return Method(owner, name)
    return Unknown((), f"the attribute {name} of {owner.path}")


METHODS = frozenset(("_conv_forward", "reset_parameters", "flatten_parameters", "items", "keys", "values", "append"))


def apply(interp: Run, owner: LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Value:
    """Calls a layer: computes its result."""
    name = kind(owner.path)
    if name == "Sequential":
        value = args[0] if args else next(iter(kwargs.values()), Unknown())
        items = owner.attrs.get("items", [])
        for item in items.values() if isinstance(items, dict) else items:
            value = interp.call(item, [value], {}, loc)
        return value
    if name in _BLOCKS and "norm_first" in owner.attrs:
        return _run_block(interp, owner, args, kwargs, loc)
    if name in _STACKS and "layers" in owner.attrs:
        return _run_stack(interp, owner, args, kwargs, loc)
    layer = LAYERS.get(name)
    if layer is not None and not layer.function:
        return args[0] if args else next(iter(kwargs.values()), Unknown())
    if layer is None or (layer.constructor and not owner.attrs and not _bare(layer)):
        held = [value for value in owner.attrs.values() if isinstance(value, Tensor)]
        function = layer.function if layer is not None else name.lower()
        path = f"torch.nn.functional.{function}" if layer is None else f"torch.nn.{name}"
        return torchlib.call(interp, path, [*args, *held], kwargs, loc)
    return _run_layer(interp, owner, layer, args, kwargs, loc)


def _run_stack(interp: Run, owner: LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Value:
    """TransformerEncoder, TransformerDecoder: layer after layer, each with the memory that a decoder attends to."""
    value = args[0] if args else kwargs.get("src", kwargs.get("tgt"))
    beside = [arg for arg in args[1:2] if kind(owner.path) == "TransformerDecoder"]
    for item in owner.attrs["layers"].attrs["items"]:
        value = interp.call(item, [value, *beside], {}, loc)
    return value if owner.attrs["norm"] is None else interp.call(owner.attrs["norm"], [value], {}, loc)


def _bare(layer: Layer) -> bool:
    """Whether a layer may have no attributes."""
    return layer.constructor.startswith("*")


def _run_layer(
    interp: Run, owner: LibObject, layer: Layer, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Value:
    attrs = {**dict(layer.fixed), **owner.attrs}
    given = {**kwargs}
    for pair in layer.passed.split():
        theirs, _, ours = pair.partition("=")
        if (ours or theirs) in attrs:
            given[theirs] = attrs[ours or theirs]
    beside, named = _weights(interp, owner, layer, attrs)
    given |= named
    if layer.function in ("prelu", "embedding", "embedding_bag", "linear") or layer.function.startswith("conv"):
        args, beside = [*args[:1], *beside, *args[1:]], []
    if layer.function.startswith("conv_transpose") and len(args) > 1 and not isinstance(args[-1], Tensor):
        given["output_padding"] = Unknown((), "an output size")
    function = {"RNN_RELU": "rnn_relu"}.get(attrs.get("mode", ""), layer.function)
    space = "torch." if function in ("flatten", "unflatten") else "torch.nn.functional."
    result = torchlib.call(interp, space + function, [*args, *beside], given, loc)
    name = kind(owner.path)
    if name == "LSTM" and isinstance(result, tuple) and len(result) == 3:
        return result[0], (result[1], result[2])
    if name == "MultiheadAttention" and isinstance(result, tuple):
        needed = kwargs.get("need_weights", args[4] if len(args) > 4 else True)
        return (result[0], None) if needed is False else result
    return result


def _weights(
    interp: Run, owner: LibObject, layer: Layer, attrs: Mapping[str, Any]
) -> tuple[list[Value], dict[str, Value]]:
    """What a layer holds, as its function takes it: by position, and by name."""
    held = {key: attrs[key] for key in layer.first if isinstance(attrs.get(key), Tensor)}
    beside: list[Value] = [attrs[key] for key in layer.first if key in held] if layer.weights is not None else []
    if layer.function in ("batch_norm", "instance_norm"):
        named: dict[str, Value] = {f"p{i + 3}": tensor for i, tensor in enumerate(beside)}
        if attribute(interp, owner, "training") is True:  # the batch's own statistics
            named |= {"p1": None, "p2": None, "p5": True}
        return [], named
    if layer.function in ("layer_norm", "group_norm", "rms_norm"):
        return [], dict(held)
    if layer.first:
        return beside, {}
    weights = [t for _, t in children(owner) if isinstance(t, Tensor)]  # of recurrent layers and attention: all of them
    weights += [t for _, part in children(owner) if is_layer(part) for _, t in children(part)]
    return beside, {"weights": weights}


def _run_block(
    interp: Run, owner: LibObject, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Value:
    """A block of a transformer, in torch's order of operations."""
    attrs = owner.attrs
    value = args[0] if args else kwargs.get("src", kwargs.get("tgt"))
    memory = args[1] if len(args) > 1 else kwargs.get("memory")

    def attended(x: object, name: str) -> Value:
        other = x if name == "self_attn" else memory
        found = interp.call(attrs[name], [x, other, other], {"need_weights": False}, loc)
        return found[0] if isinstance(found, tuple) else found

    def widened(x: object) -> Value:
        x = interp.call(attrs["linear1"], [x], {}, loc)
        activation = attrs["activation"]
        if isinstance(activation, str):
            x = torchlib.call(interp, f"torch.nn.functional.{activation}", [x], {}, loc)
        else:
            x = interp.call(activation, [x], {}, loc)
        return interp.call(attrs["linear2"], [x], {}, loc)

    steps = [*_BLOCKS[kind(owner.path)], ""]
    for i, name in enumerate(steps, 1):
        norm = attrs[f"norm{i}"]
        before = interp.call(norm, [value], {}, loc) if attrs["norm_first"] is True else value
        after = attended(before, name) if name else widened(before)
        value = torchlib.call(interp, "torch.add", [value, after], {}, loc)
        if attrs["norm_first"] is not True:
            value = interp.call(norm, [value], {}, loc)
    return value
