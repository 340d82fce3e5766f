"""When two values of the interpreted program are equal, as far as that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes
from kbh_lint.base.values import DType, Sym, Value
from kbh_lint.host.values import bounds, opaque, taint, tensor_arguments, unknowns
from kbh_lint.host.values.containers import Keys
from kbh_lint.host.values.cpp_objects import CStruct
from kbh_lint.host.values.named_objects import Device
from kbh_lint.host.values.objects import Bound, Instance, LibObject, Method, ProcessNumber, compared_as, find_method
from kbh_lint.host.values.tensors import Sort, Tensor, Unknown
from kbh_lint.source.embedded import doubts

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

SUCCESS = Sym("CUDA_SUCCESS")
SUCCESSES = frozenset({"CUDA_SUCCESS", "cudaSuccess", "NVRTC_SUCCESS", "CUBLAS_STATUS_SUCCESS"})
FAILED = Sym("cuda.bindings.driver.CUresult.CUDA_ERROR_INVALID_VALUE")
_FAILED = FAILED.path.rpartition(".")[2]
_NUMBERS = ("fractions.", "decimal.")
_PLAIN = frozenset((int, float, bool, str, type(None)))  # which Python itself compares


def is_success(value: Value) -> bool:
    """Whether a value is the success status of a CUDA call."""
    return isinstance(value, Sym) and value.path.replace("::", ".").rpartition(".")[2] in SUCCESSES


def status(value: Value) -> int | None:
    """Returns the number of a status of a CUDA call: 0 of success, 1 where it was given a wrong one; None of others."""
    failed = isinstance(value, Sym) and value.path.rpartition(".")[2] == _FAILED
    return 0 if is_success(value) else 1 if failed else None


def same(interp: Run, left: Value, right: Value) -> Any:
    """Evaluates `left == right`, by the rule of the first kind of values that applies: True, False or an Unknown."""
    if left is right:
        return not isinstance(left, float) or left == left  # a NaN is not
    if type(left) in _PLAIN and type(right) in _PLAIN:
        return left == right
    for kind in _KINDS:
        answer = kind(interp, left, right)
        if answer is not NotImplemented:
            return answer
    return _same_objects(interp, left, right)


def _by_chance(interp: Run, left: Value, right: Value) -> Value:
    """A number of this process and one that the program writes."""
    if (type(left) is ProcessNumber) is (type(right) is ProcessNumber):
        return NotImplemented
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return NotImplemented
    unknown = unknowns.by_chance(left, right)
    return NotImplemented if unknown is None else unknown


def _bound(interp: Run, left: Value, right: Value) -> Value:
    """The same method of the same object."""
    both = isinstance(left, Bound) and isinstance(right, Bound) and left.self is right.self and left.func is right.func
    return True if both else NotImplemented


def _types(interp: Run, left: Value, right: Value) -> Value:
    """An element type, and one by the name that numpy and CuPy give it."""
    known, named = (left, right) if isinstance(left, DType) else (right, left)
    if not isinstance(known, DType) or not isinstance(named, Sym):
        return NotImplemented
    package, _, name = named.path.rpartition(".")
    found = dtypes.from_torch(name) if package in ("numpy", "cupy") else None
    return NotImplemented if found is None else found == known.name


def _unknown(interp: Run, left: Value, right: Value) -> Value:
    """What nobody knows."""
    if not isinstance(left, Unknown) and not isinstance(right, Unknown):
        return NotImplemented
    answer = unknowns.same_unknown(interp, left, right)
    return taint.presumed(True, Sort.ALIKE) if isinstance(answer, Unknown) and _alike(left, right) else answer


def is_nameless(value: object) -> bool:
    """Whether a value is taken for a tensor, or an attribute of one, and nobody knows what it is."""
    owner = value.self if isinstance(value, Method) else value
    return isinstance(owner, Tensor) and owner.is_nameless()


def _nameless(interp: Run, left: Value, right: Value) -> Value:
    """What an operation of torch gave that is not known, and is taken for a tensor."""
    if not is_nameless(left) and not is_nameless(right):
        return NotImplemented
    return False if left is None or right is None else unknowns.merged(interp, why="a comparison")


def _doubted(interp: Run, left: Value, right: Value) -> Value:
    """Texts that were made of unknown values."""
    if isinstance(left, str) and isinstance(right, str) and (doubts(left) or doubts(right)):
        return _same_text(interp, left, right)
    return NotImplemented


def _by_class(interp: Run, left: Value, right: Value) -> Value:
    """Objects whose class has an `__eq__`."""
    for one, other in ((left, right), (right, left)):
        own = find_method(one, "__eq__") if isinstance(one, Instance) else None
        if own is not None:
            answer = interp.call(own, [other], {}, None)
            if isinstance(answer, Unknown) and answer.sort is Sort.NOT_IMPLEMENTED:
                continue
            return answer if isinstance(answer, Unknown) else interp.truth(answer, None)
    return NotImplemented


def _statuses(interp: Run, left: Value, right: Value) -> Value:
    """The status of a CUDA call."""
    if not is_success(left) and not is_success(right):
        return NotImplemented
    return is_success(left) and is_success(right) or left == 0 or right == 0


def _of_fields(interp: Run, left: Value, right: Value) -> Value:
    """Objects of C++ by an `operator==`, others by their fields; keys of dicts, which are compared as sets."""
    if isinstance(left, CStruct) and isinstance(right, CStruct):
        answer = interp.cpp.equal(left, right)
        if answer is not NotImplemented:
            return answer if isinstance(answer, Unknown) else interp.truth(answer, None)
    if isinstance(left, (Instance, LibObject)) or isinstance(right, (Instance, LibObject)):
        one, other = compared_as(left), compared_as(right)
        if one is not left or other is not right:
            interp.burn()
            return same(interp, one, other)
    if isinstance(left, Keys) or isinstance(right, Keys):
        return same(interp, *(set(side) if isinstance(side, Keys) else side for side in (left, right)))
    return NotImplemented


def _sequences(interp: Run, left: Value, right: Value) -> Value:
    """Lists and tuples, item by item."""
    if not isinstance(left, (list, tuple)) or not isinstance(right, (list, tuple)):
        return NotImplemented
    if type(left) is not type(right) or len(left) != len(right):
        return False
    if not bounds.is_small(left) or not bounds.is_small(right):
        return _too_large(interp, left, right)
    doubt: Value = True
    for a, b in zip(left, right, strict=True):
        verdict = same(interp, a, b)
        if verdict is False:
            return False
        if verdict is not True:
            doubt = verdict
    return doubt


def _sets(interp: Run, left: Value, right: Value) -> Value:
    """Sets, of which an element that is not known may be the same as another."""
    if not isinstance(left, (set, frozenset)) or not isinstance(right, (set, frozenset)):
        return NotImplemented
    unknown = [*unknowns.of_set(left), *unknowns.of_set(right)]
    return unknowns.merged(interp, *unknown, why="a comparison") if unknown else NotImplemented


def _too_large(interp: Run, left: Value, right: Value) -> Unknown:
    return unknowns.merged(interp, left, right, why="a comparison past the bound")


def _mappings(interp: Run, left: Value, right: Value) -> Value:
    """Dicts, item by item; what is too large to be compared is not."""
    if not bounds.is_small(left) or not bounds.is_small(right):
        return _too_large(interp, left, right)
    return _same_items(interp, left, right) if isinstance(left, dict) and isinstance(right, dict) else NotImplemented


def _of_libraries(interp: Run, left: Value, right: Value) -> Value:
    """What libraries gave, of which more may be true than is known."""
    if not taint.of_library(left) and not taint.of_library(right):
        return NotImplemented
    if _alike(left, right):
        return taint.presumed(True, Sort.ALIKE)
    given = [(one.args, one.kwargs) for one in (left, right) if isinstance(one, LibObject)]
    return taint.presumed(_same_objects(interp, left, right) is True and given[1:] == given[:-1])


_KINDS = (
    _by_chance,
    _bound,
    _unknown,
    _nameless,
    _doubted,
    _by_class,
    _statuses,
    _types,
    _of_fields,
    _sequences,
    _sets,
    _mappings,
    _of_libraries,
)


def _alike(left: object, right: object) -> bool:
    """Whether two values that nobody knows were got in the same way, and not by asking who runs the submission."""
    return opaque.is_opaque(left) and opaque.alike(left, right) and taint.source(left, right) is None


def _same_items(interp: Run, left: dict[Any, Any], right: dict[Any, Any]) -> Value:
    """Whether dicts are equal, whose values may be unknown."""
    if len(left) != len(right) or any(key not in right for key in left):
        return False
    bounds.steps(interp, len(left))
    verdicts = [same(interp, value, right[key]) for key, value in left.items()]
    if False in verdicts:
        return False
    return next((verdict for verdict in verdicts if verdict is not True), True)


def _same_objects(interp: Run, left: Value, right: Value) -> Value:
    if isinstance(left, LibObject) and isinstance(right, LibObject):
        if not bounds.is_small(left.attrs) or not bounds.is_small(right.attrs):
            return unknowns.merged(interp, left, right, why="a comparison past the bound")
        return left.path == right.path and left.attrs == right.attrs
    for one, other in ((left, right), (right, left)):  # numbers of classes that are not followed
        if isinstance(one, LibObject) and one.path.startswith(_NUMBERS) and isinstance(other, (int, float)):
            return unknowns.merged(interp, left, right, why="a comparison")
    if isinstance(left, Device) or isinstance(right, Device):
        return tensor_arguments.same_device(left, right)
    if isinstance(left, (bytes, bytearray)) != isinstance(right, (bytes, bytearray)):  # bytes of a text are the text
        text, data = (right, left) if isinstance(left, (bytes, bytearray)) else (left, right)
        if isinstance(text, str) and str(text).encode("utf-8", "replace") == data:
            return unknowns.merged(interp, left, right, why="a comparison of a text and bytes")
    try:
        return bool(left == right)
    except Exception:
        return False


def _same_text(interp: Run, left: str, right: str) -> Value:
    """Whether texts are equal that were made of unknown values. A number that is no content of a tensor and was not
    asked for is taken to be the same each time, as the name of a device is."""
    values, others = doubts(left), doubts(right)
    if str(left) != str(right) or len(values) != len(others):
        return unknowns.merged(interp, left, right, why="a comparison")
    for a, b in zip(values, others, strict=True):
        fixed = not (a.contents or b.contents or taint.source(a, b)) and a.why == b.why
        verdict = fixed or same(interp, a, b)
        if verdict is not True:
            return verdict
    return True
