"""Launches of kernels written in Python that no compiler or no GPU takes, whatever GPU they are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.architectures import MOST_SHARED
from kbh_lint.base.values import Func, JitFunction, Value
from kbh_lint.frontends.walk import by_node, children, walk
from kbh_lint.host.gpu import launch_limits
from kbh_lint.host.gpu.launch_arguments import Argument
from kbh_lint.host.values.unbound import nowhere_bound
from kbh_lint.kernels.core.facts import KernelFacts
from kbh_lint.kernels.extents.assigned import assigned_names

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

_MAX_FUNCTIONS = 64
_STAGES = 3  # of Triton's compiler, where nothing is said
_ALIGNED = 16  # bytes
_UNKNOWN: Mapping[str, Value] = {"num_stages": None}
_OTHER_OPTIONS = {"enable_warp_specialization", "warp_specialize", "extern_libs", "debug", "warmup"}
_OPTIONS = {*_OTHER_OPTIONS, "num_stages", "num_ctas"}
# What decides at compile time whether a part is compiled at all.
_CHOICES = (ir.If, ir.Cond, ir.Bool, ir.Lambda, ir.FuncDef, ir.Comp)


def refusal(interp: Run, jit: JitFunction, facts: list[KernelFacts]) -> str:
    """Returns the path of the exception that the kernel's language raises where a launch certainly fails: under every
    configuration the compiler refuses a tile size or an unbound name, or more shared memory is needed than any GPU has.
    Empty where it may run, or where the exception is not known."""
    language = registry.of_kernel(jit.func.language)
    raised = language.refusal
    if raised and facts and all(one.refused for one in facts):
        return raised
    if language.no_room and facts and all(one.refused or one.too_large for one in facts):
        return language.no_room
    return raised if raised and jit.func.language == "" and _uses_nothing(interp, jit.func, set()) else ""


def check_room(
    interp: Run, func: Func, facts: Sequence[KernelFacts], block: Value, shared: Value, loc: ir.Loc | None
) -> None:
    """Raises in the program what the language of a kernel raises where a launch has more threads in a block, or more
    shared memory that it asks for or that the kernel allocates, than any GPU has. Nothing where that exception is not
    known."""
    raised = registry.of_kernel(func.language).no_room
    if raised and facts and all(one.too_large for one in facts):
        interp.fails(raised, loc)
    elif raised:
        launch_limits.check(interp, block, shared, raised, loc)


def no_room_for_stages(
    jit: JitFunction, bindings: Sequence[Mapping[str, Value]], facts: Sequence[KernelFacts],
    arguments: Mapping[str, Argument], told: Mapping[str, Value],
) -> str:  # fmt: skip
    """Returns the path of the exception where the stages of a kernel's loops take more shared memory than any GPU has,
    under every configuration. Empty where they may fit. `told` are the keywords of the launch."""
    language = registry.of_kernel(jit.func.language)
    settings = jit.configs or [{}]
    if not language.no_room or language.staged_bytes is None or jit.open or len(settings) != len(bindings):
        return ""
    if not jit.plain:  # options may keep the compiler from knowing multiples
        return ""
    if len(jit.configs) != len(jit.tries):  # those that are left out may have fewer stages
        return ""
    places = {name: one.tensor.start for name, one in arguments.items() if one.tensor is not None}
    aligned = {name for name, start in places.items() if start is not None and start % _ALIGNED == 0}
    for setting, binding, one in zip(settings, bindings, facts, strict=True):
        if one.refused or one.too_large:
            continue
        if language.staged_bytes(jit.func, binding, aligned, _stages(jit, setting, told)) <= MOST_SHARED:
            return ""
    return language.no_room


def _stages(jit: JitFunction, setting: Mapping[str, Value], told: Mapping[str, Value]) -> int:
    """The stages that a launch under a configuration has; 0 where they are not known, or where other options may change
    what they take."""
    given = next((config.options for config in jit.tries if config.kwargs is setting), _UNKNOWN if jit.configs else {})
    options = {**given, **told}
    if setting.keys() & _OPTIONS or told.keys() & _OTHER_OPTIONS or options.get("num_ctas", 1) != 1:
        return 0
    stages = options.get("num_stages", _STAGES)
    return stages if isinstance(stages, int) else 0


def _uses_nothing(interp: Run, func: Func, seen: set[int]) -> bool:
    """Whether what is compiled of a function in any case uses a name that nothing binds."""
    ours = func.node.loc[0] is interp.session.module.unit
    if not ours or id(func.node) in seen or len(seen) > _MAX_FUNCTIONS:
        return False
    seen.add(id(func.node))
    here, own = func.env.vars, assigned_names(func.node.body or (), False)
    for name in _names(func.node):
        found = here.get(name, _NOTHING)
        if found is _NOTHING:
            found = func.env.get(name, _NOTHING)
            # most are variables of the function, of which the rest of the file need not be asked
            if found is _NOTHING and name not in own and nowhere_bound(interp.session, name):
                return True
        inner = found.func if isinstance(found, JitFunction) else None
        if inner is not None and _uses_nothing(interp, inner, seen):
            return True
    return False


_NOTHING = object()


@by_node
def _names(node: ir.FuncDef) -> list[str]:
    """The names in what is compiled of a function in any case that are no parameters."""
    own = {param.name for param in node.params}
    return [name for name in _compiled(node.body or ()) if name not in own]


def _compiled(body: tuple[ir.Stmt, ...]) -> tuple[str, ...]:
    """The names in what is compiled whatever the compile-time arguments are: up to the first return, and not below a
    choice; of a loop that is unrolled, nothing."""
    found: list[Any] = []
    for stmt in body:
        below = walk(stmt)
        if any(isinstance(node, (ir.Return, ir.Raise)) for node in below):
            break
        stack: list[Any] = [stmt]
        while stack:
            node = stack.pop()
            found.append(node)
            if isinstance(node, ir.For):
                stack.append(node.iterable)
                stack += node.body if _is_range(node.iterable) else ()
            elif not isinstance(node, _CHOICES):
                stack += children(node)
    return tuple(dict.fromkeys(node.id for node in found if isinstance(node, ir.Name)))


def _is_range(node: ir.Expr) -> bool:
    """Whether a loop runs over what is compiled once, however often it runs."""
    return isinstance(node, ir.Call) and isinstance(node.func, ir.Name) and node.func.id == "range"
