"""How torch calls a module: what stands between `model(x)` and `forward`, as in torch.nn.Module._call_impl.

Hooks of the module and of all modules run before and after, and may replace arguments and result; `compile()` and a
`_call_impl` of the submission's own take the place of all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.values.frames import builtin
from kbh_lint.host.values.named_objects import HookHandle, TorchLayer
from kbh_lint.host.values.objects import Bound, Instance, LibObject, Method, find_method, is_module

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_SAME = builtin(lambda run, args, kwargs, loc: args[0] if args else None)  # what is done to each weight
MAX_BELOW = 16  # modules in modules
_BEFORE, _AFTER, _KEYWORDS = "_forward_pre_hooks", "_forward_hooks", "_with_kwargs"
TABLES = frozenset(name + end for name in (_BEFORE, _AFTER) for end in ("", _KEYWORDS))
REGISTERS = {"register_forward_pre_hook": _BEFORE, "register_forward_hook": _AFTER}
FOR_ALL = {
    "torch.nn.modules.module.register_module_forward_pre_hook": _BEFORE,
    "torch.nn.modules.module.register_module_forward_hook": _AFTER,
}

# What torch.nn.Module has by itself, so that a class's own `__getattr__` is not asked for it.
NAMES = frozenset(
    "add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval extra_repr "
    "float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia "
    "named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer "
    "register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook "
    "register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter "
    "register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule "
    "share_memory state_dict to to_empty train type xpu zero_grad _apply _buffers _call_impl _get_name "
    "_load_from_state_dict _modules _named_members _parameters _register_load_state_dict_pre_hook "
    "_register_state_dict_hook _save_to_state_dict _version _wrapped_call_impl".split()
)

# What the constructor of torch.nn.Module puts into the dict of each object, where it hides what classes define under
# these names, and what is there then.
SET: dict[str, Callable[[], Any]] = {
    "training": lambda: True, "_non_persistent_buffers_set": set, "_is_full_backward_hook": lambda: None,
    **dict.fromkeys(("_parameters", "_buffers", "_modules"), dict),
    **dict.fromkeys(
        "_backward_pre_hooks _backward_hooks _forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called "
        "_forward_pre_hooks _forward_pre_hooks_with_kwargs _state_dict_hooks _state_dict_pre_hooks "
        "_load_state_dict_pre_hooks _load_state_dict_post_hooks".split(), dict
    ),
}  # fmt: skip


def table(attrs: dict[str, Any], name: str) -> dict[Any, Any]:
    """Returns the hooks under `name`, one of TABLES, by key and in the order in which they run."""
    found = attrs.setdefault(name, {})
    return found if isinstance(found, dict) else {}


def register(attrs: dict[str, Any], name: str, args: list[Any], kwargs: dict[str, Any]) -> LibObject:
    """Adds a hook to the table `name`, and returns the handle that removes it."""
    hooks = table(attrs, name)
    key = max((key for key in hooks if isinstance(key, int)), default=-1) + 1
    others = dict(hooks) if kwargs.get("prepend") is True else {}
    for other in others:
        del hooks[other]
    hooks[key] = args[0] if args else kwargs.get("hook")
    hooks.update(others)
    if kwargs.get("with_kwargs") is True:
        table(attrs, name + _KEYWORDS)[key] = True
    return HookHandle("torch.utils.hooks.RemovableHandle", {"hooks": hooks, "key": key})


def remove(handle: LibObject) -> None:
    """Models `handle.remove()`."""
    handle.attrs["hooks"].pop(handle.attrs["key"], None)


def placed(interp: Run, model: Instance) -> Instance:
    """Returns the model after a grader's `.to(device)` and `.eval()`: where its class defines `to`, `cuda`, `_apply`,
    `train` or `eval`, these run, and a model that one of them returns replaces this one."""
    moves: list[tuple[str, list[Any]]] = [("_apply", [_SAME]), ("cuda", []), ("to", ["cuda"])]
    for name, given in (*moves, *(() if interp.training else (("train", [False]), ("eval", [])))):
        own = model.attrs.get(name) or find_method(model, name)
        result = interp.call(own, given, {}, None) if own is not None else None
        if own is None and name in ("_apply", "train"):
            passed_on(interp, model, name, given, None)
        model = result if isinstance(result, Instance) else model
    return model


def moved(interp: Run, owner: Instance, loc: ir.Loc | None) -> None:
    """Calls what `to`, `cuda` and the like call of a module of the submission: `_apply` of its class, or of those
    below."""
    own = find_method(owner, "_apply")
    if own is not None:
        interp.call(own, [_SAME], {}, loc)
    else:
        passed_on(interp, owner, "_apply", [_SAME], loc)


def passed_on(
    interp: Run, owner: Instance | LibObject, name: str, given: Sequence[Value], loc: ir.Loc | None, depth: int = 0
) -> None:
    """Calls a method that torch's modules call of those below them, `_apply` or `train`, of all that define it."""
    items = owner.attrs.get("items")
    more = list(items.values()) if isinstance(items, dict) else items if isinstance(items, list) else []
    for below in [*owner.attrs.values(), *more] if depth < MAX_BELOW else ():
        own = find_method(below, name) if isinstance(below, Instance) and is_module(below.cls) else None
        if own is not None:
            interp.call(own, list(given), {}, loc)
        elif isinstance(below, (TorchLayer, Instance)):
            passed_on(interp, below, name, given, loc, depth + 1)


