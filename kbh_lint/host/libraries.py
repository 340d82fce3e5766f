"""Calls that leave the submission: torch outside tensors, triton's host side, the standard library, the unknown."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from kbh_lint import ir
from kbh_lint.host import bounds, builds, containers, driver, einops, modules, operators, torchlib, trace_nn
from kbh_lint.host.containers import builtin
from kbh_lint.host.objects import (
    Blob,
    Bound,
    ClassV,
    Compiled,
    Config,
    Configured,
    Extension,
    Graph,
    HostDescriptor,
    Instance,
    LibObject,
    Memo,
    Method,
    Partial,
)
from kbh_lint.host.tensors import Event, Tensor, Unknown
from kbh_lint.values import DType, Func, JitFunction, Sym

Handler = Callable[[Any, str, list[Any], dict[str, Any], "ir.Loc | None"], Any]


def call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Call a symbol by its full path."""
    path = modules.canonical(path)
    if path in modules.SNIFFED:
        interp.note("sniff", {"symbol": path, "what": modules.SNIFFED[path]}, loc)
        return Unknown((), f"sniff:{path}")
    handler = CALLS.get(path)
    if handler is None:
        root = path.split(".", 1)[0]
        for prefix, found in PREFIXES:
            if path.startswith(prefix):
                handler = found
                break
        else:
            handler = ROOTS.get(root, foreign)
    return handler(interp, path, args, kwargs, loc)


# --- torch -------------------------------------------------------------------------------------------------


def torch_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name in ("default", "out", "Tensor", "Scalar", "int", "overload") and path.startswith("torch.ops."):
        path = path.rsplit(".", 1)[0]
        name = path.rsplit(".", 1)[-1]
    if path.startswith("torch.ops.") and not path.startswith("torch.ops.aten."):
        own = interp.world.custom_ops.get(path.removeprefix("torch.ops."))
        own = own if own is not None else interp.world.custom_ops.get(name)
        if own is not None:
            return interp.call(own, args, kwargs, loc)
        if any(kind == "binary" for kind, _, _ in interp.notes):  # an operator that a prebuilt library registered
            return call_blob(interp, Blob(path, loc), args, kwargs, loc)
        return foreign(interp, path, args, kwargs, loc)
    tensors = torchlib.tensors_in(args) + torchlib.tensors_in(kwargs)
    if path.startswith("torch.nn.init."):
        return torchlib.fill(interp, "normal", args or [kwargs.get("tensor")], {}, loc)
    if path.startswith("torch.nn.") and not path.startswith("torch.nn.functional") and name[:1].isupper():
        return trace_nn.module(interp, path, args, kwargs, loc)
    if path.startswith("torch.Tensor.") and tensors:
        return call_method(interp, tensors[0], name, args[1:], kwargs, loc)
    base = name.rstrip("_")
    if base in torchlib.MAKERS or tensors:
        return torchlib.call(interp, path, args, kwargs, loc)
    if name[:1].isupper():
        return LibObject(path, {}, tuple(args), kwargs)
    return operators.merged(interp, *args, why=path)


def cuda_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    major, minor = interp.world.capability or (12, 0)
    if name in ("get_device_capability", "get_device_properties", "get_device_name"):
        interp.note("capability-read", {}, loc)
    values: dict[str, Any] = {
        "is_available": True, "current_device": 0, "device_count": 1, "get_device_capability": (major, minor),
        "is_bf16_supported": True, "get_device_name": "NVIDIA GPU",
        "is_current_stream_capturing": bool(interp.capturing),
        "is_initialized": True, "memory_allocated": 0, "mem_get_info": (80 << 30, 96 << 30), "synchronize": None,
        "empty_cache": None, "set_device": None, "init": None, "get_arch_list": [f"sm_{major}{minor}"],
    }  # fmt: skip
    if name in values:
        return values[name]
    if name == "get_device_properties":
        return LibObject("torch.cuda.DeviceProperties", {
            "multi_processor_count": {9: 132, 10: 148, 12: 188}.get(major, 132), "major": major, "minor": minor,
            "name": "NVIDIA GPU", "total_memory": 96 << 30, "L2_cache_size": 96 << 20, "warp_size": 32,
            "max_threads_per_multi_processor": 2048, "shared_memory_per_block_optin": 227 * 1024,
            "shared_memory_per_multiprocessor": 228 * 1024, "regs_per_multiprocessor": 65536,
        })  # fmt: skip
    if name == "CUDAGraph":
        return Graph()
    if name == "_compile_kernel":
        return builds.raw_kernel(interp, args, kwargs, loc)
    if name == "make_graphed_callables":
        return args[0] if args else Unknown()
    return LibObject(path, {}, tuple(args), kwargs)


