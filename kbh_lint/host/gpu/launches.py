"""Kernel launches: arguments bound as the language does, every configuration analysed, reads and writes recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import UNKNOWN, Func, JitFunction, Value
from kbh_lint.frontends.walk import all_nodes, by_node, walk
from kbh_lint.host.gpu import (
    device_memory,
    extents,
    handshakes,
    launch_arguments,
    launches_that_fail,
    pointer_tables,
    tuned,
)
from kbh_lint.host.gpu.kernel_cache import scope
from kbh_lint.host.torch import recording, tensor_flags
from kbh_lint.host.values import taint
from kbh_lint.host.values.modelled import Site, of_kernel
from kbh_lint.host.values.objects import Configured, HostDescriptor, LibObject
from kbh_lint.host.values.tensors import Content, Event, Tensor, Unknown
from kbh_lint.kernels.core.facts import KernelFacts, Traffic
from kbh_lint.kernels.core.memory import LED

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_CONFIGS = 256
LAUNCH_OPTIONS = frozenset(
    "num_warps num_stages num_ctas maxnreg enable_fp_fusion launch_cooperative_grid launch_pdl grid warmup stream "
    "enable_warp_specialization waves_per_eu matrix_instr_nonkdim debug sanitize_overflow extern_libs".split()
)


def _tuned(
    interp: Run, jit: JitFunction, args: list[Value], kwargs: dict[str, Value], loc: ir.Loc | None
) -> JitFunction:
    """The kernel with the configurations that a launch may run. Its pruner is asked where there are too many, or where
    it completes them, and else once, for what it does beside that."""
    if jit.configs:
        jit.best = partial(tuned.best, interp, jit, args, kwargs, loc)
    whole, jit = jit, tuned.distinct(jit) if len(jit.configs) > MAX_CONFIGS else jit
    if jit.pruner is None:
        return jit
    chooses = len(jit.configs) > MAX_CONFIGS or bool(_lacking(jit, bind(jit, args, kwargs)))
    if whole.asked and not chooses:
        return jit
    whole.asked = True
    left = tuned.pruned(interp, jit, args, kwargs, loc)
    return left if chooses else jit


def launch(
    interp: Run, target: Configured | JitFunction, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Launches a Triton kernel, `kernel[grid](...)`; returns the compiled kernel, as Triton does."""
    configured = target if isinstance(target, Configured) else Configured(target, None)
    jit = configured.jit
    if "run" in jit.func.attrs:  # the submission's own idea of how its kernel is launched
        given = {**kwargs, "grid": configured.grid, "warmup": False}
        return interp.call(jit.func.attrs["run"], args, given, loc)
    bound = dict(configured.bound)
    jit = _tuned(interp, jit, args, kwargs, loc)
    runtime = [p.name for p in jit.func.node.params if not is_constexpr(p)] if bound else []
    if bound and len(args) == len(runtime):  # a compiled kernel may be given its run-time arguments alone
        bound.update(zip(runtime, args, strict=True))
    else:
        bound.update(bind(jit, args, kwargs))
        lacking = _lacking(jit, bound)
        if lacking and not jit.open:
            if not interp.spread:
                interp.fails("builtins.TypeError", loc, f"{jit.func.node.name} gets no {lacking}")
            interp.may_fail("TypeError", loc)
    for param in jit.func.node.params:
        value = bound.get(param.name)
        if isinstance(value, Unknown) and is_constexpr(param) and param.name in _flags(jit.func.node):
            bound[param.name] = interp.truth(value, loc)  # the kernel is made for one answer
    emit(interp, jit, bound, configured.grid, loc, None if configured.bound else kwargs)
    return Configured(jit, configured.grid, constants(jit, bound))


@by_node
def _flags(node: ir.FuncDef) -> frozenset[str]:
    """The names that a kernel tests by themselves: `if NARROW:`, `x if not NARROW else y`."""
    tests = [part.test for part in all_nodes(node.body or ()) if isinstance(part, (ir.If, ir.Cond))]
    found: set[str] = set()
    while tests:
        test = tests.pop()
        if isinstance(test, ir.Name):
            found.add(test.id)
        elif isinstance(test, ir.Bool):
            tests += test.values
        elif isinstance(test, ir.Unary) and test.op == "not":
            tests.append(test.value)
    return frozenset(found)