def compile_in_place(interp: Run, owner: Instance | LibObject, kwargs: dict[str, Any], loc: ir.Loc | None) -> None:
    """Models `module.compile()`: later calls go through torch.compile."""
    whole = Method(owner, "_call_impl")
    owner.attrs["_compiled_call_impl"] = interp.call(Sym("torch.compile"), [whole], kwargs, loc)


def call(interp: Run, owner: Instance | LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Calls a module whose class defines no `__call__`."""
    for name in ("__call__", "_call_impl"):
        patch = interp.process.patches.get(f"torch.nn.Module.{name}")
        if patch is not None:
            return interp.call(Bound(owner, patch), args, kwargs, loc)
    compiled = owner.attrs.get("_compiled_call_impl")
    if compiled is not None:
        return interp.call(compiled, args, kwargs, loc)
    own = owner.attrs.get("_call_impl")
    if own is None and isinstance(owner, Instance):
        own = find_method(owner, "_call_impl")
    if own is not None:
        return interp.call(own, args, kwargs, loc)
    return call_whole(interp, owner, args, kwargs, loc)


def call_whole(
    interp: Run, owner: Instance | LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Value:
    """Calls a module's hooks and `forward`: hooks before, `forward`, hooks after."""
    for hook, keywords in _hooks(interp, owner, _BEFORE):
        changed = interp.call(hook, [owner, tuple(args), *([kwargs] if keywords else [])], {}, loc)
        if keywords and isinstance(changed, tuple) and len(changed) == 2 and isinstance(changed[1], dict):
            changed, kwargs = changed
        if changed is not None:
            args = list(changed) if isinstance(changed, tuple) else [changed]
    result = interp.call(interp.get_attr(owner, "forward", loc), args, kwargs, loc)
    for hook, keywords in _hooks(interp, owner, _AFTER):
        changed = interp.call(hook, [owner, tuple(args), *([kwargs] if keywords else []), result], {}, loc)
        if changed is not None:
            result = changed
    return result


def _hooks(interp: Run, owner: Instance | LibObject, name: str) -> list[tuple[Any, bool]]:
    """Hooks and whether each is given keyword arguments, those of all modules first."""
    return [
        (hook, key in table(attrs, name + _KEYWORDS))
        for attrs in (interp.module_hooks, owner.attrs)
        if name in attrs
        for key, hook in table(attrs, name).items()
    ]
