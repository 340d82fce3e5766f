"""What a path outside the submission names: `torch.bfloat16` an element type, `math.pi` a number, else a symbol."""

from __future__ import annotations

import math
import string
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kbh_lint import registry
from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import DType, Func, Sym, Value
from kbh_lint.host.datamodel import prelude, schemas
from kbh_lint.host.values import taint, unknowns
from kbh_lint.host.values.containers import Some
from kbh_lint.host.values.library_objects import Environment
from kbh_lint.host.values.objects import Bound, Partial
from kbh_lint.host.values.tensors import Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

# A second name for the same thing -> the name that rules know.
_ALIASES = {
    "torch.functional.F": "torch.nn.functional",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.autograd.grad_mode.no_grad": "torch.no_grad",
    "torch._dynamo.optimize": "torch.compile",
    "torch._C._dynamo.guards._empty_strided_cuda": "torch.empty_strided",
    "torch._C._dynamo.guards._reinterpret_tensor": "torch.as_strided",
    "torch._C._dynamo.guards.assert_size_stride": "torch._assert",
    "torch._C._dynamo.guards.assert_alignment": "torch._assert",
    "torch.cuda._DeviceGuard": "torch.cuda.device",
    "triton.runtime.jit.jit": "triton.jit",
    "triton.runtime.autotuner.autotune": "triton.autotune",
    "triton.runtime.Config": "triton.Config",
    "triton.language.core": "triton.language",
    "triton.language.standard": "triton.language",
    "triton.language.math": "triton.language",
}

_PREFIXES = (
    ("triton.language.math.", "triton.language."),
    ("triton.language.core.", "triton.language."),
    ("triton.language.standard.", "triton.language."),
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch.cuda.graphs.", "torch.cuda."),
    ("torch._library.triton.", "torch.library."),
    (f"{schemas.EXTERN}.", "torch."),
    ("torch._library.", "torch.library."),
)

LIBRARIES = ("torch.", "triton.", "time.", "builtins.", "numpy.", "math.", "sys.modules.torch", "os.", "sys.")
# What makes torch multiply fp32 as tf32.
TF32: dict[str, tuple[Any, ...]] = {
    "torch.backends.cuda.matmul.allow_tf32": (True,),
    "torch.backends.cuda.matmul.fp32_precision": ("tf32",),
    "torch.backends.fp32_precision": ("tf32",),
    "torch.set_float32_matmul_precision": ("high", "medium"),
}
BACKEND_ROOTS = ("torch.backends.", "torch._dynamo.config", "torch._inductor.config", "triton.knobs")
GRADER_NAMES = frozenset("benchmark check correctness timing eval bench check_correctness reference grader".split())


@lru_cache(maxsize=4096)
def canonical(path: str) -> str:
    """Returns the canonical path of a symbol that several paths name: `triton.runtime.Config` is `triton.Config`."""
    path = _ALIASES.get(path, path)
    for prefix, better in _PREFIXES:
        if path.startswith(prefix):
            return better + path[len(prefix) :]
    return path


def resolve(interp: Run, path: str, loc: ir.Loc | None = None) -> Any:
    """Returns the value of a dotted path outside the submission: a constant, an element type, or a symbol."""
    path = canonical(path)
    patched = interp.process.patches.get(path)
    if patched is not None:
        return patched
    found = _fixed(path)
    if found is not NotImplemented:
        return found
    root, _, name = path.rpartition(".")
    if root == "builtins" and name in interp.builtins:
        return interp.builtins[name]
    if path in taint.READ:
        return taint.asked(interp, path, taint.READ[path], loc)
    if root == "__main__":
        return taint.asked(interp, path, taint.COMMAND, loc)
    if path == "os.environ":
        return Environment()
    return prelude.value(interp, path) if prelude.has(path) else Sym(path)


@lru_cache(maxsize=4096)
def _fixed(path: str) -> Value:
    """What a canonical path means in every run; NotImplemented where it takes a run to say."""
    root, _, name = path.rpartition(".")
    if root == "torch":
        found = dtypes.from_torch(name)
        if found is not None and name not in ("half_", "int_"):
            return DType(found)
    row = registry.of_path(path)
    if row is not None:
        found = row.library.element_type(path)
        if found is not None:
            return DType(found)
    if root == "builtins":
        return NotImplemented
    if root == "math" and name in ("pi", "e", "inf", "tau", "nan"):
        return getattr(math, name)
    if path in ("torch.inf", "numpy.inf", "torch.nan", "torch.pi", "numpy.pi", "cupy.inf", "cupy.nan", "cupy.pi"):
        return getattr(math, name)
    if path in taint.READ or root == "__main__" or path == "os.environ":
        return NotImplemented
    if path in _CONSTANTS:
        return _CONSTANTS[path]
    if prelude.has(path):
        return NotImplemented
    if root == "string" and isinstance(getattr(string, name, None), str):
        return getattr(string, name)
    return Sym(path)


