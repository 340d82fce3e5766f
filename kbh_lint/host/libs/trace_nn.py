"""torch.nn on abstract tensors: modules of the submission, and the library's own layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint import ir
from kbh_lint.host.python import class_making, module_calls
from kbh_lint.host.torch import recording, tensor_copies, torchlib
from kbh_lint.host.values import records
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.objects import Bound, ClassV, Instance, LibObject, Method, is_named_tuple
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.values import DType

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# Layers that multiply: attribute shapes from constructor arguments, and the function they call.
_LAYERS = {
    "Linear": "linear", "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d", "Bilinear": "bilinear",
    "Softmax": "softmax", "LayerNorm": "layer_norm", "RMSNorm": "rms_norm", "SiLU": "silu", "GELU": "gelu",
    "ReLU": "relu", "Sigmoid": "sigmoid", "Embedding": "embedding", "Unfold": "unfold", "Softmin": "softmin",
    "MultiheadAttention": "scaled_dot_product_attention", "Dropout": "dropout", "Identity": "positive",
}  # fmt: skip

_STATE_HOOKS = "hooks of the state"  # no name that a program can write as an attribute


def module(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Construct a layer or a container of torch.nn."""
    name = path.rsplit(".", 1)[-1]
    if name in ("ModuleList", "ParameterList", "Sequential", "ModuleDict", "ParameterDict"):
        items: Any = args[0] if args and isinstance(args[0], (list, tuple, dict)) else list(args)
        return LibObject(path, {"items": list(items) if not isinstance(items, dict) else dict(items)})
    layer = LibObject(path, {}, tuple(args), kwargs)
    dtype = kwargs["dtype"].name if isinstance(kwargs.get("dtype"), DType) else "f32"
    shape = _weight_shape(name, args, kwargs)
    if shape is not None:
        weight = recording.make(interp, shape, dtype, "random")
        weight.parameter = True
        layer.attrs["weight"] = weight
        layer.attrs["bias"] = None
        if kwargs.get("bias", True) is not False and name != "Embedding":
            layer.attrs["bias"] = recording.make(interp, shape[:1], dtype, "random")
    return layer


