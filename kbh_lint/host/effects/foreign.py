"""What cannot be looked into: other libraries, languages without a front end, machine code, unknown functions."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kbh_lint import registry
from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.host.datamodel import c_structs, exceptions, schemas
from kbh_lint.host.effects import outside
from kbh_lint.host.torch import recording
from kbh_lint.host.values import packages, taint, tensor_arguments, unknowns
from kbh_lint.host.values.cpp_objects import CStruct, Pointer, Slot
from kbh_lint.host.values.library_objects import UnreadKernel
from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.named_objects import CCell, SystemLibrary
from kbh_lint.host.values.objects import Blob, Bound, ClassV, Instance, LibObject, Method, UnknownLibrary
from kbh_lint.host.values.tensors import EventAttrs, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_DEPTH = 6  # arrays and structs in one another that addresses are looked for in
MAX_BYTES = 4096  # as many as all arguments of a kernel may take
_ADDRESS = struct.Struct("<Q")
_CHANGING = frozenset((Instance, ClassV, list, dict, set))  # what a function may change that is given it
VENDORS = ("cublas", "cudnn", "cusparse", "cusolver", "cutensor")  # how names of functions begin


def foreign(site: Site) -> Value:
    """Calls a function of a library without a model: it may compute anything from its arguments."""
    interp, path, args, kwargs, loc = site.run, site.path, site.args, site.kwargs, site.loc
    inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
    if is_unread_language(path) or registry.is_opaque(path):
        return unread_language(site, inputs)
    standard = path.partition(".")[0] in sys.stdlib_module_names
    if inputs and _is_missing(interp, path):
        return unread_call(interp, f"{path}, of a module that is not there,", inputs, loc)
    if standard and inputs:  # it keeps or prints tensors, and calls what it is given: it computes nothing itself
        event = recording.record(interp, "unread", path, loc, inputs, {"keeps": True})
        return recording.make(interp, None, "?", event=event)
    if not inputs:
        if any(type(value) in _CHANGING for value in (*args, *kwargs.values())) and _is_missing(interp, path):
            interp.lost(f"what {path}, of a module that is not there, does to what it is given", loc)
        addressed(interp, path, () if standard else (*args, *kwargs.values()), loc)
        return LibObject.by_path(path, {}, tuple(args), kwargs)
    attrs: EventAttrs = {"symbol": path, "foreign": True, "operands": tuple(t.dtype for t in inputs)}
    unnamed = site.name == schemas.UNNAMED
    if unnamed:
        attrs["unnamed"] = True
    event = recording.record(interp, "library", path, loc, inputs, attrs)
    recording.may_fill(interp, inputs, event)
    return recording.make(interp, None, "?" if unnamed else inputs[0].dtype, event=event)


def _is_missing(interp: Run, path: str) -> bool:
    """Whether a path is of a module that the submission imports and nobody published: a part that is not there."""
    root = path.partition(".")[0]
    if not root:
        return True
    if root in packages.STDLIB_OR_PRESENT | packages.PACKAGES | packages.PUBLISHED or registry.of_path(root):
        return False
    return any(kind == "import" and a["module"].partition(".")[0] == root for kind, a, _ in interp.trace.notes)


def addressed(interp: Run, name: str, args: Sequence[Value], loc: ir.Loc | None) -> None:
    """Records that unknown code was given addresses of tensors, whose memory it may read and write."""
    found = handed(interp, args)
    if found:
        recording.may_fill(interp, found, recording.record(interp, "unread", name, loc, found))


# Packages of kernel languages, with what is in them: `tvm` has `tvm.tir`, and nothing of `tvm_ffi`; and what people
# call the language, where it is one of its own. One with a row in `registry` is read.
LANGUAGES: Mapping[str, str] = {
    "taichi": "Taichi", "warp": "Warp", "pallas": "Pallas", "jax.experimental.pallas": "Pallas",
    "helion": "Helion", "tvm": "TVM", "tvm_ffi": "TVM", "cutlass_library": "", "triton.experimental": "",
}  # fmt: skip


def unread_languages() -> Mapping[str, str]:
    """Returns the kernel languages of `LANGUAGES` that have no front end here, by package."""
    read = {package for row in registry.rows() for package in row.packages}
    return {package: name for package, name in LANGUAGES.items() if ".".join(package.split(".")[:2]) not in read}


def is_unread_language(path: str) -> bool:
    """Whether a path belongs to a kernel language without a front end."""
    found = any(path == package or path.startswith(f"{package}.") for package in LANGUAGES)
    return found and any(path == package or path.startswith(f"{package}.") for package in unread_languages())


def unread_language(site: Site, inputs: list[Tensor]) -> Value:
    """Calls a function of a kernel language without a front end: what builds a kernel returns an `UnreadKernel`, what
    runs on tensors is a hole in the trace."""
    builds_kernel = any(isinstance(a, (Func, Bound, UnreadKernel)) for a in site.args)
    if builds_kernel or not inputs:
        return UnreadKernel(site.path) if builds_kernel else LibObject.by_path(site.path, {"name": site.path})
    if site.name in ("from_dlpack", "make_ptr", "mark_layout_dynamic"):
        return inputs[0]
    return unread_call(site.run, site.path, inputs, site.loc)


def unread_call(interp: Run, name: str, inputs: list[Tensor], loc: ir.Loc | None) -> Value:
    """Records unreadable code that runs on tensors and may fill each buffer that holds nothing yet; returns a tensor of
    unknown shape."""
    interp.miss(f"{name} could not be read", loc)
    event = recording.record(interp, "unread", name, loc, inputs)
    recording.may_fill(interp, inputs, event)
    return recording.make(interp, None, "?", event=event)


def part_of(owner: Blob, name: str) -> Value:
    """Returns a function of machine code without source: of nobody knows which library, one by a vendor's name is that
    vendor's."""
    if isinstance(owner, UnknownLibrary) and name.startswith(VENDORS):
        return Method(SystemLibrary("ctypes.system", {"name": owner.path}), name)
    return Blob(f"{owner.path}:{name}", owner.loc)


