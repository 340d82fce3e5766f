"""Functions of C++'s standard library: those that read and change what they are given, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbh_lint.base import ir
from kbh_lint.base.values import Func, Value
from kbh_lint.cpp import integers
from kbh_lint.host.cpp import copies
from kbh_lint.host.cpp.std import calling, copying, ordering, removing, texts
from kbh_lint.host.cpp.std.containers import END, Back, put_through, stepped
from kbh_lint.host.torch import recording
from kbh_lint.host.values import bounds
from kbh_lint.host.values.cpp_objects import CStruct, Pointer, Slot
from kbh_lint.host.values.modelled import Library, Site, models
from kbh_lint.host.values.objects import LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

EXCHANGES = frozenset(("std::swap", "std::exchange", "std::getline"))  # their arguments are references
MAX_SORTED = 16  # elements of a list that is put in order


def call(run: Cpp, name: str, args: list[Value], loc: ir.Loc | None) -> Value:
    """Calls a function of the standard library: by its model, or else as any unknown function that may call or write
    its arguments; NotImplemented for all others."""
    for library in (_VALUES, _PLACES):
        model = name if name in library.functions else name.removeprefix("std::")
        if model in library.functions:
            given = args if library is _PLACES else [a.get() if isinstance(a, Slot) else a for a in args]
            made = library.call(Site(run.interp, model, loc, given))
            if made is not NotImplemented:
                return made
    made = ordering.call(run, name, args, loc)
    return made if made is not NotImplemented else calling.call(run, name, args, loc)


class _Values(Library):
    """Functions that are given values; an iterator is the container that it goes over."""

    @models("getenv", "secure_getenv")
    def variable(self, site: Site, name: Value, /) -> Value:
        """Models `getenv(name)`: the environment is clean, so only what the submission set itself is set."""
        return site.run.process.environ.get(str(name))

    @models("setenv")
    def set_variable(self, site: Site, name: Value, value: Value, overwrite: Value = 1, /) -> int:
        """Models `setenv(name, value, overwrite)`."""
        known = site.run.process.environ
        known[str(name)] = value if overwrite or str(name) not in known else known[str(name)]
        return 0

    @models("std::string", "std::string_view")
    def text(self, site: Site, *given: Value) -> Value:
        """Models `std::string(text)` and the like, on a text or characters."""
        return texts.made_of(site.args, False)

    @models("c10::str")
    def joined(self, site: Site, *parts: Value) -> Value:
        """Models `c10::str(a, b)`: texts and numbers behind each other."""
        known = [str(one) for one in parts if isinstance(one, str) or integers.is_plain(one)]
        return "".join(known) if len(known) == len(parts) else NotImplemented

    @models("to_string")
    def number(self, site: Site, value: Value, /) -> Value:
        """Models `std::to_string(number)`: six digits behind the point of a float."""
        if isinstance(value, float):
            return f"{value:f}"
        return str(int(value)) if integers.is_plain(value) else NotImplemented

    @models("fill")
    def fill(self, site: Site, first: Value, last: Value, value: Value, /) -> Value:
        """Models `std::fill`: all elements become one value."""
        if not isinstance(first, list):
            return NotImplemented
        first[:] = [value] * len(bounds.visited(site.run, first))
        return None

    @models("iota")
    def iota(self, site: Site, first: Value, last: Value, value: Value, /) -> Value:
        """Models `std::iota`: elements become a number and its successors."""
        if not isinstance(first, list) or not isinstance(value, int):
            return self.fill(site, first, last, value)
        first[:] = [value + i for i in range(len(bounds.visited(site.run, first)))]
        return None

    @models("begin", "cbegin")
    def begin(self, site: Site, container: Value, /) -> Value:
        """Models `std::begin`: an iterator at the first element."""
        return container if isinstance(container, list) else NotImplemented

    @models("end", "cend")
    def end(self, site: Site, container: Value, /) -> Value:
        """Models `std::end`: the end iterator."""
        return END if isinstance(container, list) else NotImplemented

    @models("next")
    def next(self, site: Site, at: Value, by: Value = 1, /) -> Value:
        """Models `std::next(iterator, n)`."""
        return stepped("+", at, by)

    @models("prev")
    def prev(self, site: Site, at: Value, by: Value = 1, /) -> Value:
        """Models `std::prev(iterator, n)`."""
        return stepped("-", at, by)

    @models("back_inserter")
    def back_inserter(self, site: Site, container: Value, /) -> Value:
        """Models `std::back_inserter`: an iterator that appends what is written through it."""
        return Back(container) if isinstance(container, list) else NotImplemented

    @models("reverse")
    def reverse(self, site: Site, first: Value, last: Value, /) -> Value:
        """Models `std::reverse`."""
        if not isinstance(first, list):
            return NotImplemented
        first.reverse()
        return None

    @models("sort", "stable_sort")
    def sort(self, site: Site, first: Value, last: Value, before: Value = None, /) -> Value:
        """Models `std::sort`, where every comparison is known."""
        if not isinstance(first, list) or len(first) > MAX_SORTED:
            return NotImplemented
        if len(first) == 1 and recording.numbers_read(first):  # it may stand for many
            return NotImplemented
        made = _ordered(site, first, before) if isinstance(before, Func) else _ascending(first)
        if made is None:
            return NotImplemented
        first[:] = made
        return None

    @models("remove")
    def remove(self, site: Site, first: Value, last: Value, value: Value, /) -> Value:
        """Models `std::remove` of a whole container: where what is to go begins."""
        if not isinstance(first, list) or isinstance(first, removing.Rest) or last != END:
            return NotImplemented
        return removing.partitioned(site.run, first, removing.equal_to(site, value))

    @models("std::erase")
    def erase(self, site: Site, container: Value, value: Value, /) -> Value:
        """Models `std::erase(container, value)`: how many elements went."""
        if not isinstance(container, list):
            return NotImplemented
        return removing.removed(site.run, container, removing.equal_to(site, value))

    @models("copy")
    def copy(self, site: Site, first: Value, last: Value, to: Value, /) -> Value:
        """Models `std::copy`: writes all elements through an output iterator."""
        if isinstance(first, Pointer) and isinstance(last, Pointer):
            first = copies.between(site.run, first, last, site.loc)
        return self._copied(site, first, to, None)

    @models("copy_n")
    def copy_n(self, site: Site, first: Value, count: Value, to: Value, /) -> Value:
        """Models `std::copy_n`: writes n elements through an output iterator."""
        if isinstance(first, Pointer):
            first = copies.between(site.run, first, first.moved(count), site.loc)
        return self._copied(site, first, to, count)

    def _copied(self, site: Site, items: Value, to: Value, count: Value) -> Value:
        if not isinstance(items, list) or not isinstance(to, list):
            return NotImplemented
        put_through(to, items[: count if type(count) is int else len(bounds.visited(site.run, items))])
        return None

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): NotImplemented."""
        return NotImplemented