def _lacking(jit: JitFunction, bound: Mapping[str, Value]) -> str:
    """The first parameter that is given by nothing: no argument, default, configuration or heuristic; or empty."""
    chosen = {name for setting in jit.configs for name in setting}
    known = bound.keys() | jit.func.defaults.keys() | jit.heuristics.keys() | chosen
    params = (p for p in jit.func.node.params if p.kind in ("positional", "keyword"))
    return next((p.name for p in params if p.name not in known), "")


def bind(jit: JitFunction, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a launch by parameter name."""
    params = [p.name for p in jit.func.node.params]
    out: dict[str, Any] = dict(zip(params, args, strict=False))
    out.update({k: v for k, v in kwargs.items() if k in params})
    return out


@by_node
def _constexprs(node: ir.FuncDef) -> dict[str, bool]:
    """Of each parameter of a Triton kernel whether it is a compile-time constant. Nobody changes it."""
    return {param.name: is_constexpr(param) for param in node.params}


@by_node
def is_constexpr(param: ir.Param) -> bool:
    """Whether a Triton parameter is a compile-time constant."""
    annotation = param.type
    while isinstance(annotation, ir.Index):
        annotation = annotation.value
    if isinstance(annotation, ir.Attr):
        return annotation.name == "constexpr"
    if isinstance(annotation, ir.Const) and isinstance(annotation.value, str):
        return "constexpr" in annotation.value
    return isinstance(annotation, ir.Name) and annotation.id == "constexpr"


def constants(jit: JitFunction, bound: dict[str, Any]) -> dict[str, Any]:
    """Returns the bound arguments that are compile-time constants, which a compiled kernel keeps."""
    return {p.name: bound[p.name] for p in jit.func.node.params if is_constexpr(p) and p.name in bound}


def method(
    interp: Run, owner: Configured | JitFunction, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    """Models `.run`, `.warmup` and other methods of a kernel or a compiled kernel."""
    jit = owner.jit if isinstance(owner, Configured) else owner
    made = of_kernel(Site(interp, name, loc, args, kwargs), owner) if owner is jit else NotImplemented
    if made is not NotImplemented:
        return made
    if name == "warmup":
        return Configured(jit, None, constants(jit, bind(jit, args, kwargs)))
    if name in ("run", "launch", "__call__", "fn"):
        args = list(args)
        runtime = [p.name for p in jit.func.node.params if not is_constexpr(p)]
        names = [p.name for p in jit.func.node.params]
        bound = dict(owner.bound) if isinstance(owner, Configured) else {}
        if kwargs.get("grid") is not None or len(args) <= len(names) and not _launcher_call(args):
            bound.update(bind(jit, args, kwargs))
        else:
            tail = names if len(args) >= len(names) + 7 else runtime
            bound.update(zip(tail, args[-len(tail) :], strict=False))
        emit(interp, jit, bound, kwargs.get("grid"), loc)
        return Configured(jit, None, constants(jit, bound))
    if name in (
        "device_caches",
        "cache",
        "configs",
        "best_config",
        "asm",
        "metadata",
        "n_regs",
        "n_spills",
        "_init_handles",
        "function",
        "packed_metadata",
        "kernel",
        "module",
    ):
        return LibObject.by_path(f"triton.{name}", {"kernel": owner})
    return Unknown((), f"kernel.{name}")


def _launcher_call(args: Sequence[Value]) -> bool:
    """A compiled kernel's own launcher takes the grid and the stream first."""
    return len(args) > 4 and all(isinstance(a, (int, Unknown)) for a in args[:4])


def emit(
    interp: Run, jit: JitFunction, bound: Mapping[str, Value], grid: Value, loc: ir.Loc | None,
    told: Mapping[str, Value] | None = None,
) -> Event:  # fmt: skip
    """Records the launch of a Triton kernel, analysed under all its configurations; returns the event. `told` are the
    keywords of the launch, the compiler's options among them; None where these are not known."""
    settings = jit.configs[:MAX_CONFIGS] or [{}]
    bindings: list[dict[str, Any]] = []
    given = {**jit.func.defaults, **bound}
    arguments = launch_arguments.trees(interp, given)
    tensors = launch_arguments.tensors(arguments[name] for name in bound)
    held = tensor_flags.values(interp, bound)
    params = _constexprs(jit.func.node)
    common = {
        n: launch_arguments.given(arguments[n], const) if n in arguments else UNKNOWN for n, const in params.items()
    }
    meta: dict[str, Any] = {}  # what heuristics make of the first configuration
    for setting, hook in zip_longest(settings, jit.hooks[:MAX_CONFIGS]):
        chosen = {name: value for name, value in setting.items() if name not in LAUNCH_OPTIONS}
        if jit.heuristics:
            full = {**given, **chosen}
            for name, rule in jit.heuristics.items():
                full[name] = chosen[name] = interp.call(rule, [full], {}, loc)
            meta = meta or dict(chosen)
        changed = {n: launch_arguments.of(interp, value, params[n]) for n, value in chosen.items() if n in params}
        if hook is not None:
            changed |= _prepared(interp, hook, {**given, **setting}, params, setting is not settings[0], loc)
        bindings.append({**common, **changed})
    facts = interp.analyse_kernel(jit.func, [{**binding, **held} for binding in bindings] if held else bindings)
    raised = launches_that_fail.refusal(interp, jit, facts) if interp.trying else ""
    if not raised and interp.trying and told is not None:
        raised = launches_that_fail.no_room_for_stages(jit, bindings, facts, arguments, told)
    if raised:
        interp.fails(raised, loc)
    size = evaluate_grid(interp, grid, {**bound, **settings[0], **meta}, loc)
    steer = interp.contents_of([size, *(v for v in bound.values() if isinstance(v, Unknown))])
    taint.handed(interp, [size, *bound.values(), *_outer(interp, jit.func)], loc)
    event = record(interp, jit.func, tensors, bindings, facts, size, loc, steer)
    event.attrs["numbers"] = numbers(interp, {**bound, **settings[0], **meta})
    event.attrs["starts"] = launch_arguments.starts({name: arguments[name] for name in bound})
    pointer_tables.after_launch(tensors, event, facts)
    tensor_flags.after_launch(interp, bound, facts)
    handshakes.after_launch(interp, event)
    if len(jit.configs) > MAX_CONFIGS:
        event.attrs["cut"] = f"only {MAX_CONFIGS} of {len(jit.configs)} autotune configurations were read"
    return event


def _prepared(
    interp: Run, hook: object, given: Mapping[str, Value], params: dict[str, bool], again: bool, loc: ir.Loc | None
) -> dict[str, Value]:
    """A configuration's hook is called with a launch's arguments; gives the descriptors, of which it may set the
    block's shape. One configuration runs, so what hooks do to tensors is done once: of others (`again`) only what they
    set on descriptors is followed."""
    described = {name: value for name, value in given.items() if isinstance(value, HostDescriptor)}
    if again and not described:
        return {}
    if again:
        given = {name: Unknown() if isinstance(value, Tensor) else value for name, value in given.items()}
    interp.call(hook, [given], {}, loc)
    return {name: launch_arguments.of(interp, value, params[name]) for name, value in described.items()
            if name in params}  # fmt: skip


def _outer(interp: Run, kernel: Func) -> list[Value]:
    """The values of names that a kernel takes from the module around it, where something was asked for."""
    trace = interp.trace
    if "sniff" not in trace.kinds or all(kind != "sniff" for kind, _, _ in trace.notes):
        return []
    names = {node.id for node in walk(kernel.node.body) if isinstance(node, ir.Name)}
    found = [kernel.env.vars.get(name) for name in names]
    return [value.args[0] if isinstance(value, LibObject) and value.args else value for value in found]


def launch_of_dsl(
    interp: Run, func: Func, bound: Mapping[str, Value], grid: Value, loc: ir.Loc | None, block: Value = None,
    shared: Value = 0,
) -> Event:  # fmt: skip
    """Records the launch of a kernel written in Python, in a language without configurations; returns the event.
    `bound` are the arguments; `block` the threads of a block, where a kernel says what one thread does, and `shared`
    the bytes of dynamic shared memory. (For CUDA from C++: `host.cpp.launches.launch_kernel`.)"""
    arguments = launch_arguments.trees(interp, bound)
    binding = {name: launch_arguments.given(argument) for name, argument in arguments.items()}
    facts = interp.analyse_kernel(func, [binding])
    launches_that_fail.check_room(interp, func, facts, block, shared, loc)
    steer = interp.contents_of([grid, *(v for v in bound.values() if isinstance(v, Unknown))])
    taint.handed(interp, [grid, *bound.values()], loc)
    tensors = launch_arguments.tensors(arguments.values())
    event = record(interp, func, tensors, [binding], facts, grid, loc, steer, block)
    event.attrs["numbers"], event.attrs["starts"] = numbers(interp, bound), launch_arguments.starts(arguments)
    pointer_tables.after_launch(tensors, event, facts)
    return event


def numbers(interp: Run, bound: Mapping[str, Value]) -> dict[str, tuple[Content, ...]]:
    """Returns, for each parameter given an unknown number, the contents that the number was computed from."""
    return {name: interp.contents_of(value) for name, value in bound.items() if isinstance(value, Unknown)}


def evaluate_grid(interp: Run, grid: Value, meta: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Returns the grid of a launch: a function is called with `meta`, other values are returned as they are."""
    if grid is None or isinstance(grid, (tuple, list, int)):
        return grid
    try:
        return interp.call(grid, [meta], {}, loc)
    except RecursionError:
        return None


def record(
    interp: Run, kernel: Func, tensors: dict[int, Tensor], bindings: list[dict[str, Any]], facts: list[KernelFacts],
    grid: Value, loc: ir.Loc | None, steer: tuple[Content, ...] = (), block: Value = None,
) -> Event:  # fmt: skip
    """Records the event of a launch: what each store writes, and what flowed into it; returns the event."""
    facts = device_memory.resolve(interp, kernel, facts, tensors)
    distinct = list({id(f): f for f in facts}.values())
    traffic = [f.traffic() for f in distinct]
    loads = {ident for one in traffic for ident in one.loads}
    stores: dict[int, str] = {}
    flows: dict[int, set[int]] = {}
    for storage, dtype, sources in (store for one in traffic for store in one.stores):
        stores.setdefault(storage, dtype)
        flows.setdefault(storage, set()).update(sources)
    if _leads_nowhere(distinct, traffic):
        interp.lost(f"{kernel.node.name} writes through addresses that lead to nothing known", loc)
    blind = any(f.unread for f in distinct)
    if blind and not stores.keys() & tensors.keys():
        # what could not be read is taken to write its scratch and output buffers, never inputs or weights
        stores = {
            i: t.dtype for i, t in tensors.items() if not t.storage.content.label.startswith(("input:", "state:"))
        }
    for ident in () if blind else loads & stores.keys() & tensors.keys():
        recording.take_over(interp, tensors[ident].storage)
    reads = [
        (t.storage.content, t) for i, t in tensors.items() if i in loads or blind and t.storage.content.label != "empty"
    ]
    event = Event("launch", kernel.node.name, loc, reads, attrs={
        "kernel": kernel, "bindings": bindings, "facts": facts, "distinct": distinct, "grid": grid,
        "contents": {i: t.storage.content for i, t in tensors.items()},
        "steer": (*steer, *recording.steered_by(list(tensors.values()))), "block": block,
        "answered": interp.session.answered,
        "seen": None if kernel.language else scope(interp.session, kernel),
    })  # fmt: skip
    interp.emit(event)
    _write(interp, event, tensors, stores, flows, blind)
    return event


def _leads_nowhere(distinct: list[KernelFacts], traffic: list[Traffic]) -> bool:
    """Whether a kernel stores through an address that it loaded, of which nobody knows where it leads."""
    led = any(name.endswith(LED) for one in traffic for name in one.unplaced)  # else no store is looked at
    return led and any(s.storage == -1 and s.param.endswith(LED) for f in distinct for s in f.stores)


_WORDS = frozenset({"?", "u8", "i8", "u16", "u32", "u64", "i32", "i64", "i16"})  # types that may hold bits of any other


def _write(
    interp: Run, event: Event, tensors: dict[int, Tensor], stores: dict[int, str], flows: dict[int, set[int]],
    blind: bool,
) -> None:  # fmt: skip
    """Records what a launch stores, by storage: as elements of this type, or of the tensor's where it may move bits
    alone; and what flowed into it, which is all that was read where the kernel was not."""
    before: dict[int, Content] = {i: t.storage.content for i, t in tensors.items()}
    event.flows = {}
    for ident, dtype in stores.items():
        tensor = tensors.get(ident)
        if tensor is None:
            continue
        known = dtype if dtype not in _WORDS or tensor.dtype == dtype else tensor.dtype
        part = extents.keeps_a_part(tensor, event)
        made = tensor.storage.content.event
        less = part and made is not None and made.loc == event.loc
        recording.write(interp, tensor, event, part, known if known != "?" else tensor.dtype, less=less)
        flow = [before[s] for s in flows.get(ident, ()) if s in before]
        event.flows[tensor.storage.content.ident] = [c for c, _ in event.reads] if blind and not flow else flow
