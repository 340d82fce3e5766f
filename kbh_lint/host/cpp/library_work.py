"""Work that compiled libraries do on what they are given: cuBLAS, cuDNN, thrust, cub, CUTLASS, torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.cpp import arguments as cpp_arguments
from kbh_lint.host.cpp import copies as cpp_copies
from kbh_lint.host.cpp import names as cpp_names
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.gpu import cublas, device_wide, pointer_tables
from kbh_lint.host.python import builtin_attributes
from kbh_lint.host.torch import recording, torchlib
from kbh_lint.host.values.cpp_objects import Dispatcher, OperatorName, Pointer, Schema, Slot, TensorOptions
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Content, CutlassType, Event, EventAttrs, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp
    from kbh_lint.host.run import Run

# Parts of the names of functions of other libraries that do work; others set something up.
_WORKING = frozenset("Sort Reduce conv Conv forward Forward BackendExecute".split())
# Parts of the names of those that only prepare or ask.
_PREPARING = tuple(
    "Create Destroy Attribute Descriptor Heuristic Init cublasSet cublasGet WorkspaceSize ufferSize".split()
)


def solid(run: Cpp, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Records a call of cuBLAS, cuDNN, thrust, device-wide cub or what wraps these as library work on the pointers it
    is given. It writes those that its signature says, where that is known, and the last one otherwise."""
    short = name.rpartition("::")[2]
    made = cublas.layout(short, args)
    if made is not NotImplemented:
        return made
    found = cpp_arguments.pointers(args)
    interp = run.interp
    if short == "cudnnBackendSetAttribute" and found and isinstance(args[0], (Slot, LibObject)):
        return _kept(args[0], found)
    if not found or not _works(name):
        return LibObject.by_path(name, {"pointers": found})
    plain = [cpp_numbers.plain(arg.get() if isinstance(arg, Slot) else arg) for arg in args]
    if device_wide.asks_for_a_size(name, plain):
        return Sym("cudaSuccess")
    operands = cublas.operands(plain) or tuple(cublas.element(word) for word in run.cuda_types[:2])
    event = _work(run, "library", name, found, loc, {
        "symbol": name, "operands": operands or tuple(p.dtype for p in found[:2]),
        "flops": cublas.operations(name, plain), "steer": cpp_arguments.numbers(interp, args),
    }, device_wide.places(name, [len(cpp_arguments.pointers([arg])) for arg in args]))  # fmt: skip
    if not device_wide.answers(name):
        return Sym("CUBLAS_STATUS_SUCCESS")
    if not event.writes:
        recording.make(interp, (), found[0].dtype, event=event)
    return Unknown(tuple(event.writes), short)


def _works(name: str) -> bool:
    """Whether a function does work; others set something up, or ask."""
    does = device_wide.does(name) or any(word in name for word in _WORKING)
    return bool(does) and not any(word in name.rpartition("::")[2] for word in _PREPARING)


def _kept(descriptor: Slot | LibObject, found: list[Pointer]) -> Sym:
    """What a descriptor of cuDNN is given, a plan executes."""
    held = descriptor.get() if isinstance(descriptor, Slot) else descriptor
    if isinstance(held, LibObject):
        held.attrs["pointers"] = [*held.attrs.get("pointers", ()), *found]
    elif isinstance(descriptor, Slot):
        descriptor.set(LibObject.by_path("cudnn.descriptor", {"pointers": found}))
    return Sym("CUDNN_STATUS_SUCCESS")


def _written(interp: Run, found: list[Pointer], name: str) -> tuple[int, ...]:
    """Which of the pointers that a library's work gets it writes: to memory that holds nothing yet, and to a workspace
    that is kept, which holds what an earlier `forward` left there in the same place of a call of the same function.
    Where there is neither, the last.
    """

    def scratch(content: Content, place: int) -> bool:
        event = content.event
        if event is None or event.name != name or content.previous is not None:
            return False
        if event.attrs.get("round", interp.trace.round) == interp.trace.round:
            return False
        before = zip(event.writes, event.attrs["places"], strict=False)
        return any(held is content and at == place for held, at in before)

    contents = [pointer.tensor.storage.content for pointer in found]
    places = [place for place, held in enumerate(contents) if held.label == "empty" or scratch(held, place)]
    return tuple(places) or tuple(range(len(found))[-1:])