def _weight_shape(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    def size(i: int, key: str) -> Any:
        value = args[i] if len(args) > i else kwargs.get(key)
        return value if isinstance(value, int) else None

    if name == "Linear":
        return (size(1, "out_features"), size(0, "in_features"))
    if name.startswith("Conv"):
        rank = int(name[4]) if name[4:5].isdigit() else 2
        kernel = args[2] if len(args) > 2 else kwargs.get("kernel_size", 1)
        spread = tuple(kernel) if isinstance(kernel, (tuple, list)) else (kernel,) * rank
        return (size(1, "out_channels"), size(0, "in_channels"), *spread)
    if name in ("LayerNorm", "RMSNorm", "Embedding"):
        return (size(0, "normalized_shape"),)
    return None


def module_attr(interp: Run, owner: LibObject, name: str) -> Any:
    """An attribute of a layer."""
    if name in owner.attrs:
        return owner.attrs[name]
    return Method(owner, name)


def apply(interp: Run, owner: LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Call a layer."""
    name = owner.path.rsplit(".", 1)[-1]
    if name == "Sequential":
        value = args[0] if args else Unknown()
        for item in owner.attrs.get("items", []):
            value = interp.call(item, [value], {}, loc)
        return value
    function = _LAYERS.get(name, name.lower())
    extra = [t for t in (owner.attrs.get("weight"), owner.attrs.get("bias")) if isinstance(t, Tensor)]
    return torchlib.call(interp, f"torch.nn.functional.{function}", [*args, *extra], {}, loc, spelled=owner.path)


def object_method(
    interp: Run, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """A method of a layer or container."""
    if name in ("cuda", "to", "half", "bfloat16", "float", "eval", "train", "requires_grad_"):
        for key, value in list(owner.attrs.items()):
            if isinstance(value, Tensor) and name not in ("eval", "train", "requires_grad_"):
                owner.attrs[key] = tensor_copies.to(interp, name, [value, *args], kwargs, loc)
        return owner
    if name == "forward":
        return apply(interp, owner, args, kwargs, loc)
    if name in ("_call_impl", "_wrapped_call_impl"):
        return module_calls.call_whole(interp, owner, args, kwargs, loc)
    if name in module_calls.REGISTERS:
        return module_calls.register(owner.attrs, module_calls.REGISTERS[name], args, kwargs)
    if name == "compile":
        return module_calls.compile_in_place(interp, owner, kwargs, loc)
    if name == "append" and isinstance(owner.attrs.get("items"), list):
        owner.attrs["items"].append(args[0])
    if name in ("parameters", "buffers"):
        return [v for v in owner.attrs.values() if isinstance(v, Tensor)]
    return None


def super_attr(interp: Run, owner: LibObject, name: str) -> Any:
    """`super().name`."""
    instance, cls = owner.attrs["self"], owner.attrs["cls"]
    if name == "__new__" and isinstance(cls, ClassV) and _is_meta(interp, cls):
        return builtin(lambda i, a, k, where: class_making.of_call(i, a[1:], k, where, a[0]))
    if isinstance(instance, ClassV) and instance.meta is not None:
        order = instance.meta.mro()
        for base in order[order.index(cls) + 1 :] if cls in order else ():
            if name in base.env.vars:
                return Bound(instance, base.env.vars[name])
        return class_making.inherited(interp, instance, name, None)
    if name == "__new__":
        return builtin(_made)
    if name == "__init__" and isinstance(instance, Instance):
        own = next((base.env.vars[name] for base in _after(instance, cls) if name in base.env.vars), None)
        if own is None and instance.items is not None:
            return builtin(lambda i, a, k, where: instance.items.update(i.call(i.builtins["dict"], a, k, where)))  # type: ignore[union-attr]
        if own is None and "args" in instance.attrs and "__cause__" in instance.attrs:
            return builtin(lambda i, a, k, where: instance.attrs.update(args=tuple(a)))
    if isinstance(instance, Instance):
        for base in _after(instance, cls):
            if name in base.env.vars:
                return Bound(instance, base.env.vars[name])
    if isinstance(instance, Instance) and instance.items is not None and name != "__init__":
        return Method(instance.items, name)
    return Method(instance, f"super:{name}") if isinstance(instance, Instance) else Unknown((), f"super().{name}")


def _after(instance: Instance, cls: Any) -> list[ClassV]:
    """The classes that come after one in the order of an object's class."""
    order = instance.cls.mro()
    return order[order.index(cls) + 1 :] if cls in order else order[1:]


def _made(interp: Run, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """`super().__new__(cls, ...)`: an object, of a named tuple with its fields."""
    if not args or not isinstance(args[0], ClassV):
        return Unknown()
    made = Instance(args[0])
    if args[0].field_names() and not args[0].dataclass:
        records.fill(interp, made, args[1:], kwargs, loc)
    return made


def _is_meta(interp: Run, cls: ClassV) -> bool:
    return interp.builtins["type"] in [base for c in cls.mro() for base in c.bases]


def state_of(instance: Any, prefix: str = "") -> dict[str, Tensor]:
    """The state_dict of a module: parameters and persistent buffers by dotted name."""
    out: dict[str, Tensor] = {}
    attrs = instance.attrs if isinstance(instance, (Instance, LibObject)) else {}
    buffers = instance.buffers if isinstance(instance, Instance) else {}
    for name, value in attrs.items():
        if isinstance(value, Tensor):
            layer = isinstance(instance, LibObject) and instance.path.startswith("torch.nn.")
            if value.parameter or buffers.get(name) or layer:
                out[prefix + name] = value
        elif isinstance(value, Instance) and any(p.startswith("torch.nn") for p in value.cls.external_bases()):
            out.update(state_of(value, f"{prefix}{name}."))
        elif isinstance(value, LibObject) and value.path.startswith("torch.nn."):
            out.update(state_of(value, f"{prefix}{name}."))
            items = value.attrs.get("items")
            listed = items if isinstance(items, (list, tuple)) else ()
            pairs = items.items() if isinstance(items, dict) else enumerate(listed)
            for key, item in pairs:
                if isinstance(item, Tensor):
                    out[f"{prefix}{name}.{key}"] = item
                elif isinstance(item, (Instance, LibObject)):
                    out.update(state_of(item, f"{prefix}{name}.{key}."))
    return out


def state_hooks(owner: Instance) -> list[tuple[str, Any]]:
    """Hooks of the state of a module, each with the method that registered it."""
    found = owner.attrs.get(_STATE_HOOKS)
    return found if isinstance(found, list) else []


def layer_base(owner: Instance) -> str:
    """The layer of torch.nn that an object's class derives from, or nothing."""
    for path in owner.cls.external_bases():
        if path.startswith("torch.nn.") and path.rpartition(".")[2] in _LAYERS:
            return path
    return ""


def instance_method(
    interp: Run, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Methods an object of the submission inherits from torch.nn.Module or autograd.Function."""
    name = name.removeprefix("super:")
    if not isinstance(owner, Instance):
        return Unknown((), name)
    if name in ("_replace", "_asdict") and is_named_tuple(owner):
        fields = {**{field: owner.attrs.get(field) for field in owner.cls.field_names()}, **kwargs}
        return fields if name == "_asdict" else Instance(owner.cls, fields)
    if name in ("get_parameter", "get_buffer", "get_submodule") and args:
        found: Any = owner
        for part in str(args[0]).split("."):
            found = interp.get_attr(found, part, loc)
        return found
    base = layer_base(owner)
    if base and name == "__init__":  # a subclass of a layer has the layer's own weights
        owner.attrs.update(module(interp, base, args, kwargs, loc).attrs)
        return None
    if base and name in ("forward", "_conv_forward"):
        return apply(interp, LibObject(base, owner.attrs), args[:1], kwargs, loc)
    if name == "register_buffer" and args:
        key = str(args[0])
        value = args[1] if len(args) > 1 else kwargs.get("tensor")
        persistent = args[2] if len(args) > 2 else kwargs.get("persistent", True)
        owner.attrs[key] = value
        owner.buffers[key] = persistent is not False
        return None
    if name == "register_parameter" and len(args) > 1:
        owner.attrs[str(args[0])] = args[1]
        owner.buffers[str(args[0])] = True
        return None
    if name == "__setattr__" and len(args) > 1:
        interp.set_plain(owner, str(args[0]), args[1], loc)
        return None
    if name == "__getattribute__" and args:
        return interp.plain_attr(owner, str(args[0]), loc)
    if name == "__getattr__" and args:
        return owner.attrs.get(str(args[0]), Unknown())
    if name == "__call__":
        return module_calls.call(interp, owner, args, kwargs, loc)
    if name in ("_call_impl", "_wrapped_call_impl"):
        return module_calls.call_whole(interp, owner, args, kwargs, loc)
    if name in module_calls.REGISTERS:
        return module_calls.register(owner.attrs, module_calls.REGISTERS[name], args, kwargs)
    if name == "compile":
        return module_calls.compile_in_place(interp, owner, kwargs, loc)
    if name in ("to", "cuda", "half", "bfloat16", "float", "cpu", "eval", "train", "requires_grad_", "apply", "_apply"):
        return owner
    if name in ("parameters", "buffers"):
        return list(state_of(owner).values())
    if name in ("named_parameters", "named_buffers", "items"):
        return list(state_of(owner).items())
    if name == "state_dict":
        return dict(state_of(owner))
    if name in ("load_state_dict", "_load_from_state_dict"):
        for key, tensor in state_of(owner).items():
            source = args[0].get(key) if args and isinstance(args[0], dict) else None
            if isinstance(source, Tensor):
                tensor_copies.copy_(interp, "copy", [tensor, source], {}, loc)
        return None
    if name in (
        "register_load_state_dict_post_hook",
        "_register_load_state_dict_pre_hook",
        "register_state_dict_post_hook",
    ):
        owner.attrs[_STATE_HOOKS] = [*state_hooks(owner), (name, args[0] if args else None)]
        return None
    return None
