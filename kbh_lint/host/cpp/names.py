"""What a name of C++ means outside the text: through aliases and directives of namespaces, using-declarations,
typedefs, template arguments, and bases of classes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import CppType, Env, Overloads, Sym, TypeValue, Value
from kbh_lint.cpp.classes import Classes
from kbh_lint.host.gpu import device_wide
from kbh_lint.host.torch import shapes, tensor_makers, tensor_views, torchlib
from kbh_lint.host.torch.aten_names import MODULES, public
from kbh_lint.host.values.tensors import Tensor

MAX_STEPS = 24
TORCH = ("at", "torch", "c10", "aten")
SPACES = tuple(f"{space}::" for space in (*TORCH, "cub", "thrust", "std"))
_TYPES = (
    "cub::Device", "cub::Block", "cub::Warp", "thrust::device_vector", "thrust::device_ptr", "thrust::raw_pointer_cast"
)  # fmt: skip

FAILURE = Sym("cudaErrorInvalidConfiguration")  # what a launch that is refused answers
# Functions of the CUDA runtime and driver that do nothing to data and answer with a status.
STATUS = frozenset(
    "cudaGetLastError cudaPeekAtLastError cudaDeviceSynchronize cudaStreamSynchronize cudaFuncSetAttribute "
    "cudaSetDevice cuInit cuCtxSetCurrent cuCtxSynchronize cuFuncSetAttribute cudaFree cuModuleLoadData "
    "nvrtcCompileProgram "
    "cudaFuncSetCacheConfig cudaStreamWaitEvent cudaEventRecord cuStreamSynchronize "
    "cudaDeviceSetLimit cuCtxSetLimit cudaCtxResetPersistingL2Cache cuCtxResetPersistingL2Cache cudaStreamSetAttribute "
    "cuStreamSetAttribute cudaDeviceSetCacheConfig".split()
)
# Libraries that compute: names of theirs begin so.
SOLID = ("cublas", "cudnn", "cusparse", "cusolver", "thrust::", "cub::Device", "nvinfer", "cutensor", "cusparseLt")


def by_arguments(name: str, args: Sequence[Value]) -> str:
    """Returns the full name of a function that is found in the namespace of one of its arguments: a tensor's, or that
    of a policy of thrust; the name itself where none of these has it."""
    if "::" in name:
        return name
    if is_operation(name) and any(isinstance(arg, Tensor) for arg in args):
        return f"at::{name}"
    of_thrust = any(getattr(arg, "path", "").startswith("thrust::") for arg in args)
    return f"thrust::{name}" if of_thrust and device_wide.named(f"thrust::{name}") else name


def outside(name: str, env: Env, classes: Classes) -> str:
    """Returns the full name by which a library defines `name`, through the aliases and using-directives of the source;
    `name` itself where these say nothing."""
    name = name.removeprefix("::")
    for _ in range(MAX_STEPS):
        found = _renamed(name, env, classes)
        if found is None:
            break
        name, env = found
    for candidate in _directed(name, env):
        if is_known(candidate):
            return candidate
    return name


def hidden(name: str, value: object, env: Env) -> str:
    """Returns the library's function that a using-directive makes visible, where the source defines `name` only in
    namespaces that are not visible here; empty otherwise."""
    spaces = {func.env.namespace for func in value.funcs} if isinstance(value, Overloads) else {""}
    if "::" in name or "" in spaces:
        return ""
    inner: Env = env
    while inner.parent is not None:
        if name in inner.vars or inner.namespace in spaces:
            return ""
        inner = inner.parent
    meant = _directed(name, env)
    if any(one.rpartition("::")[0] in spaces for one in meant):
        return ""
    return next((one for one in meant if is_known(one)), "")


def is_known(name: str) -> bool:
    """Whether a qualified name is an operation or type of torch, cub or thrust that this analysis models."""
    space, _, rest = name.partition("::")
    first = rest.partition("::")[0]
    if space in ("cub", "thrust") or name.startswith("at::cuda::"):
        return device_wide.named(name) or name.startswith(_TYPES) or of_backend(name)
    if dtypes.from_aten(name) is not None:
        return True
    if first == "indexing":  # `torch::indexing::Slice`
        return space in TORCH and rest.rpartition("::")[2] in ("Slice", "Ellipsis", "None")
    if first in MODULES:  # `torch::linalg::inv`
        return space in TORCH and is_operation(rest.rpartition("::")[2])
    return space in TORCH and (is_operation(first) or first == "Tensor" or rest.startswith(("_ops::", "native::")))


def of_backend(name: str) -> bool:
    """Whether a name is that of an operation of torch as one backend has it: `at::cuda::mm_out`."""
    space, _, short = name.rpartition("::")
    base = public(short.removesuffix("f").removesuffix("_out") if "_out" in short else short)
    return space == "at::cuda" and (base in shapes.TABLE or torchlib.kind_of(base) == "library")


def is_operation(name: str) -> bool:
    """Whether torch has an operation of this name."""
    base = public(name.removesuffix("_out").removesuffix("_"))
    known = any(base in table for table in (tensor_makers.MAKERS, torchlib.SPECIAL, tensor_views.VIEWS, shapes.TABLE))
    return known or torchlib.kind_of(base) == "library" or torchlib.is_followed(base) and not base.startswith("_")


def member_of_tensor(name: str) -> str:
    """Returns the method name in `at::Tensor::NAME`; empty for other names."""
    return name.rpartition("::")[2] if name.rpartition("::")[0].endswith("::Tensor") else ""


def field_of(held: object) -> str:
    """Returns the field that a pointer to member, `&S::field`, names; empty for other values."""
    owner, _, name = held.path.rpartition("::") if isinstance(held, Sym) else ("", "", "")
    return name if owner else ""


def is_alias(value: object) -> bool:
    """Whether a value is a type alias: a using-declaration, a typedef or a namespace alias."""
    return isinstance(value, CppType) and isinstance(value.node, ir.Using) and value.node.type is not None


def _lookup(env: Env, name: str) -> Value:
    return env.get(name)


def _spelled(ref: ir.TypeRef, rest: list[str]) -> str:
    return "::".join((ref.name.removeprefix("::"), *map(str, ref.member), *rest))


def _renamed(name: str, env: Env, classes: Classes | None = None) -> tuple[str, Env] | None:
    """One step: what the longest part of a name that the text knows stands for."""
    parts = name.split("::")
    for count in range(len(parts), 0, -1):
        head, rest = "::".join(parts[:count]), parts[count:]
        found = _lookup(env, head)
        if isinstance(found, TypeValue):
            return _other(_spelled(found.ref, rest), found.env, name, env)
        if not isinstance(found, CppType):
            continue
        if isinstance(found.node, ir.Using):
            kind = found.node.type
            return None if kind is None else _other(_spelled(kind, rest), found.env, name, env)
        return _inherited(found, rest, classes) if rest and classes is not None else None
    return None


def _other(made: str, scope: Env, name: str, env: Env) -> tuple[str, Env] | None:
    """A name in its scope, where that is not the one that was asked for."""
    return None if made == name and scope is env else (made, scope)


def _inherited(kind: CppType, rest: list[str], classes: Classes) -> tuple[str, Env] | None:
    """A member of a class of the text that is an alias, or that a base outside the text has."""
    made = classes.defined(kind, {})
    member = None if made is None else made.members.get(rest[0])
    if member is not None:
        own = member.node.type if isinstance(member.node, ir.Using) else None
        return None if own is None else (_spelled(own, rest[1:]), member.owner.env)
    bases = [base for one in made.lineage for base in one.bases] if made is not None else []
    beyond = next((base for base in bases if isinstance(base, TypeValue) and classes.of(base) is None), None)
    return None if beyond is None else (_spelled(beyond.ref, rest), beyond.env)


def _directed(name: str, env: Env) -> list[str]:
    """What a name may be by the directives that hold where it stands, and by those of the namespace that it names."""
    found: list[str] = []
    inner: Env | None = env
    last = env
    while inner is not None:
        if inner.uses:
            found += [f"{space}::{name}" for space in inner.uses.get(inner.namespace, ())]
        last, inner = inner, inner.parent
    space, _, rest = name.partition("::")
    if rest:
        found += [f"{other}::{rest}" for other in (last.uses or {}).get(space, ())]
    spaces = {one.partition("::")[0] for one in found}
    meant = {space: found_as for space in spaces if (found_as := _space(space, last)) != space}
    return [one if (head := one.partition("::"))[0] not in meant else f"{meant[head[0]]}::{head[2]}" for one in found]


def _space(name: str, env: Env) -> str:
    """The namespace that an alias names."""
    for _ in range(MAX_STEPS):
        found = _renamed(name, env)
        if found is None:
            break
        name, env = found
    return name


def around(name: str, env: Env) -> Env | None:
    """Returns the enclosing file or namespace scope if `name` means the same there as in `env`; None where the function
    binds the name or its first part, or has a using-directive."""
    scope = env
    starts = _starts(name) if "::" in name else ()
    while scope.parent is not None and not scope.namespace:
        if scope.uses or name in scope.vars or starts and not scope.vars.keys().isdisjoint(starts):
            return None
        scope = scope.parent
    return scope


def begins_bound(name: str, env: Env) -> bool:
    """Whether a name, or its first part, is bound in a scope."""
    for start in _starts(name):
        try:
            env.lookup(start)
        except KeyError:
            continue
        return True
    return False


@lru_cache(maxsize=4096)
def _starts(name: str) -> tuple[str, ...]:
    """`a`, `a::b` and `a::b::c` of `a::b::c`."""
    parts = name.split("::")
    return tuple("::".join(parts[: count + 1]) for count in range(len(parts)))
