"""Objects of the types of C++'s and torch's libraries, of what they are made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Sym, Value
from kbh_lint.cpp import integers
from kbh_lint.host.cpp import copies
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp import types as cpp_types
from kbh_lint.host.cpp.std import calling, containers, copying, endings, functors, texts
from kbh_lint.host.values import bounds
from kbh_lint.host.values.containers import Tensors
from kbh_lint.host.values.cpp_objects import CStruct, Pointer, Slot
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

# What holds one value, or none: it is followed as that value.
HOLDERS = frozenset(
    "optional unique_ptr shared_ptr weak_ptr intrusive_ptr weak_intrusive_ptr variant any reference_wrapper MaybeOwned "
    "function Tensor IValue".split()
)
VIEWS = frozenset({"ArrayRef", "TensorList", "ITensorListRef", "span"})  # of elements that lie elsewhere
TENSORS = frozenset(("at::Tensor", "torch::Tensor", "Tensor"))
SIZED = frozenset({"vector", "deque", "list", "SmallVector", "DimVector", "Stack"})  # `(3)` makes three elements
_IN_PLACE = (Sym("std::in_place"), Sym("c10::in_place"))
CONTAINERS = VIEWS | SIZED | {"initializer_list", "array"}


@dataclass(slots=True)
class Making:
    """The construction of an object: its type, and constructor arguments or a `braces` list."""

    run: Cpp
    ref: ir.TypeRef
    items: list[Value]
    env: Env
    loc: ir.Loc | None
    braces: bool

    def part(self, at: int) -> ir.TypeRef | None:
        """Returns template argument number `at` of the constructed type; None where it is no type."""
        found = self.ref.args[at] if at < len(self.ref.args) else None
        if isinstance(found, ir.Name):  # of a library: the text does not say that it is a type
            return ir.TypeRef(found.id, (), found.loc)
        return found if isinstance(found, ir.TypeRef) else None

    def of(self, kind: ir.TypeRef, items: list[Value]) -> Value:
        """Makes an object of the type `kind`, an element or template argument of the constructed type."""
        return self.run.construct(kind, items, self.env, None)

    def may_call(self, *places: int) -> None:
        """Lets what the template arguments at some places are call their functions, in a run of its own: objects that
        compare, hash or end, and keys that are compared."""
        for at in places:
            one = self.part(at)
            if one is None or one.pointers or cpp_types.own_class(self.run, one, self.env) is None:
                continue
            found = list(functors.acting(self.run, self.of(one, [])))
            if found:
                calling.may_call(self.run, self.ref.name, found, self.loc)

    def later(self, kind: ir.TypeRef) -> Making:
        """Returns the same for objects of the type `kind` that come to be later: in the scope of that type where it
        says all, so that a variable does not hold its own scope alive."""
        own = cpp_types.own_class(self.run, kind, self.env) if not (kind.args or kind.member) else None
        return Making(self.run, self.ref, [], self.env if own is None else own.env, self.loc, self.braces)


def _held(made: Making) -> Value:
    """What holds one value is followed as that value; behind `std::in_place` stands what it is made of."""
    first, kind = made.items[0] if made.items else None, made.part(0)
    if first not in _IN_PLACE:
        ends = [item.get() if isinstance(item, Slot) else item for item in made.items[1:]]
        calling.may_call(made.run, made.ref.name, ends, made.loc)  # what ends what is held
        made.may_call(*range(1, len(made.ref.args)))
        return endings.own(first, True)
    return made.items[1] if len(made.items) == 2 or kind is None else made.of(kind, made.items[1:])


def _thread(made: Making) -> Value:
    """`std::thread`."""
    return calling.thread(made.run, made.items, made.loc)


def _tuple(made: Making) -> Value:
    """`std::pair` and `std::tuple`, of another one or of their items."""
    if len(made.items) == 1 and isinstance(made.items[0], (tuple, list)):
        return list(made.items[0])
    kinds = [one for one in made.ref.args if isinstance(one, ir.TypeRef)]
    return list(made.items) or [made.run.construct(one, [], made.env, made.loc) for one in kinds]


def _set(made: Making) -> Value:
    """`std::set` of its keys."""
    made.may_call(*range(len(made.ref.args)))
    made_of = containers.set_of(made.items)
    made_of.rising = made.ref.name.rsplit("::", 1)[-1] == "set" and len(made.ref.args) == 1
    return made_of


def _map(made: Making) -> Value:
    """`std::map` of its entries, which knows what a missing one is."""
    made.may_call(*(at for at in range(len(made.ref.args)) if at != 1))
    entries, kind = containers.map_of(made.items), made.part(1)
    if kind is not None:
        entries.fresh = partial(_fresh, made.later(kind), kind)
        entries.update(zip(entries, _objects(made, kind, list(entries.values())), strict=True))
    entries.rising = made.ref.name.rsplit("::", 1)[-1] == "map" and len(made.ref.args) == 2
    return entries


def _fresh(made: Making, kind: ir.TypeRef, given: Sequence[Value]) -> Value:
    """What a map makes of a value type: of nothing zero, an object without arguments, a tensor that is not defined yet;
    else an object of what its constructor is given. One that is there already is taken as it is."""
    own = not kind.pointers and cpp_types.own_class(made.run, kind, made.env) is not None
    if len(given) == 1 and (isinstance(given[0], CStruct) or not own):
        return given[0]
    value = made.of(kind, list(given))
    opaque = isinstance(value, LibObject) and not isinstance(value, CStruct)
    return Unknown((), "a missing entry") if opaque else value


def _container(made: Making) -> Value:
    """A container of another one, of all between two iterators, or of its elements."""
    first = made.items[0] if made.items else None
    if isinstance(first, Pointer) and len(made.items) == 2 and isinstance(last := made.items[1], Pointer):
        return copies.between(made.run.interp, first, last, made.loc)
    if isinstance(first, list):
        if len(made.items) == 1:
            return first
        if len(made.items) == 2 and not made.braces:  # two iterators, or an address and a number
            return first[: made.items[1] if integers.is_plain(made.items[1]) else None]
    return _elements(made)


def _heap(made: Making) -> Value:
    """`std::priority_queue` of nothing, or of all between two iterators."""
    made.may_call(*range(len(made.ref.args)))
    held = made.items[0] if made.items else None
    heap = containers.Heap(held if isinstance(held, list) and not isinstance(held, containers.Back) else ())
    heap.by = len(made.ref.args) > 2
    return heap


def _view(made: Making) -> Value:
    """Elements that lie elsewhere: all between two iterators are the container itself."""
    two = len(made.items) == 2 and isinstance(made.items[0], list) and not made.braces
    return made.items[0] if two and not integers.is_plain(made.items[1]) else _container(made)


def _sized(made: Making) -> Value:
    """A container that may be told how many elements it has, and what each is."""
    count = made.items[0] if made.items and not made.braces and integers.is_plain(made.items[0]) else -1
    if not 0 <= count <= bounds.MAX_ELEMENTS or len(made.items) > 2:
        return _container(made)
    bounds.items(made.run.interp, count)
    one, given = made.part(0), made.items[1:]
    if one is not None and not given and _is_tensor(one):
        return Tensors([None] * count)
    if given or one is None or one.pointers or cpp_types.own_class(made.run, one, made.env) is None:
        value = given[0] if given else 0
        plain = cpp_numbers.is_number(value)
        return [value] * count if plain else [copying.copied(made.run.interp, value) for _ in range(count)]
    return [made.of(one, []) for _ in range(count)]


def _array(made: Making) -> Value:
    """`std::array` of its elements; those that are not given are made of nothing."""
    items, one = _container(made), made.part(0)
    count = cpp_types.argument(made.run, made.ref.args[1], made.env) if len(made.ref.args) > 1 else None
    if one is None or not isinstance(items, list) or not integers.is_plain(count) or count > bounds.MAX_ELEMENTS:
        return items
    items = _objects(made, one, items)
    if made.items and items is made.items[0]:  # another array, which is handed on as it is
        return items
    bounds.items(made.run.interp, count)
    missing = range(count - len(items))
    if _is_tensor(one):
        items += [None for _ in missing]
    elif not one.pointers and cpp_types.own_class(made.run, one, made.env) is not None:
        items += [made.of(one, []) for _ in missing]
    elif one.pointers or dtypes.from_cpp(one.name) is not None:
        items += [0 for _ in missing]
    else:
        made_of_nothing = [made.of(one, []) for _ in missing[:1]]
        items += [None for _ in missing] if made_of_nothing == [None] else []  # pointers under a name of their own
    return items


def _text(made: Making) -> Value:
    """`std::string` of what its constructors take; NotImplemented where that is not known."""
    return texts.made_of(made.items, made.braces)


def _stream(made: Making) -> Value:
    """`std::stringstream` and its kin, which may begin with a text."""
    return texts.Stream("cpp.text_stream", {"text": (made.items or [""])[0], **texts.NEW})


def _is_tensor(one: ir.TypeRef) -> bool:
    return not one.pointers and one.name in TENSORS


def _elements(made: Making) -> Value:
    """A container of some elements, which knows how to make more where they are objects."""
    one, items = made.part(0), made.items
    if one is None or one.pointers:
        return list(items)
    if _is_tensor(one):
        return Tensors(items)
    if one.name.rpartition("::")[2] in ("pair", "tuple"):
        return containers.objects(items, tuple)
    if cpp_types.own_class(made.run, one, made.env) is None:
        return list(items)
    return containers.objects(_objects(made, one, list(items)), partial(made.later(one).of, one))


def _objects(made: Making, kind: ir.TypeRef | None, items: list[Value]) -> list[Value]:
    """Elements, or values of a map, of which braces are objects where their type is a class of the text:
    `{{1, 2}, {3, 4}}`."""
    braces = kind is not None and any(type(item) is list for item in items)
    if not braces or kind is None or kind.pointers or cpp_types.own_class(made.run, kind, made.env) is None:
        return items
    return [made.of(kind, item) if type(item) is list else item for item in items]


# By names without namespaces.
MAKERS: dict[str, Callable[[Making], Value]] = {
    **dict.fromkeys(HOLDERS, _held),
    **dict.fromkeys(("thread", "jthread"), _thread),
    **dict.fromkeys(("pair", "tuple"), _tuple),
    **dict.fromkeys(("set", "unordered_set"), _set),
    **dict.fromkeys(("map", "unordered_map"), _map),
    "priority_queue": _heap,
    **dict.fromkeys(texts.KINDS, _text),
    **dict.fromkeys(texts.STREAMS, _stream),
    **dict.fromkeys(CONTAINERS, _container),
    "array": _array,
    **dict.fromkeys(VIEWS, _view),
    **dict.fromkeys(SIZED, _sized),
}
