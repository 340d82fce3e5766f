"""Names of libraries in kernels, with `namespace x = y;` and `using namespace` resolved."""

from __future__ import annotations

from collections.abc import Iterable

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env

_MAX_ALIASES = 8
_OF_CUB = ("Block", "Warp")
_CUB = frozenset(
    "KeyValuePair ArgMax ArgMin Sum Max Min Difference Division Equality Inequality InequalityWrapper CastOp "
    "ThreadLoad ThreadStore ThreadReduce LaneId LaneMaskLt ShuffleUp ShuffleDown ShuffleIndex CTA_SYNC".split()
)


def outside(name: str, env: Env, local: Iterable[str] = ()) -> str:
    """The full name, as its library spells it, of a name that the text does not define; `local` are the namespaces of
    `using` directives in the kernel. `name` itself where nothing is known."""
    name = name.removeprefix("::")
    for _ in range(_MAX_ALIASES):
        space, colons, rest = name.partition("::")
        meant = _alias(space, env) if colons else ""
        if not meant or meant == space:
            break
        name = f"{meant}::{rest}"
    if "::" in name or not name.startswith(_OF_CUB) and name not in _CUB:
        return name
    known = [_alias(space, env) or space for space in (*local, *used(env))]
    return f"cub::{name}" if "cub" in known else name


def _alias(space: str, env: Env) -> str:
    """The namespace that an alias names; empty for what is none."""
    try:
        found = env.lookup(space)
    except KeyError:
        return ""
    target = found.node.type if isinstance(found, CppType) and isinstance(found.node, ir.Using) else None
    plain = target is not None and not (target.args or target.member or target.pointers)
    return target.name.removeprefix("::") if target is not None and plain else ""


def used(env: Env) -> list[str]:
    """The namespaces that `using` directives bring into a scope."""
    found: list[str] = []
    inner: Env | None = env
    while inner is not None:
        found += (inner.uses or {}).get(inner.namespace, ())
        inner = inner.parent
    return found
