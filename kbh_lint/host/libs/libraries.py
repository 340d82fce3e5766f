"""Calls that leave the submission: torch outside tensors, kernel languages, the standard library, the unknown."""

from __future__ import annotations

import builtins
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.host.datamodel import copies, elapsed, enums, modules, shown
from kbh_lint.host.effects import artifacts, builds, decoding, foreign, outside, saved, tampering
from kbh_lint.host.libs import (
    autotuning,
    custom_ops,
    driver,
    einops,
    extensions,
    lib_containers,
    lib_itertools,
    lib_re,
    lib_torch,
    wrappers,
)
from kbh_lint.host.libs.plain import Giving, Passing, Unfollowed
from kbh_lint.host.libs.stdlib import collections, functools, importlib, operator, os, sys, textwrap, types, weakref
from kbh_lint.host.python import coroutines, lib_texts, module_calls, pools, pybuiltins
from kbh_lint.host.values import taint
from kbh_lint.host.values.frames import Handler
from kbh_lint.host.values.library_objects import ClassMethod, Property, StaticMethod
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.objects import OBJECT, ClassV, Instance, LibObject
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


def _descriptor(interp: Run, path: str, args: list[Any], kwargs: dict[str, Any], loc: ir.Loc | None) -> Any:
    func = args[0] if args else None
    if path == "builtins.property":
        return Property(func, args[1] if len(args) > 1 else None)
    return StaticMethod(func) if path == "builtins.staticmethod" else ClassMethod(func)


ROOTS: dict[str, Handler | Library] = {
    "cuda": driver.bindings,
    "torch": lib_torch.torch_call,
    "einops": einops.call,
    "functools": functools.Functools(),
    "itertools": lib_itertools.call,
    "collections": collections.Collections(),
    "asyncio": coroutines.call,
    "os": os.Os(),
    "sys": sys.Sys(),
    "importlib": importlib.Importlib(),
    "copy": copies.call,
    "pickle": copies.pickled,
    "math": lambda i, p, a, k, loc: pybuiltins.math_call(i, p.rsplit(".", 1)[-1], a, loc),
    "time": Unfollowed(),
    "warnings": Giving(None),
    "typing": types.Typing(),
    "types": types.Types(),
    "contextlib": lib_torch.t_context,
    "textwrap": textwrap.Textwrap(),
    "hashlib": Unfollowed(),
    "tempfile": builds.temporary,
    "subprocess": builds.process,
    "inspect": Unfollowed(),
    "threading": Library(),
    "gc": Giving(None),
    "logging": Library(),
    "json": decoding.parse_json,
    **dict.fromkeys(("base64", "zlib", "gzip", "bz2", "lzma", "binascii", "codecs", "marshal"), decoding.decode),
    "re": lib_re.call,
    "numpy": lib_torch.numpy_call,
    "builtins": Unfollowed(),
    "atexit": Giving(None),
    "dataclasses": lib_containers.dataclasses_call,
    "heapq": lib_containers.ordered_call,
    "bisect": lib_containers.ordered_call,
    "enum": enums.from_call,
    "abc": Passing(),
    "platform": Unfollowed(),
    "traceback": Unfollowed(),
    "random": Unfollowed(),
    "operator": operator.Operator(),
    "shutil": Unfollowed(),
    "string": Unfollowed(),
    "ctypes": extensions.ctypes_call,
    "pathlib": builds.path_call,
    "glob": builds.glob_call,
    "weakref": weakref.Weakref(),
    "struct": lib_texts.packed,
    "uuid": Unfollowed(),
}


PREFIXES: tuple[tuple[str, Handler | Library], ...] = (
    ("torch.cuda.graph", Library()),
    ("torch.cuda.", lib_torch.cuda_call),
    ("torch.backends.", lib_torch.t_backend),
    ("torch.utils.cpp_extension.", extensions.extension_call),
    ("torch._dynamo", lib_torch.t_context),
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
    "timeit.Timer": Library(),
    "torch.nn.Parameter": lib_torch.t_parameter,
    "torch.nn.parameter.Parameter": lib_torch.t_parameter,
    "torch.nn.Buffer": Passing(),
    "torch.compile": lib_torch.t_compile,
    **dict.fromkeys(module_calls.FOR_ALL, module_calls.register_for_all),
    **dict.fromkeys(
        ("timeit.timeit", "triton.testing.do_bench", "triton.testing.do_bench_cudagraph"), autotuning.timed
    ),
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
    "torch.ops.load_library": extensions.load_library,
    "torch.utils.cpp_extension._import_module_from_library": extensions.import_built,
    "torch.Size": lambda i, p, a, k, loc: (
        tuple(a[0]) if a and isinstance(a[0], list) else (a[0] if a else LibObject.by_path(p))
    ),
    "torch.classes.load_library": extensions.load_library,
    "torch.get_num_threads": Giving(8),
    "builtins.open": builds.open_file,
    "builtins.__import__": importlib.Importlib(),
    "builtins.property": _descriptor,
    "builtins.staticmethod": _descriptor,
    "builtins.classmethod": _descriptor,
    "builtins.memoryview": Passing(),
    "builtins.slice": lambda i, p, a, k, loc: slice(*a),
    "builtins.compile": decoding.compiled,
    "marshal.loads": decoding.decode,
    "builtins.object": lambda i, p, a, k, loc: Instance(OBJECT),
    "builtins.object.__new__": lambda i, p, a, k, loc: Instance(a[0]) if isinstance(a[0], ClassV) else Unknown((), p),
    "builtins.format": lib_texts.format_call,
    "builtins.object.__setattr__": lambda i, p, a, k, loc: i.set_plain(a[0], str(a[1]), a[2], loc),
    "builtins.delattr": lambda i, p, a, k, loc: i.del_attr(a[0], str(a[1]), loc),
    "concurrent.futures.as_completed": pools.completed,
    "concurrent.futures.wait": pools.wait,
    "_thread.start_new_thread": pools.start_new_thread,
    "contextlib.suppress": Library(),
    **dict.fromkeys(("threading.current_thread", "threading.main_thread"), Unfollowed()),
    "builtins.input": Unfollowed(),
    "torch.promote_types": Passing(),
    **{f"torch.return_types.{name}": Passing() for name in "topk sort max min mode".split()},
    "cupy.RawKernel": extensions.raw_kernel_cupy,
    "unittest.mock.patch": tampering.mock,
    "unittest.mock.patch.object": tampering.mock,
    "mock.patch": tampering.mock,
    "mock.patch.object": tampering.mock,
    "torch.set_num_threads": lib_torch.t_backend,
    "torch.set_num_interop_threads": lib_torch.t_backend,
    "torch.set_flush_denormal": lib_torch.t_backend,
    "torch.set_default_tensor_type": lib_torch.t_backend,
    "torch.cuda.set_per_process_memory_fraction": lib_torch.t_backend,
    "torch.random.manual_seed": lib_torch.t_seed,
    "torch.seed": lib_torch.t_seed,
    "cupy.RawModule": extensions.raw_module,
}


for _name, _value in vars(builtins).items():
    if isinstance(_value, type) and issubclass(_value, BaseException):
        CALLS[f"builtins.{_name}"] = lambda i, p, a, k, loc: LibObject.by_path(p, {"args": tuple(a)})