def call_blob(interp: Run, func: Blob, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None) -> Value:
    """Calls a function of machine code without source, which may read and write each tensor and address that it is
    given."""
    return run_blob(interp, func, handed(interp, [*args, *kwargs.values()]), loc)


def run_blob(interp: Run, func: Blob, inputs: Sequence[Tensor], loc: ir.Loc | None) -> Value:
    """Records that machine code without source ran, which may have read and written `inputs`."""
    event = recording.record(interp, "blob", func.path, loc, inputs, {"symbol": func.path})
    for tensor in inputs:
        recording.write(interp, tensor, event)
    return recording.make(interp, None, inputs[0].dtype, event=event) if inputs else Unknown((), "machine code")


def handed(interp: Run, values: Iterable[Value], depth: int = 0) -> list[Tensor]:
    """The tensors that are handed on by themselves or by their addresses: in arrays, structs and packed bytes, through
    pointers to these, and in tables in device memory."""
    found: list[Tensor] = []
    for value in values:
        held = value.get() if isinstance(value, Slot) else value
        tensor = held.tensor if isinstance(held, Pointer) else held
        if isinstance(tensor, Tensor):
            found += [tensor, *(led.tensor for led in tensor.storage.content.notes.get(recording.ADDRESSES, ()))]
        elif isinstance(held, (bytes, bytearray)):
            found += _packed(interp, held)
        elif depth < MAX_DEPTH and (parts := _parts(held)):
            found += handed(interp, parts, depth + 1)
        elif (there := interp.tensor_at(held)) is not None:
            found.append(there)
    return list({id(tensor): tensor for tensor in found}.values())


def _packed(interp: Run, data: bytes | bytearray) -> list[Tensor]:
    """The tensors whose addresses were packed into bytes. Bytes that are anything else are hardly ever a place within
    one."""
    numbers = [number for (number,) in _ADDRESS.iter_unpack(data[: min(len(data), MAX_BYTES) // 8 * 8])]
    found = [(tensor, number) for number in numbers if (tensor := interp.tensor_at(number)) is not None]
    return [tensor for tensor, number in found if number - tensor.storage.address < (tensor.storage.size or 1)]


def _parts(value: Value) -> Sequence[Value]:
    """What lies in an array, in a struct of ctypes or of C++, in a variable of ctypes; nothing in other values."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (CStruct, CCell)) or isinstance(value, Instance) and c_structs.is_struct(value.cls):
        return list(value.attrs.values())
    return ()


def call_unknown(
    interp: Run, func: Unknown, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Value:
    """Calls an unknown value; where it is given tensors, the call is a hole in the trace."""
    inputs = tensor_arguments.tensors_in(args) + tensor_arguments.tensors_in(kwargs)
    symbol = taint.symbol_of(func)
    if taint.CALLED.get(symbol) == taint.OBJECTS:
        outside.note(interp, "grader", symbol, "an object that was found by a walk", loc)
    interp.may_call(func.why or "an unknown function", args, kwargs, loc)
    if not inputs:
        addressed(interp, func.why or "an unknown function", args, loc)
        return unknowns.merged(interp, func, *args, like=func)
    return unread_call(interp, func.why or "an unknown function", inputs, loc)


def call_data(
    interp: Run, func: Value, args: Sequence[Value], kwargs: Mapping[str, Value], loc: ir.Loc | None
) -> Value:
    """Calls what is no function, which fails where it certainly is none."""
    if exceptions.is_data(func) and (loc is None or loc[0].language == "python"):
        interp.fails("builtins.TypeError", loc, f"{exceptions.DATA[type(func)]} is called")
    inputs = [tensor for value in (args, kwargs, func) for tensor in tensor_arguments.tensors_in(value)]
    if inputs:
        return unread_call(interp, "a value that is not a function", inputs, loc)
    if exceptions.plain(func) or isinstance(func, (str, list, dict, tuple)):
        interp.may_fail("TypeError", loc)
    interp.lost(f"a {type(func).__name__} was called", loc)
    return Unknown()
