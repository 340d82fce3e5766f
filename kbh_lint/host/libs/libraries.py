"""Calls that leave the submission: torch outside tensors, kernel languages, the standard library, the unknown."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from kbh_lint import registry
from kbh_lint.base.values import Value
from kbh_lint.host.datamodel import elapsed, modules, shown
from kbh_lint.host.effects import artifacts, outside, saved, tampering
from kbh_lint.host.libs import (
    autotuning,
    building,
    custom_ops,
    driver,
    einops,
    lib_cuda,
    lib_torch,
)
from kbh_lint.host.libs.launching import cuda_core, cupy, pycuda
from kbh_lint.host.libs.plain import Foreign, Giving, Passing, Unfollowed
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
from kbh_lint.host.libs.wrappers import OfTorch
from kbh_lint.host.python import coroutines
from kbh_lint.host.values import taint
from kbh_lint.host.values.modelled import Library, Site
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    pass


def call(site: Site) -> Value:
    """Calls a symbol outside the submission by its full path; an unknown result remembers the path as its origin."""
    made = _answer(site)
    if isinstance(made, Unknown) and not made.origin and not made.contents:
        return replace(made, origin=site.path)
    return made


def _answer(site: Site) -> Value:
    path = modules.canonical(site.path)
    if path != site.path:
        site = Site(site.run, path, site.loc, site.args, site.kwargs)
    if not _is_plain(path):
        told = _beside(site)
        if told is not NotImplemented:
            return told
    saved.note_paths(site)
    if path in saved.VALUE_THEN_FILE or path in saved.FILE_THEN_VALUE:
        saved.save(site)
    elif path in saved.LOADERS and (held := saved.load(site)) is not None:
        return held
    library = _part(path)
    if library is None:
        row = registry.of_path(path)
        library = LIBRARIES.get(path.partition(".")[0], _FOREIGN) if row is None else row.library
    return library.call(site)


@lru_cache(maxsize=4096)
def _is_plain(path: str) -> bool:
    """Whether a call of a function has nothing to it but what its library makes of it, and files, as most have."""
    root, dot, _ = path.partition(".")
    touches = root in outside.ROOTS or root in outside.GRADERS and dot or path.startswith(outside.NETWORK)
    known = path in taint.CALLED or path in taint.CLOCKS or path in artifacts.COPIES
    return not (touches or known or path.startswith(_NUMBERS) or tampering.may_assign(path))


_NUMBERS = ("numpy.", "statistics.")


def _beside(site: Site) -> Value:
    """Notes what a call does beside; NotImplemented where its library says what it comes to."""
    run, path, args = site.run, site.path, site.args
    outside.touch(site)
    tampering.called(site)
    if path in taint.CALLED and not (taint.CALLED[path] == taint.CAPTURE and run.capturing):
        return taint.asked(run, path, taint.CALLED[path], site.loc)
    if path in taint.CLOCKS:
        clock = taint.clock(run)
        return elapsed.Reading(why=clock.why, taint=clock.taint, at=len(run.trace.events))
    if path in artifacts.COPIES and len(args) > 1:
        artifacts.copied(run, shown.show(args[0]), shown.show(args[1]))
        saved.copied(run, args[0], args[1])
    return autotuning.statistic(site.name, args[0]) if args and path.startswith(_NUMBERS) else NotImplemented


@lru_cache(maxsize=4096)
def _part(path: str) -> Library | None:
    """The part of a package with a row of its own that a path leads into."""
    return next((library for prefix, library in PARTS if path.startswith(prefix)), None)


_FOREIGN = Foreign()
# By the packages that programs import.
LIBRARIES: dict[str, Library] = {
    "cuda": driver.Bindings(),
    "torch": lib_torch.TORCH,
    "einops": einops.Einops(),
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
    "gc": weakref.Gc(None),
    "logging": Library(),
    "json": coding.Json(),
    **dict.fromkeys(("base64", "zlib", "gzip", "bz2", "lzma", "binascii", "codecs", "marshal"), coding.Decoders()),
    "re": re.Re(),
    "numpy": lib_torch.Numpy(),
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
    **dict.fromkeys(("cupy", "cupyx"), cupy.Cupy()),
    "pycuda": pycuda.Pycuda(),
    "timeit": timeit.Timeit(),
    "concurrent": threads.Concurrent(),
    "_thread": threads.PlainThreads(),
    **dict.fromkeys(("unittest", "mock"), mock.Mock()),
}


# Parts of torch and of cuda, by how their paths begin; the first that fits.
PARTS: tuple[tuple[str, Library], ...] = (
    ("cuda.core.", cuda_core.Core()),
    *((f"cuda.{name}", _FOREIGN) for name in ("compute.", "cccl.", "parallel.", "coop", "stf.")),
    ("torch.cuda.graph", OfTorch()),
    ("torch.cuda.", lib_cuda.Cuda()),
    ("torch.backends.", lib_torch.Settings()),
    ("torch.utils.cpp_extension.", building.CppExtension()),
    ("torch._dynamo", lib_torch.Contexts()),
    ("torch._inductor", Library()),
    ("torch.utils.weak.", weakref.Weakref()),
    ("torch.utils.", OfTorch()),
    ("torch.version", Library()),
    ("torch._C._cuda_", Giving(0)),
    ("torch.profiler", Library()),
    ("torch.library.", custom_ops.TorchLibrary()),
    ("torch.distributed", Library()),
)