class _Places(Library):
    """Functions that are given references and addresses."""

    @models("std::swap")
    def swap(self, site: Site, left: Value, right: Value, /) -> Value:
        """Models `std::swap`: exchanges the values of two places."""
        if not isinstance(left, Slot):
            return NotImplemented
        old = left.get()
        left.set(_held(right))
        if isinstance(right, Slot):
            right.set(old)
        return None

    @models("std::exchange")
    def exchange(self, site: Site, target: Value, value: Value, /) -> Value:
        """Models `std::exchange`: gives a place another value, and returns the former one."""
        if not isinstance(target, Slot):
            return NotImplemented
        old = target.get()
        target.set(_held(value))
        return old

    @models("std::getline")
    def getline(self, site: Site, stream: Value, text: Value, end: Value = 10, /) -> Value:
        """Models `std::getline`: the part of a stream up to a character, or the end of the line."""
        return texts.line(stream.get() if isinstance(stream, Slot) else stream, text, _held(end))

    @models("memcpy", "memmove")
    def copied(self, site: Site, to: Value, source: Value, size: Value, /) -> Value:
        """Models `memcpy(to, source, size)` onto a whole object of a class of the submission."""
        made, source = _object(to), _held(source)
        if made is None:
            return NotImplemented
        if isinstance(source, LibObject) and source.path == made.path:
            made.attrs.update(copying.copied(site.run, source).attrs)
        else:
            _fill(site, made, source, size)
        return None

    @models("memset")
    def memset(self, site: Site, to: Value, value: Value, size: Value, /) -> Value:
        """Models `memset(to, value, size)` on a whole object of a class of the submission; only zeros give known
        fields."""
        made, value = _object(to), _held(value)
        if made is None:
            return NotImplemented
        if value == 0:
            zeros = [key for key, old in made.attrs.items() if old is None or isinstance(old, (int, float))]
            nothing = [key for key, old in made.attrs.items() if isinstance(old, Unknown)]
            made.attrs.update({**dict.fromkeys(zeros, 0), **dict.fromkeys(nothing)})
        else:
            _fill(site, made, value, size)
        return None

    def other(self, site: Site) -> Value:
        """Answers a call without a fitting model (`Library.other`): NotImplemented."""
        return NotImplemented


_VALUES, _PLACES = _Values(), _Places()


def _held(value: Value) -> Value:
    return value.get() if isinstance(value, Slot) else value


def _object(to: Value) -> CStruct | None:
    """The object of the text whose address something is."""
    held = to.get() if isinstance(to, Slot) else None
    return held if isinstance(held, CStruct) else None


def _fill(site: Site, made: CStruct, value: Value, size: Value) -> None:
    """Nobody knows what the fields of an object hold, but from what it came."""
    contents = site.run.contents_of([value, _held(size)])
    made.attrs.update((key, Unknown(contents, site.name)) for key in made.attrs)


def _ascending(items: list[Value]) -> Sequence[Value] | None:
    """Numbers in order; None for others."""
    known = [item for item in items if type(item) is int or type(item) is float]
    return sorted(known) if len(known) == len(items) else None


def _ordered(site: Site, items: list[Value], before: Func) -> list[Value] | None:
    """Elements in the order that a function says; None where it does not know."""
    made: list[Value] = []
    for item in items:
        at, answer = len(made), None
        while at and (answer := site.run.cpp.call(before, [item, made[at - 1]], site.loc)) is True:
            at -= 1
        if at and answer is not False:
            return None
        made.insert(at, item)
    return made