def t_parameter(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    tensor = args[0] if args else kwargs.get("data")
    if not isinstance(tensor, Tensor):
        return tensor
    made = torchlib.alias(tensor, tensor.shape, tensor.strides)
    made.parameter = True
    return made


def t_compile(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    target = args[0] if args else kwargs.get("model")
    if target is None or isinstance(target, str):
        return LibObject("torch.compile.decorator")
    interp.note("torch-compile", {}, loc)
    return Compiled(target, loc)


def t_device(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return torchlib.device(torchlib.device_of(args[0]) if args else "cuda")


def t_backend(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args:
        interp.note("backend-state", {"symbol": path, "value": containers.show(args[0])[:40]}, loc)
    return LibObject(path)


def t_context(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    if args and isinstance(args[0], (Func, Bound)):
        return args[0]
    return LibObject(path, {}, tuple(args), kwargs)


def t_seed(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return LibObject("torch.Generator")


def t_finfo(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    limits = {
        "e4m3": 448.0,
        "e5m2": 57344.0,
        "bf16": 3.3895e38,
        "f16": 65504.0,
        "f32": 3.4028e38,
        "f64": 1.797e308,
        "i8": 127,
        "i32": 2**31 - 1,
        "i64": 2**63 - 1,
        "u8": 255,
    }
    name = args[0].name if args and isinstance(args[0], DType) else "f32"
    top = limits.get(name, 1.0)
    return LibObject(path, {"max": top, "min": -top, "eps": 1e-7, "tiny": 1e-38, "bits": 8, "smallest_normal": 1e-38})


def t_library(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """torch.library: an operator of the submission under a name of its own, `ns::name` called as torch.ops.ns.name."""
    name = path.rsplit(".", 1)[-1]
    if name == "Library":
        return LibObject(path, {"namespace": containers.show(args[0]) if args else ""})
    label = next((str(a) for a in args if isinstance(a, str) and "::" in a), "").partition("(")[0].replace("::", ".")
    given = next((a for a in [*args, *kwargs.values()] if isinstance(a, (Func, Bound, Partial))), None)
    if name in ("custom_op", "triton_op", "impl") and label:
        if given is None:
            return LibObject("torch.library.decorator", {"name": label})
        interp.world.custom_ops[label] = given
        return given
    return LibObject(path, {}, tuple(args), kwargs)


def t_load(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    interp.note("unpickle", {"symbol": path}, loc)
    return Unknown((), path)


# --- triton ------------------------------------------------------------------------------------------------


def triton_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    numbers = [a for a in args if isinstance(a, int)]
    if name == "cdiv" and len(numbers) == 2 and numbers[1]:
        return -(-numbers[0] // numbers[1])
    if name == "next_power_of_2" and numbers:
        return 1 << max(numbers[0] - 1, 0).bit_length()
    if name in ("Config",):
        return Config(dict(args[0]) if args and isinstance(args[0], dict) else dict(kwargs.get("kwargs", {})))
    if name == "jit":
        if args:
            return decorate(interp, Sym("triton.jit"), args[0], loc)
        return LibObject("triton.decorator", {"kind": "jit"})
    if name == "autotune":
        configs = kwargs.get("configs", args[0] if args else [])
        return LibObject("triton.decorator", {"kind": "autotune", "configs": configs})
    if name == "heuristics":
        return LibObject(
            "triton.decorator", {"kind": "heuristics", "values": args[0] if args else kwargs.get("values", {})}
        )
    if name == "from_tensor":
        return HostDescriptor(args[0], args[1] if len(args) > 1 else kwargs.get("block_shape"))
    if name == "TensorDescriptor" or path.startswith("triton.tools."):
        tensors = torchlib.tensors_in(args) or torchlib.tensors_in(kwargs)
        if tensors:
            return HostDescriptor(tensors[0], kwargs.get("block_shape", args[-1] if args else None))
        pointer = interp.tensor_at(args[0]) if args else None
        return HostDescriptor(pointer) if pointer is not None else Unknown((), "a descriptor")
    if name in ("do_bench", "do_bench_cudagraph"):
        if args:
            interp.call(args[0], [], {}, loc)
        return 1.0
    if name == "constexpr" and args:
        return args[0]
    if name in ("cdiv", "next_power_of_2"):
        return operators.merged(interp, *args)
    if path.startswith("triton.experimental.gluon") and name == "jit":
        return decorate(interp, Sym(path), args[0], loc) if args else LibObject("triton.decorator", {"kind": "gluon"})
    return LibObject(path, {}, tuple(args), kwargs)


def decorate(interp: Any, decorator: Any, target: Any, loc: ir.Loc | None) -> Any:
    """`@decorator` over a function or class."""
    path = getattr(decorator, "path", "")
    if path == "triton.jit" or path == "triton.decorator" and decorator.attrs["kind"] == "jit":
        return JitFunction(target) if isinstance(target, Func) else target
    if path == "triton.decorator":
        return _triton_decorator(interp, decorator, target)
    if path.startswith("triton.experimental.gluon") or path.startswith(("tilelang", "cutlass.cute", "pallas", "jax")):
        interp.miss(f"a kernel in a language that is not read yet ({path})", loc)
        return LibObject("unread.kernel", {"name": path, "func": target})
    if path in ("torch.compile", "torch.compile.decorator", "torch.jit.script", "torch.jit.trace"):
        interp.note("torch-compile", {}, loc)
        return Compiled(target, loc)
    if path in ("property", "builtins.property", "functools.cached_property"):
        return LibObject("property", {"fget": target, "fset": None})
    if path in ("builtins.staticmethod", "builtins.classmethod"):
        return LibObject(path.rsplit(".", 1)[-1], {"func": target})
    if isinstance(decorator, Method) and isinstance(decorator.self, LibObject) and decorator.self.path == "property":
        decorator.self.attrs["fset" if decorator.name == "setter" else decorator.name] = target
        return decorator.self
    if path in ("functools.lru_cache", "functools.cache", "functools.lru_cache.decorator"):
        return Memo(target)
    if path.startswith("dataclasses.dataclass") and isinstance(target, ClassV):
        target.dataclass = True
        return target
    if isinstance(decorator, (Func, Bound, Partial, Instance, ClassV)):
        return interp.call(decorator, [target], {}, loc)
    if path == "torch.library.decorator":
        interp.world.custom_ops[decorator.attrs["name"]] = target
    return target


def _triton_decorator(interp: Any, decorator: LibObject, target: Any) -> Any:
    if decorator.attrs["kind"] == "gluon":
        interp.miss("a Gluon kernel is not read yet", None)
        return LibObject("unread.kernel", {"name": "gluon", "func": target})
    if not isinstance(target, JitFunction):
        return target
    made = JitFunction(target.func, list(target.configs), dict(target.heuristics))
    if decorator.attrs["kind"] == "autotune":
        configs = decorator.attrs["configs"]
        made.configs = [c.kwargs for c in configs if isinstance(c, Config)] if isinstance(configs, list) else []
    else:
        values = decorator.attrs["values"]
        made.heuristics.update(values if isinstance(values, dict) else {})
    return made


# --- the standard library ----------------------------------------------------------------------------------


def functools_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name == "partial" and args:
        return Partial(args[0], tuple(args[1:]), kwargs)
    if name in ("lru_cache", "cache"):
        if args and isinstance(args[0], (Func, Bound, ClassV)):
            return Memo(args[0])
        return LibObject("functools.lru_cache.decorator")
    if name == "wraps":
        return builtin(lambda i, a, k, where: a[0])
    if name == "reduce" and len(args) > 1:
        items = list(operators.iterate(interp, args[1], loc))
        total = args[2] if len(args) > 2 else items.pop(0) if items else None
        for item in items:
            total = interp.call(args[0], [total, item], {}, loc)
        return total
    if name == "cached_property" and args:
        return LibObject("property", {"fget": args[0], "fset": None})
    return Unknown((), path)


def operator_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """operator: getters become functions, operators are what they are in code."""
    name = path.rsplit(".", 1)[-1]
    if name == "attrgetter" and len(args) == 1 and isinstance(args[0], str):
        return builtin(lambda i, a, k, where: _attribute_path(i, a[0], args[0], where))
    if name == "itemgetter" and len(args) == 1:
        return builtin(lambda i, a, k, where: operators.get_item(i, a[0], args[0], where))
    if name == "methodcaller" and args:
        called, rest = containers.show(args[0]), args[1:]
        return builtin(lambda i, a, k, where: i.call(i.world.get_attr(i, a[0], called, where), rest, kwargs, where))
    if name in _OPERATORS and len(args) == 2:
        return operators.binary(interp, _OPERATORS[name], args[0], args[1], loc)
    return unknown_call(interp, path, args, kwargs, loc)


_OPERATORS = {"matmul": "@", "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"}


def _attribute_path(interp: Any, owner: Any, names: str, loc: ir.Loc | None) -> Any:
    for name in names.split("."):
        owner = interp.world.get_attr(interp, owner, name, loc)
    return owner


def itertools_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    import itertools

    name = path.rsplit(".", 1)[-1]
    if name == "count":
        return range(args[0] if args and isinstance(args[0], int) else 0, containers.MAX_RANGE)
    rows = [list(operators.materialise(interp, a, loc)) if not isinstance(a, (int, Func)) else a for a in args]
    if name in ("product", "chain", "zip_longest", "permutations", "combinations", "islice", "pairwise"):
        repeat = {"repeat": kwargs["repeat"]} if isinstance(kwargs.get("repeat"), int) and kwargs["repeat"] < 8 else {}
        # an item is as wide as there are rows, or as the one row that is permuted
        wide = 8 * max(len(rows), *(len(r) for r in rows[:1] if isinstance(r, list) and name.endswith("tions")), 1)
        return bounds.visited(
            interp, list(itertools.islice(getattr(itertools, name)(*rows, **repeat), bounds.MAX_ITEMS // wide))
        )
    if name == "from_iterable" and isinstance(rows[0], list):
        return [x for row in rows[0] for x in operators.materialise(interp, row, loc)]
    return Unknown((), path)


def collections_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name == "defaultdict":
        return {"__default_factory__": args[0]} if args else {}
    if name in ("OrderedDict", "Counter", "WeakValueDictionary", "WeakKeyDictionary"):
        return dict(bounds.visited(interp, args[0])) if args and isinstance(args[0], dict) else {}
    if name == "deque":
        return list(operators.iterate(interp, args[0], loc)) if args else []
    if name == "namedtuple" and len(args) > 1:
        fields = args[1].replace(",", " ").split() if isinstance(args[1], str) else list(args[1])
        return LibObject("collections.namedtuple", {"fields": fields})
    return LibObject(path, {}, tuple(args), kwargs)


def weakref_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A weak reference gives its object when it is called; nothing dies between the calls that are followed."""
    name = path.rsplit(".", 1)[-1]
    if name.endswith("Dictionary"):
        return {}
    if name in ("ref", "WeakMethod") and args:
        target = args[0]
        return builtin(lambda *_: target)
    return first(interp, path, args, kwargs, loc)


def os_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    text = [containers.show(a) for a in args if not isinstance(a, Unknown)]
    if name == "join":
        out = ""
        for part in text:
            out = part if part.startswith("/") or not out else f"{out}/{part}"
        return out
    if name == "dirname" and text:
        return text[0].rpartition("/")[0]
    if name == "basename" and text:
        return text[0].rpartition("/")[2]
    if name == "splitext" and text:
        stem, dot, ext = text[0].rpartition(".")
        return (stem, dot + ext) if dot else (text[0], "")
    if name in ("abspath", "realpath", "expanduser", "normpath", "fspath", "expandvars") and text:
        return text[0]
    if name in ("exists", "isfile", "isdir", "islink", "access") and text:
        return builds.exists(interp, text[0])
    if name in ("getenv",):
        return environment(interp, "get", args, kwargs, loc)
    if name in ("getpid", "getuid", "cpu_count", "getcwd"):
        return {"getcwd": "/submission"}.get(name, 8)
    if name in ("makedirs", "mkdir", "remove", "unlink", "rename", "replace", "chmod", "putenv", "unsetenv", "close"):
        return None
    if name in ("system", "popen"):
        builds.process(interp, path, args, kwargs, loc)
        return 0 if name == "system" else Unknown((), path)
    if name in ("_exit", "abort", "kill", "fork", "execv"):
        interp.note("process-control", {"symbol": path}, loc)
        return Unknown((), path)
    return Unknown((), path)


def environment(interp: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """os.environ: a clean environment, so what is asked for is not set."""
    if name in ("get", "pop", "getenv"):
        interp.note("env-read", {"name": containers.show(args[0])[:60] if args else ""}, loc)
        return args[1] if len(args) > 1 else kwargs.get("default")
    if name == "setdefault" and len(args) > 1:
        return args[1]
    return None


def sys_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name == "exit":
        interp.note("process-control", {"symbol": path}, loc)
    return Unknown((), path)


def importlib_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    name = path.rsplit(".", 1)[-1]
    if name in ("import_module", "__import__") and args and isinstance(args[0], str):
        target = str(args[0])
        return modules.resolve(
            interp, target if name == "import_module" or kwargs.get("fromlist") else target.split(".")[0], loc
        )
    if name == "module_from_spec":
        return args[0] if args else Unknown()
    if name in ("spec_from_file_location", "find_spec"):
        return LibObject("importlib.spec", {"args": tuple(args), "path": containers.show(args[-1]) if args else ""})
    return Unknown((), path)


def copy_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    value = args[0] if args else None
    if isinstance(value, (list, dict, set)):
        return bounds.visited(interp, value).copy()
    if isinstance(value, Tensor):
        return torchlib.contiguous(interp, "clone", [value], {}, loc)
    return value


def plain(value: Any) -> Handler:
    """A call that always gives the same."""
    return lambda interp, path, args, kwargs, loc: value


def unknown_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A harmless call whose result is not known."""
    return operators.merged(interp, *args, why=path)


def first(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A wrapper that gives back what it is given."""
    return args[0] if args else LibObject(path)


def made(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """An object of a library class."""
    return LibObject(path, {}, tuple(args), kwargs)


def text_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    from kbh_lint.source import embedded

    if args and isinstance(args[0], str):
        return embedded.dedent(args[0]) if path.endswith("dedent") else args[0]
    return unknown_call(interp, path, args, kwargs, loc)


def descriptor_call(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    return LibObject(
        path.rsplit(".", 1)[-1],
        {
            "func": args[0] if args else None,
            "fget": args[0] if args else None,
            "fset": args[1] if len(args) > 1 else None,
        },
    )


def foreign(interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A library this analysis knows nothing of: it may compute whatever it is given."""
    inputs = torchlib.tensors_in(args) + torchlib.tensors_in(kwargs)
    if path.startswith(UNREAD_LANGUAGES):
        return unread_language(interp, path, args, kwargs, inputs, loc)
    if not inputs:
        return LibObject(path, {}, tuple(args), kwargs)
    interp.note("symbol", {"symbol": path, "spelled": "call", "layer": "python"}, loc)
    event = torchlib.record(
        interp,
        "library",
        path,
        loc,
        inputs,
        {"symbol": path, "foreign": True, "operands": tuple(t.dtype for t in inputs)},
    )
    for tensor in inputs:
        if tensor.storage.content.label == "empty":
            torchlib.write(interp, tensor, event)
    return torchlib.make(interp, None, inputs[0].dtype, event=event)


UNREAD_LANGUAGES = ("cutlass", "tilelang", "numba", "taichi", "warp", "pallas", "helion", "tvm", "triton.experimental")


def unread_language(
    interp: Any, path: str, args: list[Any], kwargs: dict[str, Any], inputs: list[Tensor], loc: ir.Loc | None
) -> Any:
    """A kernel language without a front end: what builds a kernel gives one, what runs it is a hole in the trace."""
    builds_kernel = any(isinstance(a, (Func, Bound)) or getattr(a, "path", "") == "unread.kernel" for a in args)
    if builds_kernel or not inputs:
        return LibObject("unread.kernel" if builds_kernel else path, {"name": path})
    if path.rsplit(".", 1)[-1] in ("from_dlpack", "make_ptr", "mark_layout_dynamic"):
        return inputs[0]
    return unread_call(interp, path, inputs, loc)


def unread_call(interp: Any, name: str, inputs: list[Tensor], loc: ir.Loc | None) -> Any:
    """Something unreadable runs on tensors: it may fill every buffer that holds nothing yet."""
    interp.miss(f"{name} could not be read", loc)
    event = torchlib.record(interp, "unread", name, loc, inputs)
    for tensor in inputs:
        if tensor.storage.content.label in ("empty", "constant"):
            torchlib.write(interp, tensor, event)
    return torchlib.make(interp, None, "?", event=event)


# --- objects -----------------------------------------------------------------------------------------------


def object_attr(interp: Any, owner: LibObject, name: str, loc: ir.Loc | None) -> Any:
    """An attribute of an object a library made."""
    if owner.path == "pathlib.Path":
        text = str(owner.attrs["path"])
        known = {
            "name": text.rpartition("/")[2],
            "parent": interp.world.path(text.rpartition("/")[0] or "."),
            "stem": text.rpartition("/")[2].rpartition(".")[0],
        }
        if name in known:
            return known[name]
        return Method(owner, name)
    if name in owner.attrs:
        return owner.attrs[name]
    if owner.path in ("super", "os.environ", "property", "module", "functools.lru_cache.decorator"):
        if owner.path == "super":
            return trace_nn.super_attr(interp, owner, name)
        return Method(owner, name)
    if owner.path.startswith("torch.nn."):
        return trace_nn.module_attr(interp, owner, name)
    if owner.path == "torch.device" and name in ("type", "index"):
        return {"type": "cuda", "index": 0}[name]
    if name == "cuda_stream":
        return 0
    return Method(owner, name)


def call_object(interp: Any, owner: LibObject, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Call an object a library made."""
    if owner.path.startswith("torch.nn."):
        return trace_nn.apply(interp, owner, args, kwargs, loc)
    if owner.path in ("triton.decorator", "torch.compile.decorator", "functools.lru_cache.decorator") and args:
        return decorate(interp, owner, args[0], loc)
    if owner.path == "collections.namedtuple":
        cls = LibObject("namedtuple", {"items": list(args)})
        cls.attrs.update(zip(owner.attrs["fields"], args, strict=False))
        cls.attrs.update(kwargs)
        return cls
    if owner.path == "ctypes.array":
        return driver.array(owner, args)
    if owner.path == "raw.kernel":
        return builds.call_raw(interp, owner, args, kwargs, loc)
    if owner.path == "unread.kernel":
        inputs = torchlib.tensors_in(args) + torchlib.tensors_in(kwargs)
        return unread_call(interp, f"a kernel in {owner.attrs['name']}", inputs, loc) if inputs else owner
    if args and isinstance(args[0], (Func, Bound, ClassV)) and not torchlib.tensors_in(args):
        return args[0]
    return foreign(interp, owner.path, args, kwargs, loc)


def call_method(interp: Any, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Call a method of a value that is not of the submission."""
    if name in operators.DUNDERS and args and not isinstance(owner, (Instance, LibObject)):
        return operators.dunder(interp, owner, name, args[0], loc)
    if name in ("__getattr__", "__getattribute__") and args and not isinstance(owner, (Instance, LibObject)):
        return interp.world.get_attr(interp, owner, str(args[0]), loc)
    if isinstance(owner, Tensor):
        if name == "__getitem__":
            return torchlib.index(interp, owner, args[0], loc)
        if name in ("backward", "retain_grad", "register_hook", "share_memory_", "pin_memory", "record_stream"):
            return owner if name == "pin_memory" else None
        if name in ("__dlpack__", "__cuda_array_interface__"):
            return owner
        return torchlib.call(interp, f"torch.Tensor.{name}", [owner, *args], kwargs, loc)
    if owner is interp.builtins.get("str") and args and isinstance(args[0], str):
        owner, args = args[0], args[1:]  # str.encode(text)
    if isinstance(owner, str):
        return containers.string_method(interp, owner, name, args, kwargs)
    if isinstance(owner, list):
        return containers.list_method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, dict):
        return containers.dict_method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, (set, frozenset)):
        return containers.set_method(interp, set(owner) if isinstance(owner, frozenset) else owner, name, args, loc)
    if isinstance(owner, (int, float)) and name in ("bit_length", "is_integer", "bit_count", "conjugate"):
        return getattr(owner, name)()
    if isinstance(owner, (tuple, range)) and name in ("index", "count"):
        return getattr(owner, name)(*args) if args and args[0] in owner else 0
    if isinstance(owner, tuple) and name == "numel":
        from kbh_lint.host.tensors import product

        return product(owner)
    if isinstance(owner, bytes) and name == "decode":
        return owner.decode("utf-8", "replace")
    if isinstance(owner, (JitFunction, Configured)):
        return interp.world_launches.method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, Graph):
        return graph_method(interp, owner, name, args, loc)
    if isinstance(owner, Instance):
        return trace_nn.instance_method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, LibObject):
        return object_method(interp, owner, name, args, kwargs, loc)
    if isinstance(owner, DType) and name == "to":
        return owner
    if isinstance(owner, HostDescriptor):
        return owner
    return operators.merged(interp, owner, *args, why=f"{type(owner).__name__}.{name}")


def graph_method(interp: Any, owner: Graph, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """capture_begin, capture_end and replay of a CUDA graph."""
    if name == "capture_begin":
        owner.events = []
        interp.capturing.append(owner)
    elif name == "capture_end":
        if owner in interp.capturing:
            interp.capturing.remove(owner)
    elif name == "replay":
        replay(interp, owner, loc)
    return None


def replay(interp: Any, graph: Graph, loc: ir.Loc | None) -> None:
    """What was captured happens again, on what the same memory holds now."""
    for old in list(graph.events):
        event = Event(
            old.kind, old.name, old.loc, [(t.storage.content, t) for _, t in old.reads], attrs=dict(old.attrs)
        )
        event.attrs["replayed"] = True
        interp.emit(event)
        if loc is not None:
            event.stack = (*event.stack, loc)
        now = {before.ident: tensor.storage.content for before, tensor in old.reads}
        for content in old.writes:
            target = Tensor(content.storage, content.dtype, None)
            flow = old.flows.get(content.ident) if old.flows is not None else None
            torchlib.write(interp, target, event, dtype=content.dtype)
            if flow is not None:
                event.flows = event.flows or {}
                event.flows[content.storage.content.ident] = [now.get(c.ident, c) for c in flow]


def object_method(
    interp: Any, owner: LibObject, name: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None
) -> Any:
    if owner.path == "pathlib.Path":
        return builds.path_method(interp, owner, name, args, kwargs, loc)
    if owner.path == "file":
        return builds.file_method(interp, owner, name, args, loc)
    if owner.path == "os.environ":
        return environment(interp, name, args, kwargs, loc)
    if owner.path == "ctypes.system":
        return driver.call(interp, name, args, loc)
    if owner.path == "torch.UntypedStorage":
        return owner.attrs["tensor"].storage.address if name == "data_ptr" else Unknown((), name)
    if owner.path == "torch.library.Library" and name == "impl" and len(args) > 1:
        short = containers.show(args[0]).rpartition("::")[2]
        interp.world.custom_ops[f"{owner.attrs['namespace']}.{short}"] = args[1]
        return None
    if owner.path == "property" and name == "setter":
        return Method(owner, "setter")
    if owner.path == "importlib.spec":
        return None
    if owner.path.startswith("torch.nn."):
        return trace_nn.object_method(interp, owner, name, args, kwargs, loc)
    if owner.path == "super":
        return trace_nn.instance_method(interp, owner.attrs["self"], name, args, kwargs, loc)
    if owner.path == "raw.module" and name in ("get_function", "get_kernel"):
        return LibObject("raw.kernel", {"extension": owner.attrs["extension"], "name": str(args[0])})
    inputs = torchlib.tensors_in(args) + torchlib.tensors_in(kwargs)
    if inputs and not owner.path.startswith(("torch.cuda", "torch.Stream")):
        return foreign(interp, f"{owner.path}.{name}", args, kwargs, loc)
    return LibObject(f"{owner.path}.{name}", {}, tuple(args), kwargs)


def items_of(value: LibObject) -> list[Any] | None:
    """The items of a container object."""
    items = value.attrs.get("items")
    return list(items) if isinstance(items, (list, dict, tuple)) else None


def get_item(interp: Any, owner: Any, key: Any, loc: ir.Loc | None) -> Any:
    """owner[key] for library containers."""
    if isinstance(owner, LibObject):
        if owner.path == "os.environ":
            interp.note("env-read", {"name": containers.show(key)[:60]}, loc)
            interp.world.raise_(interp, "KeyError", [key], loc)
        items = owner.attrs.get("items")
        if isinstance(items, (list, dict)):
            return operators.get_item(interp, items, key, loc)
        if owner.path == "unread.kernel":
            return owner
    if isinstance(owner, Extension):
        return interp.world.get_attr(interp, owner, str(key), loc)
    if isinstance(owner, Sym) and owner.path.endswith(".__dict__") and isinstance(key, str):
        return modules.resolve(interp, f"{owner.path.removesuffix('.__dict__')}.{key}", loc)
    if isinstance(owner, (Sym, ClassV, LibObject)):
        return owner  # a subscripted type
    return operators.merged(interp, owner, key)


def set_item(interp: Any, owner: Any, key: Any, value: Any, loc: ir.Loc | None) -> None:
    """owner[key] = value for library containers."""
    if isinstance(owner, LibObject) and isinstance(owner.attrs.get("items"), (list, dict)):
        owner.attrs["items"][key] = value


def call_blob(interp: Any, func: Blob, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """A function of machine code without source: it may read and write every tensor and address it is given."""
    inputs = torchlib.tensors_in(args) + [t for t in map(interp.tensor_at, args) if t is not None]
    event = torchlib.record(interp, "blob", func.path, loc, inputs, {"symbol": func.path})
    for tensor in inputs:
        torchlib.write(interp, tensor, event)
    return torchlib.make(interp, None, inputs[0].dtype, event=event) if inputs else Unknown((), "machine code")


def call_unknown(interp: Any, func: Unknown, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Something unknown is called; with tensors, that is a hole in the trace."""
    inputs = torchlib.tensors_in(args) + torchlib.tensors_in(kwargs)
    if not inputs:
        return operators.merged(interp, func, *args, why=func.why)
    return unread_call(interp, func.why or "an unknown function", inputs, loc)


ROOTS: dict[str, Handler] = {
    "cuda": driver.bindings,
    "torch": torch_call, "einops": einops.call, "triton": triton_call, "functools": functools_call,
    "itertools": itertools_call,
    "collections": collections_call, "os": os_call, "sys": sys_call, "importlib": importlib_call, "copy": copy_call,
    "math": lambda i, p, a, k, loc: containers.math_call(i, p.rsplit(".", 1)[-1], a),
    "time": unknown_call, "warnings": plain(None), "typing": first, "types": made, "contextlib": t_context,
    "textwrap": text_call, "hashlib": unknown_call, "tempfile": builds.temporary, "subprocess": builds.process,
    "inspect": unknown_call, "threading": made, "gc": plain(None), "logging": made, "json": unknown_call,
    "re": unknown_call, "numpy": torch_call, "builtins": unknown_call, "atexit": plain(None), "dataclasses": made,
    "enum": first, "abc": first, "platform": unknown_call, "traceback": unknown_call, "random": unknown_call,
    "operator": operator_call, "shutil": unknown_call, "string": unknown_call, "ctypes": builds.ctypes_call,
    "pathlib": builds.path_call, "glob": unknown_call, "weakref": weakref_call, "struct": unknown_call,
    "uuid": unknown_call,
}  # fmt: skip

PREFIXES: tuple[tuple[str, Handler], ...] = (
    ("torch.cuda.graph", made), ("torch.cuda.", cuda_call), ("torch.backends.", t_backend),
    ("torch.utils.cpp_extension.", builds.extension_call), ("torch._dynamo", t_context), ("torch._inductor", made),
    ("torch.utils.", made), ("torch.version", made), ("torch._C._cuda_", plain(0)), ("torch.profiler", made),
    ("torch.library.", t_library), ("torch.distributed", made),
)  # fmt: skip

CALLS: dict[str, Handler] = {
    "torch.nn.Parameter": t_parameter, "torch.nn.parameter.Parameter": t_parameter, "torch.nn.Buffer": first,
    "torch.compile": t_compile, "torch.jit.script": t_compile, "torch.device": t_device,
    "torch.set_float32_matmul_precision": t_backend, "torch.use_deterministic_algorithms": t_backend,
    "torch.set_default_dtype": t_backend, "torch.set_default_device": t_backend,
    "torch.no_grad": t_context, "torch.inference_mode": t_context, "torch.enable_grad": t_context,
    "torch.set_grad_enabled": t_context, "torch.autocast": t_context, "torch.manual_seed": t_seed,
    "torch.cuda.manual_seed": t_seed, "torch.cuda.manual_seed_all": t_seed, "torch.finfo": t_finfo,
    "torch.iinfo": t_finfo, "torch.load": t_load,
    "torch.is_tensor": lambda i, p, a, k, loc: isinstance(a[0], Tensor),
    "torch.is_grad_enabled": plain(False), "torch.ops.load_library": builds.load_library, "torch.Size": first,
    "torch.classes.load_library": builds.load_library, "torch.get_num_threads": plain(8),
    "builtins.open": builds.open_file,
    "builtins.__import__": importlib_call, "builtins.property": descriptor_call,
    "builtins.staticmethod": descriptor_call,
    "builtins.classmethod": descriptor_call, "builtins.memoryview": first,
    "builtins.slice": lambda i, p, a, k, loc: slice(*a),
    "builtins.compile": unknown_call, "builtins.delattr": plain(None), "builtins.input": unknown_call,
    "torch.promote_types": first, "cupy.RawKernel": builds.raw_kernel_cupy, "cupy.RawModule": builds.raw_module,
}  # fmt: skip
for _name, _value in vars(builtins).items():
    if isinstance(_value, type) and issubclass(_value, BaseException):
        CALLS[f"builtins.{_name}"] = lambda i, p, a, k, loc: LibObject(p, {"args": tuple(a)})
