"""What arguments of C++ calls hold: device pointers, numbers that are not known, options of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import DType, Env, Sym, TypeValue, Value
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.torch import recording
from kbh_lint.host.values.containers import Tensors
from kbh_lint.host.values.cpp_objects import (
    CStruct,
    IntArrayRef,
    LibraryMethod,
    OwnMethod,
    Pointer,
    Slot,
    Template,
    TensorOptions,
)
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Content, Tensor, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run


def address(run: Cpp, node: object, env: Env) -> Slot | None:
    """Where an argument lies that is an address, so that the callee can write there: what a pointer points to, a handle
    that a parameter holds the address of (`encode(CUtensorMap* map)`), or an element of an array of handles
    (`streams + i`)."""
    if isinstance(node, ir.Name):
        held = env.get(node.id)
        if not isinstance(held, Slot):
            return None
        handle = isinstance(held.get(), (Unknown, LibObject, type(None)))
        return held if handle or run.types.holds_address(node.id, env) else None
    if not isinstance(node, ir.Binary) or node.op != "+" or not isinstance(node.left, (ir.Name, ir.Attr)):
        return None
    if not isinstance(node.right, (ir.Name, ir.Const)):
        return None
    owner, at = run.eval(node.left, env), cpp_numbers.plain(run.eval(node.right, env))
    if not isinstance(owner, list) or type(at) is not int or not 0 <= at < len(owner):
        return None
    return Slot(owner, at) if owner[at] is None or isinstance(owner[at], LibObject) else None


def is_options(value: object) -> bool:
    """Whether a value is a `TensorOptions` object, of `torch::`, `at::` or `c10::`."""
    return isinstance(value, TensorOptions)


def tensor_options(owner: LibObject, args: Sequence[Value]) -> LibObject:
    """Models `TensorOptions().dtype(...).device(...)`: returns the options of `owner` with the element type given in
    `args`."""
    attrs = dict(owner.attrs)
    for value in args:
        if isinstance(value, DType):
            attrs["dtype"] = value
    return TensorOptions("TensorOptions", attrs)


def torch_args(args: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Splits the arguments of a C++ call into positional ones and keywords, as Python's torch takes them: options
    become keywords."""
    plain: list[Any] = []
    kwargs: dict[str, Any] = {}
    for value in args:
        if isinstance(value, Slot):
            value = value.get()
        if is_options(value):
            if isinstance(value.attrs.get("dtype"), DType):
                kwargs["dtype"] = value.attrs["dtype"]
        elif isinstance(value, IntArrayRef):
            plain.append(cpp_numbers.all_plain(value.attrs["items"]))
        else:
            plain.append(cpp_numbers.all_plain(value) if type(value) in (list, Tensors) else cpp_numbers.plain(value))
    return plain, kwargs


def part(args: Sequence[Value]) -> slice:
    """Returns the Python slice that `torch::indexing::Slice(start, stop, step)` makes."""
    start, stop, step = (*(_index(value) for value in args), None, None, None)[:3]
    return slice(start, stop, step)


def indices(given: Value) -> tuple[Value, ...]:
    """Converts the indices of `t.index({Slice(a, b), None, "...", 3})` to those of a subscript in Python."""
    given = given.get() if isinstance(given, Slot) else given
    return tuple(map(_index, given)) if isinstance(given, (list, tuple)) else (_index(given),)


def _index(value: Value) -> Value:
    """A number, a slice, a tensor, `None` for a new dimension, `...` for those between."""
    if isinstance(value, Slot):
        value = value.get()
    named = value.path.rpartition("::")[2] if isinstance(value, Sym) else ""
    if named in ("None", "nullopt"):
        return None
    return Ellipsis if named == "Ellipsis" or value == "..." else cpp_numbers.plain(value)


def pointers(args: Value, depth: int = 0) -> list[Pointer]:
    """The device pointers among arguments, also inside structs, lists and addresses."""
    out: list[Pointer] = []
    for value in args if isinstance(args, (list, tuple)) else [args]:
        if isinstance(value, Slot):
            value = value.get()
        if isinstance(value, Pointer):
            out.append(value)
        elif isinstance(value, Tensor):
            out.append(Pointer(value, value.dtype))
        elif isinstance(value, (list, tuple)) and depth < 6:
            out.extend(pointers(value, depth + 1))
        elif isinstance(value, LibObject) and depth < 6:
            out.extend(value.attrs.get("pointers", ()))
            if _holds_fields(value):
                out.extend(pointers(list(value.attrs.values()), depth + 1))
    return out


def numbers(interp: Run, args: Value, depth: int = 0) -> tuple[Content, ...]:
    """Returns the contents that unknown numbers among the arguments (sizes, offsets of pointers) were computed from."""
    found: list[Content] = []
    for value in args if isinstance(args, (list, tuple)) else [args]:
        if isinstance(value, Slot):
            value = value.get()
        if isinstance(value, Pointer):
            found.extend(recording.steered_by([value.tensor]))
            value = value.offset
        if isinstance(value, Unknown):
            found.extend(interp.contents_of(value))
        elif isinstance(value, (list, tuple)) and depth < 6:
            found.extend(numbers(interp, value, depth + 1))
        elif isinstance(value, LibObject) and depth < 6 and _holds_fields(value):
            found.extend(numbers(interp, list(value.attrs.values()), depth + 1))
    return tuple(dict.fromkeys(found))


def note_fresh(interp: Run, name: str, args: list[Any], loc: ir.Loc | None) -> None:
    """Notes that an unknown function or type `name` was given memory that nothing has written so far: it may be what
    fills the memory."""
    if fresh := [pointer for pointer in pointers(args) if pointer.tensor.storage.content.label == "empty"]:
        interp.note("given", {"name": name}, loc)
        for pointer in fresh:
            pointer.tensor.storage.content.notes.setdefault("handed", name)


def note_unknown_call(interp: Run, target: Value, args: list[Any], answer: Value, loc: ir.Loc | None) -> None:
    """Notes a call whose callee and result are both unknown: it may have filled the memory that it was given, and
    whatever else an unknown function can reach."""
    if isinstance(target, Unknown):
        interp.note("given", {"name": target.why or "an unknown function"}, loc)
    if not isinstance(answer, Unknown) and not (type(answer) is LibObject and answer.path.startswith("cpp:")):
        return
    if isinstance(target, LibraryMethod):
        method = target.attrs["method"]
        known = isinstance(method.self, Tensor) and cpp_names.is_operation(method.name)
        if not known:
            note_fresh(interp, method.name, [method.self, *args], loc)
    elif isinstance(target, (Sym, TypeValue)):
        note_fresh(interp, target.path if isinstance(target, Sym) else target.ref.name, args, loc)
    elif isinstance(target, (Unknown, LibObject)) and not isinstance(target, (Template, OwnMethod)):
        note_fresh(interp, "a function that is not known", [target, *args], loc)


def _holds_fields(value: LibObject) -> bool:
    """Whether an object is of a class of the text, or of a library's that is known by its fields alone."""
    return isinstance(value, CStruct) or is_unread(value)


def is_unread(value: LibObject) -> bool:
    """Whether an object is of a type outside the text that is known by what it was given alone."""
    return value.path.startswith("cpp:")