def _work(
    run: Cpp, kind: str, name: str, found: list[Pointer], loc: ir.Loc | None, attrs: EventAttrs,
    signature: device_wide.Places | None = None,
) -> Event:  # fmt: skip
    """The event of a library's work on pointers, of which its signature, where it is known, says what is written."""
    found = _reached(found)
    if signature is not None and (signature.writes or signature.reads):
        ends = device_wide.answers(name)  # it is given where memory begins, and where it ends
        places = tuple(_begun(found, signature.writes) if ends else signature.writes)
        read = _begun(found, signature.reads) if ends else signature.reads
    else:
        places = _written(run.interp, found, name)
        read = [place for place in range(len(found)) if place not in places]
    event = recording.record(
        run.interp, kind, name, loc, [found[place].tensor for place in read],
        {**attrs, "places": places, "round": run.interp.trace.round},
    )  # fmt: skip
    for place in places:
        recording.write(run.interp, found[place].tensor, event)
    return event


def _begun(found: list[Pointer], places: list[int]) -> list[int]:
    """The first pointer into each memory."""
    firsts = {found[place].tensor.storage.ident: place for place in reversed(places)}
    return sorted(firsts.values())


def _reached(found: list[Pointer]) -> list[Pointer]:
    """The pointers with those that tables of pointers among them hold, which grouped and batched products get."""
    made: list[Pointer] = []
    for pointer in found:
        made.append(pointer)
        storage, start = pointer.tensor.storage, pointer.start
        beside = (other.start for other in found if other.tensor.storage is storage)
        stop = min((at for at in beside if at is not None and start is not None and at > start), default=None)
        for _, tensor in pointer_tables.leads(storage.content, start, stop):
            if all(tensor.storage is not other.tensor.storage for other in (*found, *made)):
                made.append(Pointer(tensor, tensor.dtype))
    return made


