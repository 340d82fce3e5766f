"""Triton on the host: decorators, configurations, descriptors. Its kernels, and Gluon's, are `values.JitFunction`."""

from __future__ import annotations

from dataclasses import replace

from kbh_lint.base import dtypes
from kbh_lint.base.values import Func, JitFunction, Sym
from kbh_lint.host.effects import foreign
from kbh_lint.host.libs import autotuning
from kbh_lint.host.values import tensor_arguments, unknowns
from kbh_lint.host.values.library_objects import UnreadKernel
from kbh_lint.host.values.modelled import Library, Modelled, Site, Value, models
from kbh_lint.host.values.objects import Config, HostDescriptor, LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown, row_major

_SAME = (
    "triton.constexpr_function",
    "triton.runtime.jit.constexpr_function",
    "triton.experimental.gluon.constexpr_function",
)  # change nothing of what a function computes
_CONFIG = ("num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook")  # after the values of a configuration
_OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
_PRUNE = "early_config_prune"  # what prunes configurations by their values, where `perf_model` and `top_k` take times
_JIT = ("triton.jit", "triton.experimental.gluon.jit")


class Decorator(Modelled):
    """`triton.jit(...)`, `triton.autotune(configs, key)`, `triton.heuristics(values)`: what is called with a kernel."""

    def __init__(self, kind: str, configs: Value = None, heuristics: Value = None, prune: Value = None) -> None:
        super().__init__("triton.decorator", {"kind": kind, "configs": configs, "values": heuristics, "prune": prune})
        self.kind, self.configs, self.heuristics, self.prune = kind, configs, heuristics, prune

    def called(self, site: Site) -> Value:
        """The decorated kernel."""
        if site.args:
            return site.run.decorate(self, site.args[0], site.loc)
        return foreign.foreign(site)

    def of(self, target: JitFunction) -> JitFunction:
        """The kernel with the decorator's configurations, or with its values computed from arguments."""
        made = replace(
            target, configs=list(target.configs), heuristics=dict(target.heuristics), hooks=list(target.hooks)
        )
        if self.kind == "autotune":
            given = self.configs if isinstance(self.configs, list) else []
            known = [config for config in given if isinstance(config, Config)]
            made.configs, made.hooks = [config.kwargs for config in known], [config.hook for config in known]
            made.pruner, made.tries = (self.prune.get(_PRUNE) if isinstance(self.prune, dict) else None), known
            made.open = made.open or not given or len(made.configs) < len(given) or not all(made.configs)
        elif isinstance(self.heuristics, dict):
            made.heuristics.update(self.heuristics)
        else:
            made.open = True
        return made