def members(path: str) -> Some:
    """Returns the names of what a namespace of torch has: those of its operators that are known, and one that stands
    for all others. Nothing of other packages."""
    known: list[Value] = [*schemas.names_in(path.removesuffix(".__dict__"))]
    of_torch = path.partition(".")[0] == "torch"
    return Some([*known, Unknown((), "the name of something in torch")]) if of_torch else Some()


def member(interp: Run, path: str, name: Value, loc: ir.Loc | None = None) -> Value:
    """Returns what a module or a namespace outside the submission has under a name, which need not be known."""
    if isinstance(name, str) and not doubts(name):
        return resolve(interp, f"{path}.{name}", loc)
    return unnamed(interp, path, name)


def unnamed(interp: Run, space: str, name: Value) -> Value:
    """Returns what a namespace of torch has under a name that is not known: one of its operators, whichever it is,
    where it holds nothing else, unless the submission puts operators of its own there or data decides. `torch.ops`
    stands for all namespaces of operators."""
    by_data = isinstance(name, Unknown) and (name.contents or name.taint is not None)
    every = space == "torch.ops"
    within = space.removeprefix("torch.ops.")
    own = any(every or label.partition(".")[0] == within for label in interp.custom_ops)
    if by_data or own or every and interp.files.unread_build or not every and space not in schemas.namespaces():
        return unknowns.merged(interp, name, why="an attribute by unknown name")
    return Sym(canonical(f"{space}.{schemas.UNNAMED}"))


_CONSTANTS: dict[str, Any] = {
    "torch.__version__": "2.11.0", "triton.__version__": "3.6.0", "sys.platform": "linux", "os.sep": "/",
    "os.name": "posix", "torch.version.cuda": "13.0", "torch.version.hip": None, "torch.version.xpu": None,
    "sys.maxsize": 2**63 - 1, "sys.version_info": (3, 11, 7), "os.pathsep": ":", "typing.TYPE_CHECKING": False,
    "cupy.newaxis": None,
}  # fmt: skip


def callable_value(value: Value) -> bool:
    """Whether `value`, which replaces another, is a function."""
    return isinstance(value, (Func, Bound, Partial, Sym)) or getattr(value, "__kbh_builtin__", False)


def setting(interp: Run, path: str, value: Value, loc: ir.Loc | None) -> None:
    """Notes that the global setting `path` is assigned; the note says whether the value restores the former one."""
    getter = path.replace(".set_", ".get_").replace(
        "use_deterministic_algorithms", "are_deterministic_algorithms_enabled"
    )
    before = getattr(value, "path", "") == path or getattr(value, "why", "") in (path, getter)
    before = before or path == "torch.set_num_threads" and value == 8  # what torch.get_num_threads gives
    shown = str(getattr(value, "name", value) if not isinstance(value, Unknown) else "?")[:40]
    attrs = {"symbol": path, "value": shown, "before": before, "call": interp.trace.call_index}
    interp.note("backend-state", attrs, loc)
    if path in TF32:
        interp.process.tf32 = not before and value in TF32[path]


def patched(interp: Run, owner: str, name: str, value: Value, loc: ir.Loc | None) -> None:
    """Notes that `owner.name`, an attribute of something outside the submission, is assigned `value`."""
    path = f"{owner}.{name}"
    if path.startswith(BACKEND_ROOTS):
        setting(interp, path, value, loc)
        return
    quiet = owner in ("sys", "os") and not callable_value(value)
    if quiet or path.startswith(("warnings.", "logging.", "ctypes.")):
        interp.process.patches[path] = value
        interp.may_call(path, [value], {}, loc)
        return
    parts = set(path.split("."))
    if path.startswith(LIBRARIES):
        target = "library"
    elif parts & GRADER_NAMES:
        target = "grader"
    else:
        target = "module"
    interp.note("monkeypatch", {"symbol": path, "target": target}, loc)
    interp.process.patches[path] = value