def cutlass_method(run: Cpp, owner: LibObject, name: str, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Models a method of a CUTLASS device object. `initialize`, `update` and a run with arguments replace the pointers
    that the object holds; a run without arguments works on those that it holds."""
    if name in ("run", "operator()", "__call__"):
        return cutlass_run(run, owner, args, loc)
    given = cpp_arguments.pointers(args)
    if given and name in ("initialize", "update"):
        owner.attrs["pointers"] = given
        owner.attrs["steer"] = cpp_arguments.numbers(run.interp, args)
    return Sym("kSuccess") if name != "get_workspace_size" else 0


def cutlass_run(run: Cpp, owner: LibObject, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Records the launch of a CUTLASS kernel: a matrix product on the device, configured by template arguments."""
    owner.attrs["pointers"] = cpp_arguments.pointers(args) or owner.attrs.get("pointers", [])
    owner.attrs["steer"] = cpp_arguments.numbers(run.interp, args) or owner.attrs.get("steer", ())
    found: list[Pointer] = []
    for pointer in owner.attrs["pointers"]:
        if all(pointer.tensor.storage is not other.tensor.storage for other in found):
            found.append(pointer)
    kind = owner.attrs.get("kind")
    name = owner.attrs.get("__name__", "cutlass")
    attrs: EventAttrs = {"operands": (), "steer": owner.attrs["steer"]}
    if isinstance(kind, CutlassType):
        attrs["cutlass"], attrs["operands"] = kind, (kind.a, kind.b)
    _work(run, "cutlass", name, found, loc, attrs)
    return Sym("kSuccess")


# --- torch


def aten(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Value:
    """Calls a function or constructs a type of torch's C++ interface."""
    if device_wide.does(name):  # its own calls of cub and of BLAS
        return solid(run, name, args, loc)
    name, last = _of_native(name)
    if "::_ops::" in name:  # `at::_ops::topk::call`, and `redispatch` with the keys before what is given
        args = args[name.endswith("::redispatch") :]
        name = f"at::{without_overload(name.partition('::_ops::')[2].partition('::')[0])}"
        last = name.endswith("_out")
    if last and len(args) > 1:  # in the order of the schema: what is written comes last, and not first
        args, name = [args[-1], *args[:-1]], name.removesuffix("f") if name.endswith("_outf") else name
    short = name.rpartition("::")[2]
    if short in ("dtype", "TensorOptions", "device"):
        return cpp_arguments.tensor_options(TensorOptions("TensorOptions"), args)
    if name.endswith("indexing::Slice"):
        return cpp_arguments.part(args)
    if (found := _of_operators(name, args)) is not NotImplemented:
        return found
    if short in ("kCUDA", "kCPU", "None", "nullopt", "optional", "Device", "getCurrentCUDAStream"):
        return LibObject.by_path(name)
    if short.endswith("_out") and len(args) > 1:
        plain, kwargs = cpp_arguments.torch_args(args[1:])
        return torchlib.call(run.interp, f"at::{short.removesuffix('_out')}", plain, {**kwargs, "out": args[0]}, loc)
    if short in ("borrowed", "owned") and args or short == "Tensor":  # of a MaybeOwned; a tensor, or one of nothing
        return args[0] if args else None
    if short == "from_blob" and args and isinstance(args[0], (list, Pointer)):
        return cpp_copies.from_blob(run, args, loc)
    plain, kwargs = cpp_arguments.torch_args(args)
    if short in ("empty_cuda", "zeros_cuda", "empty_strided_cuda", "empty_generic"):
        name = f"at::{short.rpartition('_')[0]}"
    return torchlib.call(run.interp, name, plain, kwargs, loc)


def _of_native(name: str) -> tuple[str, bool]:
    """A name without its backend (`at::native::mm_out_cuda` is `at::native::mm_out`), where torch has the operation,
    and whether what is written comes last, as in the schema."""
    base = name.removesuffix("_cuda")
    if "::native::" not in name or not cpp_names.is_operation(base.rpartition("::")[2]):
        return name, name.endswith("_outf")
    return base, base.endswith(("_out", "_outf"))


def without_overload(name: str) -> str:
    """Strips the overload name from an ATen name (`sum_dim_IntList` to `sum`, `sum_IntList_out` to `sum_out`) where
    torch has the operation; returns other names unchanged."""
    base = name.removesuffix("_out")
    end = name[len(base) :]
    while "_" in base.strip("_") and not cpp_names.is_operation(base):
        base = base.rpartition("_")[0]
    return base + end if cpp_names.is_operation(base) else name


# --- torch's dispatcher, and its boxed calls: values lie on a stack, an operator takes them off and leaves its results

BOXED = frozenset({"callBoxed", "redispatchBoxed", "callBoxedForDispatchKey"})
CALLED = frozenset({"call", "redispatch"})
FOUND = frozenset({"findSchema", "findSchemaOrThrow", "findOp", "findOpOrThrow"})
_FOUND_BY_JIT = frozenset({"getAllOperatorsFor", "findOperatorFor", "getOperatorForLiteral"})
_NOT_NAMED = "an operator that torch's dispatcher finds by a name that is not known"


def schema(args: Sequence[Value]) -> Schema:
    """Models `findSchema(name)`: an operator by its `c10::OperatorName`, by a name and an overload, by its symbol or by
    its whole schema. Where that is not known, the operator has no name."""
    given = args[0].get() if args and isinstance(args[0], Slot) else next(iter(args), None)
    if isinstance(given, OperatorName):
        args = given.attrs.get("items", ())
    elif isinstance(given, (list, tuple)):  # `findSchema({"aten::mm", ""})`
        args = given
    named, overload = (*args, None, None)[:2]
    named = named.path if isinstance(named, Sym) else named
    if not isinstance(named, str) or not named:
        return Schema("cpp.schema", {"name": None})
    name, _, written = named.partition("(")[0].partition(".")
    last = (overload if isinstance(overload, str) else written).endswith(("out", "values"))
    return Schema("cpp.schema", {"name": name.rpartition("aten::")[2] if "aten::" in name else name, "last": last})


def called(run: Cpp, owner: Schema, args: list[Value], loc: ir.Loc | None) -> Value:
    """Calls an operator that the dispatcher found: one of torch, or one of the submission's own."""
    name = owner.attrs["name"]
    if name is None:
        run.interp.miss(_NOT_NAMED, loc)
        recording.record(run.interp, "unread", _NOT_NAMED, loc, [one.tensor for one in cpp_arguments.pointers(args)])
        return Unknown((), _NOT_NAMED)
    if "::" in name:
        return run.interp.call(Sym(f"torch.ops.{name.replace('::', '.')}"), args, {}, loc)
    return aten(run, f"at::{name}_outf" if owner.attrs["last"] else f"at::{name}", args, loc)


def _may_be_there(run: Cpp, found: Schema) -> bool:
    """Whether an operator is one of torch or of the submission, or may be that of a library that others load."""
    name: str = found.attrs["name"] or ""
    path = f"torch.ops.{name.replace('::', '.')}"
    return "::" not in name or builtin_attributes.has_library_attr(run.interp, path) is not False


def dispatched(run: Cpp, name: str, args: list[Value], loc: ir.Loc | None) -> Value:
    """Models methods of `c10::Dispatcher`: it finds operators, and calls those that it is given."""
    if name in FOUND:
        found = schema(args)
        return found if name.endswith("Throw") or _may_be_there(run, found) else None
    held = args[0].get() if args and isinstance(args[0], Slot) else next(iter(args), None)
    if not isinstance(held, Schema):
        return NotImplemented
    if name in BOXED:
        return boxed(run, held, args[1:], loc)
    return called(run, held, args[1 + (name == "redispatch") :], loc) if name in CALLED else NotImplemented


def _of_operators(name: str, args: list[Value]) -> Value:
    """Models what finds operators, of the dispatcher and of `torch::jit`, and the names and symbols that they are found
    by; NotImplemented for others."""
    space, _, short = name.rpartition("::")
    if short == "OperatorName":
        return OperatorName("c10::OperatorName", {"items": args})
    if name == "c10::Dispatcher::singleton":
        return Dispatcher(name)
    if space.endswith("Symbol") and args and isinstance(args[0], str):
        return args[0] if short == "fromQualString" else f"{short}::{args[0]}"
    if short not in _FOUND_BY_JIT:
        return NotImplemented
    found = schema(args)
    return [found] if short == "getAllOperatorsFor" else found


def stack_call(name: str, args: Sequence[Value]) -> Value:
    """Models `torch::jit::push(stack, a, b)`, `pop(stack, a, b)`, `drop(stack, n)`, `peek(stack, i, n)`; NotImplemented
    for others."""
    stack = _stack(args[:1]) if name.startswith(("torch::jit::", "jit::")) else None
    if stack is None:
        return NotImplemented
    short, rest = name.rpartition("::")[2], [one.get() if isinstance(one, Slot) else one for one in args[1:]]
    count = rest[-1] if rest and isinstance(rest[-1], int) else 1
    if short in ("push", "push_one"):
        stack.extend(rest)
    elif short == "pop" and not rest:
        return stack.pop() if stack else NotImplemented
    elif short == "pop" and len(rest) <= len(stack):  # to places, of which the last is what lies on top
        for place, value in zip(args[1:], stack[-len(rest) :], strict=True):
            if isinstance(place, Slot):
                place.set(value)
        del stack[-len(rest) :]
    elif short == "drop":
        del stack[max(len(stack) - count, 0) :]
    elif short == "peek" and len(rest) == 2 and isinstance(rest[0], int) and 0 <= rest[0] < count <= len(stack):
        return stack[len(stack) - count + rest[0]]
    else:
        return NotImplemented
    return None


def boxed(run: Cpp, owner: Schema, args: Sequence[Value], loc: ir.Loc | None) -> Value:
    """Models `op.callBoxed(stack)`: runs the operator on the values on the stack, which are replaced by its results."""
    stack = next((found for one in args if (found := _stack([one])) is not None), None)
    if stack is None:
        return NotImplemented
    made = called(run, owner, list(stack), loc)
    unnamed = owner.attrs["name"] is None  # nor is it known how many results it has
    stack[:] = list(made) if isinstance(made, (tuple, list)) else [made] * (len(stack) if unnamed else 1)
    return None


def _stack(args: Sequence[Value]) -> list[Value] | None:
    """The stack that a call is given, by reference or by its address."""
    held = args[0].get() if args and isinstance(args[0], Slot) else next(iter(args), None)
    return held if isinstance(held, list) else None