class Triton(Library):
    """The package `triton`."""

    @models("jit")
    def jit(self, site: Site, fn: Value = None, *rest: Value, **options: Value) -> Value:
        """The kernel made of a function, or for a call with options alone a decorator. Gluon's kernels are treated like
        Triton's."""
        return _kernel(site, fn, not rest and not options) if site.args else Decorator("jit")

    @models("triton.testing.do_bench", "triton.testing.do_bench_cudagraph")
    def timed(self, site: Site, fn: Value = None, *how: Value, **options: Value) -> Value:
        """The measured time of `fn`, which is unknown."""
        return autotuning.timed(site.run, fn, None, site.loc)

    @models("autotune")
    def autotune(
        self, site: Site, configs: Value = (), key: Value = None, prune_configs_by: Value = None, **options: Value
    ) -> Value:
        """The decorator of `@triton.autotune(configs, key, prune_configs_by)`."""
        return Decorator("autotune", configs=configs, prune=prune_configs_by)

    @models("heuristics")
    def heuristics(self, site: Site, values: Value = None, *rest: Value, **options: Value) -> Value:
        """The decorator of `@triton.heuristics(values)`."""
        return Decorator("heuristics", heuristics=values)

    @models("Config")
    def config(self, site: Site, kwargs: Value = None, *rest: Value, **options: Value) -> Value:
        """A configuration for an autotuner; its `pre_hook` is called with the arguments before each launch."""
        told = {**_OPTIONS, **dict(zip(_CONFIG, rest, strict=False)), **options}
        return Config(
            dict(kwargs) if isinstance(kwargs, dict) else {}, told.get("pre_hook"), {n: told[n] for n in _OPTIONS}
        )

    @models("cdiv")
    def ceil_div(self, site: Site, x: Value, y: Value) -> Value:
        """The value of `cdiv(x, y)`."""
        if isinstance(x, int) and isinstance(y, int) and y:
            return -(-x // y)
        return unknowns.merged(site.run, x, y)

    @models("next_power_of_2")
    def next_power_of_2(self, site: Site, n: Value) -> Value:
        """The value of `next_power_of_2(n)`."""
        return 1 << max(n - 1, 0).bit_length() if isinstance(n, int) else unknowns.merged(site.run, n)

    @models("constexpr")
    def constexpr(self, site: Site, value: Value) -> Value:
        """The value of a compile-time constant: `value` itself."""
        return value

    @models("get_current_target")
    def target(self, site: Site, *rest: Value, **options: Value) -> Value:
        """The value of `driver.active.get_current_target()`: an NVIDIA GPU of the target's generation."""
        site.run.note("capability-read", {}, site.loc)
        device = site.run.session.device
        found = {"backend": "cuda", "arch": 10 * device.major + device.minor, "warp_size": 32}
        return LibObject.by_path("triton.backends.compiler.GPUTarget", found)

    @models("from_tensor")
    def from_tensor(
        self, site: Site, tensor: Value, block_shape: Value = None, *rest: Value, **options: Value
    ) -> Value:
        """The value of `TensorDescriptor.from_tensor(tensor, block_shape)`."""
        if not isinstance(tensor, Tensor):
            return Unknown((), "a descriptor")
        _check_strides(site, tensor, tensor.strides or row_major(tensor.shape))
        return HostDescriptor(tensor, block_shape, tensor.shape, tensor.strides)

    @models("TensorDescriptor")
    def descriptor(self, site: Site, *given: Value, **named: Value) -> Value:
        """A descriptor of the tensor, or of the memory at the address, that is given."""
        tensors = tensor_arguments.tensors_in(site.args) or tensor_arguments.tensors_in(named)
        if tensors:
            told = dict(zip(("base", "shape", "strides", "block_shape"), given, strict=False)) | named
            block = told.get("block_shape", given[-1] if given else None)
            _check_strides(site, tensors[0], told.get("strides"))
            return HostDescriptor(tensors[0], block, told.get("shape"), told.get("strides"))
        pointer = site.run.tensor_at(given[0]) if given else None
        return HostDescriptor(pointer) if pointer is not None else Unknown((), "a descriptor")

    def other(self, site: Site) -> Value:
        """The result of any other function: those under `triton.tools` make descriptors, others an opaque object."""
        if site.path.startswith("triton.tools."):
            return self.descriptor(site, *site.args, **site.kwargs)
        if site.path in _SAME and len(site.args) == 1:
            return site.args[0]
        foreign.addressed(site.run, site.path, [*site.args, *site.kwargs.values()], site.loc)
        return super().other(site)

    def decorate(self, site: Site, decorator: Value, target: Value) -> Value:
        """The kernel for `@triton.jit`, `@triton.autotune(...)` or `@gluon.jit`; of the languages under `experimental`
        only Gluon is read."""
        if site.path in _JIT or isinstance(decorator, Decorator) and decorator.kind == "jit":
            return _kernel(site, target, site.path in _JIT)
        if isinstance(decorator, Decorator):
            return decorator.of(target) if isinstance(target, JitFunction) else target
        if site.path.startswith("triton.experimental.") and site.path not in _SAME:
            site.run.miss(f"a kernel in a language that is not read yet ({site.path})", site.loc)
            return UnreadKernel(site.path, target)
        return target

    def element_type(self, path: str) -> str | None:
        """The element type that a path such as `triton.language.bfloat16` names; None for other paths, such as those of
        functions that begin like a type."""
        root, _, name = path.rpartition(".")
        found = dtypes.from_triton(name) if root in ("triton.language", "triton.language.dtype") else None
        plain = not name.startswith(("i", "u", "b")) or name.startswith(("int", "uint", "bf"))
        return found if plain else None


def _check_strides(site: Site, tensor: Tensor, strides: Value) -> None:
    """A descriptor of a tensor whose rows do not begin at multiples of 16 bytes, or whose elements do not lie side by
    side, is an AssertionError (`triton.tools.tensor_descriptor`). What is not known of the strides counts as right."""
    known = list(strides) if isinstance(strides, (list, tuple)) else []
    bits = dtypes.BITS.get(tensor.dtype, 0)
    apart = [stride for stride in known[:-1] if isinstance(stride, int) and stride * bits % 128]
    if bits and (apart or known and isinstance(known[-1], int) and known[-1] != 1):
        site.run.fails("builtins.AssertionError", site.loc)


def _kernel(site: Site, target: Value, plain: bool) -> Value:
    if isinstance(target, Sym):
        return Sym(target.path.removesuffix(".fn"))  # the text of another's kernel, as of tl.sort, compiled again
    if not isinstance(target, Func):
        return target
    made = JitFunction(target, plain=plain)
    site.run.authored.append(made)
    return made


LIBRARY = Triton()
