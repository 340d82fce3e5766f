"""Functions of torch, by their full paths, that say what others compute, or call what they are given: settings, seeds,
devices, compilation, hooks of all modules."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import DType, Func, Value
from kbh_lint.host.datamodel import modules, shown
from kbh_lint.host.libs import extensions, script_graphs
from kbh_lint.host.libs.functorch import Functorch
from kbh_lint.host.libs.registered import Registered
from kbh_lint.host.python import module_calls
from kbh_lint.host.torch import tensor_attributes, tensor_views
from kbh_lint.host.values import tensor_arguments
from kbh_lint.host.values.modelled import Site, models
from kbh_lint.host.values.named_objects import CompileDecorator, TorchLayer
from kbh_lint.host.values.objects import Bound, Compiled, Instance, LibObject, Memo, Partial
from kbh_lint.host.values.tensors import Tensor, Unknown
from kbh_lint.source.embedded import doubts

CALLABLE = (Func, Bound, Partial, Memo, Compiled, Instance)
_OWN = frozenset("use_reentrant context_fn determinism_check debug early_stop preserve_rng_state".split())
_SETTINGS = [
    *(
        "torch." + name
        for name in "set_float32_matmul_precision use_deterministic_algorithms set_default_dtype set_default_device "
        "set_num_threads set_num_interop_threads set_flush_denormal set_default_tensor_type "
        "cuda.set_per_process_memory_fraction".split()
    )
]
_SEEDS = ["torch." + n for n in "manual_seed cuda.manual_seed cuda.manual_seed_all random.manual_seed seed".split()]
_SAME = [
    *("torch.jit." + n for n in "trace trace_module ignore export unused freeze script_if_tracing".split()),
    "torch.jit.optimize_for_inference", "torch.fx.symbolic_trace", "torch.fx.wrap",
    "torch.func.functionalize",
    *("torch.compiler." + n for n in "disable allow_in_graph assume_constant_result".split()),
    *(f"torch.{n}.custom_{way}" for n in ("amp", "cuda.amp") for way in ("fwd", "bwd")),
    "torch.autograd.function.once_differentiable",
]  # fmt: skip
_IDENTITY = [
    *("torch." + n for n in "jit.wait jit._wait utils.dlpack.to_dlpack utils.dlpack.from_dlpack from_dlpack".split()),
    *("torch.return_types." + n for n in "topk sort max min mode".split()),
    *("torch.nn.Buffer", "torch.promote_types"),
]


class OfTorch(Functorch, Registered):
    """A part of torch."""

    @models(*_SAME)
    def same(self, site: Site, /, *given: Value, **named: Value) -> Value:
        """Models tracing, scripting and the like: returns the function or module that is given, which computes the same
        afterwards."""
        func = given[0] if given else next((v for v in named.values() if isinstance(v, CALLABLE)), None)
        return func if isinstance(func, (*CALLABLE, TorchLayer)) else LibObject.by_path(site.path, {}, given, named)

    @models(*_IDENTITY)
    def identity(self, site: Site, value: Value, *more: Value, **options: Value) -> Value:
        """Models functions that return their first argument unchanged; of an array the tensor in its memory."""
        return tensor_views.plain(value) if isinstance(value, Tensor) else value

    @models("torch.utils.checkpoint.checkpoint", "torch.jit.fork", "torch.jit._fork")
    def now(self, site: Site, function: Value, /, *args: Value, **kwargs: Value) -> Value:
        """Models `checkpoint(function, *args)` and the like: calls the function; keywords of the wrapper's own are left
        out."""
        return site.run.call(function, list(args), {k: v for k, v in kwargs.items() if k not in _OWN}, site.loc)

    @models("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")
    def functional_call(
        self,
        site: Site,
        module: Value,
        parameter_and_buffer_dicts: Value,
        args: Value = None,
        kwargs: Value = None,
        *more: Value,
        **options: Value,
    ) -> Value:
        """Models `torch.func.functional_call(module, tensors, args)`: calls a module with other tensors, given by
        dotted name."""
        changed = parameter_and_buffer_dicts
        sets = changed if isinstance(changed, (list, tuple)) else [changed]
        before: list[tuple[dict[str, Any], str, Value]] = []
        for dotted, tensor in [pair for each in sets if isinstance(each, dict) for pair in each.items()]:
            path, _, name = str(dotted).rpartition(".")
            owner = _attributes(module, path)
            if isinstance(tensor, Tensor) and name in owner:
                before.append((owner, name, owner[name]))
                owner[name] = tensor
        listed = list(args) if isinstance(args, (list, tuple)) else [args] if args is not None else []
        try:
            return site.run.call(module, listed, kwargs if isinstance(kwargs, dict) else {}, site.loc)
        finally:
            for owner, name, value in reversed(before):
                owner[name] = value

    @models("torch.utils.swap_tensors")
    def swap_tensors(self, site: Site, t1: Value, t2: Value) -> None:
        """Models `torch.utils.swap_tensors(t1, t2)`: exchanges what the two objects are."""
        if isinstance(t1, Tensor) and isinstance(t2, Tensor):
            for field in fields(Tensor):
                left, right = (getattr(tensor, field.name) for tensor in (t1, t2))
                setattr(t1, field.name, right)
                setattr(t2, field.name, left)

    @models("torch.nn.Parameter", "torch.nn.parameter.Parameter")
    def parameter(self, site: Site, data: Value = None, requires_grad: Value = True) -> Value:
        """Models `torch.nn.Parameter(data)`: a weight in the memory of the tensor."""
        if not isinstance(data, Tensor):
            return data
        made = tensor_views.alias(data, data.shape, data.strides)
        made.parameter = True
        return made

    @models("torch.compile", "torch.jit.script")
    def compile(self, site: Site, model: Value = None, *more: Value, **options: Value) -> Value:
        """Models `torch.compile(model)`: the compiled function or module, or a decorator."""
        if model is None or isinstance(model, str):
            return CompileDecorator("torch.compile.decorator")
        return Compiled(model, site.loc)

    @models(*module_calls.FOR_ALL)
    def hook_all(self, site: Site, hook: Value, **options: Value) -> Value:
        """Models registering a hook that runs with all modules."""
        return module_calls.register(site.run.module_hooks, module_calls.FOR_ALL[site.path], [hook], options)

    @models("torch.cond")
    def cond(self, site: Site, pred: Value, true_fn: Value, false_fn: Value, operands: Value = ()) -> Value:
        """Models `torch.cond(pred, true_fn, false_fn, operands)`."""
        chosen = true_fn if site.run.truth(pred, site.loc) else false_fn
        return site.run.call(chosen, list(operands) if isinstance(operands, (list, tuple)) else [], {}, site.loc)

    @models("torch.device")
    def device(self, site: Site, type: Value = "cuda", index: Value = None) -> Value:
        """Models `torch.device(type, index)`."""
        return tensor_attributes.device(tensor_arguments.device_of(type))

    @models(*_SETTINGS)
    def setting(self, site: Site, *given: Value, **named: Value) -> Value:
        """Models setters of torch's global settings, and notes the new value."""
        if given:
            modules.setting(site.run, site.path, given[0], site.loc)
        return LibObject.by_path(site.path)

    @models(*("torch." + n for n in "no_grad inference_mode enable_grad set_grad_enabled autocast".split()))
    def context(self, site: Site, /, *given: Value, **named: Value) -> Value:
        """Models `torch.no_grad()` and other context managers and decorators that change no value computed here."""
        func = given[0] if given else None
        return func if isinstance(func, (Func, Bound)) else LibObject.by_path(site.path, {}, given, named)

    @models(*_SEEDS)
    def seed(self, site: Site, seed: Value = None) -> Value:
        """Models `torch.manual_seed(seed)` and the like; in a call of `forward` that is noted as a setting."""
        if site.run.trace.call_index:
            modules.setting(site.run, site.path, seed, site.loc)
        return LibObject("torch.Generator")

    @models("torch.finfo", "torch.iinfo")
    def info(self, site: Site, type: Value = None) -> Value:
        """Models `torch.finfo(type)` and `iinfo(type)`."""
        name = type.name if isinstance(type, DType) else "f32"
        top = dtypes.TYPES[name].largest if name in dtypes.TYPES else 1.0
        held = {"max": top, "min": -top, "eps": 1e-7, "tiny": 1e-38, "bits": 8, "smallest_normal": 1e-38}
        return LibObject(site.path, held)

    @models("torch.load")
    def load(self, site: Site, f: Value = None, *more: Value, **options: Value) -> Value:
        """Models `torch.load(f)` of a file that this run has not written: unknown."""
        return Unknown((), site.path)

    @models("torch.is_tensor")
    def is_tensor(self, site: Site, obj: Value) -> bool:
        """Models `torch.is_tensor(obj)`."""
        return isinstance(obj, Tensor)

    @models("torch.is_grad_enabled")
    def is_grad_enabled(self, site: Site) -> bool:
        """Models `torch.is_grad_enabled()`: False."""
        return False

    @models("torch.get_num_threads")
    def threads(self, site: Site) -> int:
        """Models `torch.get_num_threads()`: a fixed number."""
        return 8

    @models("torch.Size")
    def size(self, site: Site, sizes: Value) -> Value:
        """Models `torch.Size(sizes)`: a tuple."""
        return tuple(sizes) if isinstance(sizes, list) else sizes

    @models("torch._C.parse_ir")
    def parsed(self, site: Site, text: Value, *more: Value, **options: Value) -> Value:
        """Models `torch._C.parse_ir(text)`: a graph of TorchScript."""
        graph = script_graphs.parse(str(text)) if isinstance(text, str) and not doubts(text) else None
        return NotImplemented if graph is None else LibObject.by_path("torch._C.Graph", {"graph": graph})

    @models("torch._C._create_function_from_graph")
    def of_graph(self, site: Site, name: Value, graph: Value) -> Value:
        """Models what makes a function of a graph of TorchScript."""
        held = graph.attrs.get("graph") if isinstance(graph, LibObject) else None
        return script_graphs.function(held) if isinstance(held, script_graphs.ScriptGraph) else NotImplemented

    @models("torch.ops.load_library", "torch.classes.load_library")
    def load_library(self, site: Site, path: Value = "") -> Value:
        """Models `torch.ops.load_library(path)`."""
        return extensions.load_library(site.run, shown.show(path), site.loc)


def _attributes(module: Value, path: str) -> dict[str, Value]:
    """The attributes of the module that a dotted name leads to; none where it leads nowhere."""
    for part in path.split(".") if path else ():
        module = module.attrs.get(part) if isinstance(module, (Instance, LibObject)) else None
    return module.attrs if isinstance(module, (Instance, LibObject)) else {}
