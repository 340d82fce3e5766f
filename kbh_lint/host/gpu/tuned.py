"""Which configurations of an autotuned kernel a launch may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Func, JitFunction, Value
from kbh_lint.host.datamodel import iteration
from kbh_lint.host.values.objects import Config
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_AROUND = 16  # names of the call that made a hook


def pruned(
    interp: Run, jit: JitFunction, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> JitFunction:
    """Returns the kernel with the configurations that its tuner's `prune_configs_by` leaves for a launch; the pruner is
    called as Triton calls it, with the configurations, the positional arguments by name, and the keywords."""
    names = [param.name for param in jit.func.node.params]
    made = interp.call(jit.pruner, [list(jit.tries), dict(zip(names, args, strict=False))], dict(kwargs), loc)
    left = iteration.materialise(interp, made, loc)
    known = [config for config in left if isinstance(config, Config)]
    if not known or len(known) < len(left):
        return replace(jit, open=True)
    kwargs_of, hooks = [config.kwargs for config in known], [config.hook for config in known]
    return replace(jit, configs=kwargs_of, hooks=hooks, open=jit.open or not all(kwargs_of))


def best(
    interp: Run, jit: JitFunction, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Config:
    """Returns `kernel.best_config` after a launch: in what the configurations agree that it may have run; all else is
    unknown."""
    left = jit if jit.pruner is None else pruned(interp, jit, args, kwargs, loc)
    first = left.configs[0] if left.configs else {}
    values = {
        name: value
        if all(name in one and _key(one[name]) == _key(value) for one in left.configs) and not left.open
        else Unknown((), f"best_config.{name}")
        for name, value in first.items()
    }
    return Config(values, options=dict.fromkeys(("num_warps", "num_stages"), Unknown((), "best_config")))


def distinct(jit: JitFunction) -> JitFunction:
    """Returns the kernel without configurations that differ only in compiler options (num_warps): the analysis sees no
    difference."""
    hooks = jit.hooks or [None] * len(jit.configs)
    seen: dict[Any, int] = {}
    for index, (setting, hook) in enumerate(zip(jit.configs, hooks, strict=True)):
        values = tuple((name, type(value).__name__, _key(value)) for name, value in sorted(setting.items()))
        seen.setdefault((values, _hook(hook)), index)
    if len(seen) == len(jit.configs):
        return jit
    return replace(jit, configs=[jit.configs[i] for i in seen.values()], hooks=[hooks[i] for i in seen.values()])


def _hook(hook: object) -> object:
    """What tells one hook from another: where its text stands, and the plain values around it."""
    if not isinstance(hook, Func) or hook.env.parent is None or len(hook.env.vars) > MAX_AROUND:
        return id(hook)
    around = hook.env.vars
    return id(hook.node), tuple((name, type(value).__name__, _key(value)) for name, value in sorted(around.items()))


def _key(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_key(item) for item in value)
    if isinstance(value, Func):
        return id(value.node)
    return value if isinstance(value, (int, float, str, type(None))) else id(value)
