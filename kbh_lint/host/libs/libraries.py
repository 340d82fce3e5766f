"""Calls that leave the submission: torch outside tensors, kernel languages, the standard library, the unknown."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.host.datamodel import elapsed, modules, shown
from kbh_lint.host.effects import artifacts, foreign, outside, saved, tampering
from kbh_lint.host.libs import (
    autotuning,
    custom_ops,
    driver,
    einops,
    extensions,
    lib_torch,
    wrappers,
)
from kbh_lint.host.libs.plain import Decorating, Giving, Passing, Unfollowed
from kbh_lint.host.libs.stdlib import (
    builtins,
    coding,
    collections,
    copying,
    ctypes,
    dataclasses,
    enum,
    files,
    functools,
    importlib,
    itertools,
    math,
    mock,
    operator,
    ordered,
    os,
    re,
    struct,
    subprocess,
    sys,
    textwrap,
    threads,
    timeit,
    types,
    weakref,
)
from kbh_lint.host.python import coroutines, module_calls
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import Handler
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def call(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    """Call a symbol by its full path. What is not known of the result is at least what gave it."""
    made = _answer(interp, path, args, kwargs, loc)
    if isinstance(made, Unknown) and not made.origin and not made.contents:
        return replace(made, origin=path)
    return made


def _answer(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    path = modules.canonical(path)
    outside.touch(interp, path, args, kwargs, loc)
    tampering.called(interp, path, args, kwargs, loc)
    if path in taint.CALLED and not (taint.CALLED[path] == taint.CAPTURE and interp.capturing):
        return taint.asked(interp, path, taint.CALLED[path], loc)
    if path in taint.CLOCKS:
        clock = taint.clock(interp)
        return elapsed.Reading(why=clock.why, taint=clock.taint, at=len(interp.trace.events))
    if path in artifacts.COPIES and len(args) > 1:
        artifacts.copied(interp, *(shown.show(a) for a in args[:2]))
        saved.copied(interp, *args[:2])
    if path.startswith(("numpy.", "statistics.")) and (told := autotuning.statistic(path, args)) is not NotImplemented:
        return told
    saved.hand(interp, path, args, kwargs)
    if path in saved.VALUE_THEN_FILE or path in saved.FILE_THEN_VALUE:
        saved.save(interp, path, args, kwargs, loc)
    elif path in saved.LOADERS and (held := saved.load(interp, path, args, kwargs, loc)) is not None:
        return held
    handler = CALLS.get(path)
    if handler is None:
        handler = _by_prefix(path)
        if handler is None:
            row = registry.of_path(path)
            handler = ROOTS.get(path.split(".", 1)[0], foreign.foreign) if row is None else row.library
    if isinstance(handler, Library):
        return handler.call(Site(interp, path, loc, args, kwargs))
    return handler(interp, path, args, kwargs, loc)


@lru_cache(maxsize=4096)
def _by_prefix(path: str) -> Handler | Library | None:
    return next((handler for prefix, handler in PREFIXES if path.startswith(prefix)), None)


ROOTS: dict[str, Handler | Library] = {
    "cuda": driver.bindings,
    "torch": lib_torch.torch_call,
    "einops": einops.call,
    "functools": functools.Functools(),
    "itertools": itertools.Itertools(),
    "collections": collections.Collections(),
    "asyncio": coroutines.Asyncio(),
    "os": os.Os(),
    "sys": sys.Sys(),
    "importlib": importlib.Importlib(),
    "copy": copying.Copy(),
    "pickle": copying.Pickle(),
    "math": math.Math(),
    "time": Unfollowed(),
    "warnings": Giving(None),
    "typing": types.Typing(),
    "types": types.Types(),
    "contextlib": threads.Contextlib(),
    "textwrap": textwrap.Textwrap(),
    "hashlib": Unfollowed(),
    "tempfile": files.Tempfile(),
    "subprocess": subprocess.Subprocess(),
    "inspect": Unfollowed(),
    "threading": threads.Threading(),
    "gc": Giving(None),
    "logging": Library(),
    "json": coding.Json(),
    **dict.fromkeys(("base64", "zlib", "gzip", "bz2", "lzma", "binascii", "codecs", "marshal"), coding.Decoders()),
    "re": re.Re(),
    "numpy": lib_torch.numpy_call,
    "builtins": builtins.Builtins(),
    "atexit": Giving(None),
    "dataclasses": dataclasses.Dataclasses(),
    "heapq": ordered.Ordered(),
    "bisect": ordered.Ordered(),
    "enum": enum.Enum(),
    "abc": Passing(),
    "platform": Unfollowed(),
    "traceback": Unfollowed(),
    "random": Unfollowed(),
    "operator": operator.Operator(),
    "shutil": Unfollowed(),
    "string": Unfollowed(),
    "ctypes": ctypes.Ctypes(),
    "pathlib": files.Pathlib(),
    "glob": files.Glob(),
    "weakref": weakref.Weakref(),
    "struct": struct.Struct(),
    "uuid": Unfollowed(),
    "timeit": timeit.Timeit(),
    "concurrent": threads.Concurrent(),
    "_thread": threads.PlainThreads(),
    **dict.fromkeys(("unittest", "mock"), mock.Mock()),
}


PREFIXES: tuple[tuple[str, Handler | Library], ...] = (
    ("torch.cuda.graph", Library()),
    ("torch.cuda.", lib_torch.cuda_call),
    ("torch.backends.", lib_torch.t_backend),
    ("torch.utils.cpp_extension.", extensions.extension_call),
    ("torch._dynamo", Decorating()),
    ("torch._inductor", Library()),
    ("torch.utils.weak.", weakref.Weakref()),
    ("torch.utils.", Library()),
    ("torch.version", Library()),
    ("torch._C._cuda_", Giving(0)),
    ("torch.profiler", Library()),
    ("torch.library.", custom_ops.library_call),
    ("torch.distributed", Library()),
)


CALLS: dict[str, Handler | Library] = {
    **wrappers.CALLS,
    "torch.nn.Parameter": lib_torch.t_parameter,
    "torch.nn.parameter.Parameter": lib_torch.t_parameter,
    "torch.nn.Buffer": Passing(),
    "torch.compile": lib_torch.t_compile,
    **dict.fromkeys(module_calls.FOR_ALL, module_calls.register_for_all),
    "torch.cond": lib_torch.t_cond,
    "torch.jit.script": lib_torch.t_compile,
    "torch.device": lib_torch.t_device,
    "torch.set_float32_matmul_precision": lib_torch.t_backend,
    "torch.use_deterministic_algorithms": lib_torch.t_backend,
    "torch.set_default_dtype": lib_torch.t_backend,
    "torch.set_default_device": lib_torch.t_backend,
    "torch.no_grad": lib_torch.t_context,
    "torch.inference_mode": lib_torch.t_context,
    "torch.enable_grad": lib_torch.t_context,
    "torch.set_grad_enabled": lib_torch.t_context,
    "torch.autocast": lib_torch.t_context,
    "torch.manual_seed": lib_torch.t_seed,
    "torch.cuda.manual_seed": lib_torch.t_seed,
    "torch.cuda.manual_seed_all": lib_torch.t_seed,
    "torch.finfo": lib_torch.t_finfo,
    "torch.iinfo": lib_torch.t_finfo,
    "torch.load": lib_torch.t_load,
    "torch.is_tensor": lambda i, p, a, k, loc: isinstance(a[0], Tensor),
    "torch.is_grad_enabled": Giving(False),
    "torch.ops.load_library": extensions.load_call,
    "torch.utils.cpp_extension._import_module_from_library": extensions.import_built,
    "torch.Size": lambda i, p, a, k, loc: (
        tuple(a[0]) if a and isinstance(a[0], list) else (a[0] if a else LibObject.by_path(p))
    ),
    "torch.classes.load_library": extensions.load_call,
    "torch.get_num_threads": Giving(8),
    "torch.promote_types": Passing(),
    **{f"torch.return_types.{name}": Passing() for name in "topk sort max min mode".split()},
    "cupy.RawKernel": extensions.raw_kernel_cupy,
    "torch.set_num_threads": lib_torch.t_backend,
    "torch.set_num_interop_threads": lib_torch.t_backend,
    "torch.set_flush_denormal": lib_torch.t_backend,
    "torch.set_default_tensor_type": lib_torch.t_backend,
    "torch.cuda.set_per_process_memory_fraction": lib_torch.t_backend,
    "torch.random.manual_seed": lib_torch.t_seed,
    "torch.seed": lib_torch.t_seed,
    "cupy.RawModule": extensions.raw_module,
}
