"""Kernel facts, analysed once for all bindings that cannot differ in them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kbh_lint.base.architectures import MOST_SHARED
from kbh_lint.base.values import FIELD, OBJECT, Buffer, Descriptor, Func, Made, Scalar, StructArg, Value
from kbh_lint.host.gpu import kernel_scope
from kbh_lint.host.gpu.kernel_scope import exact
from kbh_lint.host.values.session import Known
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.core.facts import MAX_TILE, KernelFacts, Origin, TileSizes, Traffic

if TYPE_CHECKING:
    from kbh_lint.host.values.session import Session

MAX_KNOWN = 256  # bindings of one kernel that differ in what decides
MAX_MET = 10_000  # of one file
_ALONE = frozenset((int, float, bool, str, type(None), Scalar))  # arguments that lead to no storage


def analyse(session: Session, kernel: Func, bindings: Sequence[dict[str, Any]]) -> list[KernelFacts]:
    """Returns the facts of `kernel` for each of the `bindings` of one launch, with its storages; equal facts are one
    object."""
    numbers: dict[int, int] = {}
    named = identity(kernel)
    seen: dict[int, tuple[Any, Any]] = {}  # by the id of an argument, which few configurations change
    found: list[KernelFacts] = []
    for binding in bindings:
        for value in binding.values():
            if id(value) not in seen:
                plain = normal(value, numbers)
                seen[id(value)] = plain, _as_key(plain)
        parts = [seen[id(value)] for value in binding.values()]
        # Most launches are met again: in the second call, on other paths, on tensors of the same types.
        key = (named, *binding, *[part for _, part in parts])
        try:
            facts = session.met.get(key)
        except TypeError:  # an argument that cannot be a key
            facts, key = None, ()
        if facts is None:
            normals = (plain for plain, _ in parts)
            facts = _analysed(session, kernel, named, dict(zip(binding, normals, strict=True)))
            if key and len(session.met) < MAX_MET:
                session.met[key] = facts
        found.append(facts)
    back = {local: real for real, local in numbers.items()}
    moved = {id(facts): _Moved.of(facts, back) for facts in found}
    return [moved[id(facts)] for facts in found]


def _as_key(value: Value) -> Value:
    """An argument as part of a key: as plain tuples, which are hashed and compared faster than the classes are."""
    if isinstance(value, Buffer):
        return Buffer, value.dtype, value.storage, value.content, value.leads, value.role
    if isinstance(value, Scalar):
        return Scalar, value.value, value.dtype
    return type(value), value


def _analysed(session: Session, kernel: Func, named: Hashable, binding: dict[str, Any]) -> KernelFacts:
    """The facts of the first binding that agrees with this one in what decided them, or of its own."""
    known = session.kernels.setdefault(named, [])
    for other in known:
        if _same(kernel, binding, other):
            return other.facts
    # runs on several GPUs launch kernels of one Python text, which see what these GPUs made of the scope around them
    shared = session.shared
    elsewhere = shared.kernels.setdefault(scope(session, kernel), []) if shared.several else []
    found = next((one for one in elsewhere if _same(kernel, binding, one)), None)
    if found is None:
        budget = session.budgets.kernels
        made = analyze(kernel, binding, budget=budget, outer=session.outer, heights=shared.heights)
        found = Known(kernel, binding, made)
        if len(elsewhere) < MAX_KNOWN:
            elsewhere.append(found)
    session.waiting = session.waiting or bool(found.facts.waits)
    if len(known) < MAX_KNOWN:
        known.append(found)
    return found.facts


def once(known: list[Known], kernel: Func, launch: Normal, ask: Callable[[dict[str, Any]], KernelFacts]) -> KernelFacts:
    """Returns the facts of a launch: those `known` for an equivalent binding, or else what `ask` computes."""
    found = next((one for one in known if _same(kernel, launch.binding, one)), None)
    if found is None:
        found = Known(kernel, launch.binding, ask(launch.binding))
        if len(known) < MAX_KNOWN:
            known.append(found)
    return _Moved.of(found.facts, {local: real for real, local in launch.storages.items()})


def _same(kernel: Func, binding: dict[str, Any], known: Known) -> bool:
    """Whether what is known of a kernel at other arguments holds at these."""
    other, decided = known.binding, known.facts.decided
    made = {name: other.get(name) for name, one in binding.items() if isinstance(one, Made)}
    alike = {name: two for name, two in made.items() if _alike(binding[name], two, decided)}
    if not agree(binding | alike if alike else binding, other, decided):
        return False
    if not _fit_alike(binding, other, known.facts.sizes):
        return False
    return bool(known.facts.tests.hold(kernel.node.loc, binding, known.binding))


def scope(session: Session, kernel: Func) -> Any:
    """Returns a cache key for a kernel and what it saw around it when the session first met it, for all sessions of a
    file; where these are hardly more than one, a key of this session alone, for what a kernel sees takes long to
    gather."""
    cpp = kernel.node.kind != "python"
    if not cpp and (kernel.language or kernel.env.parent is not None):
        return kernel_scope.key(kernel)
    found = session.scopes.get(id(kernel.node))
    if found is None:
        around: Hashable = id(session)
        if session.shared.several:
            around = tuple(map(id, session.lowered.values())) if cpp else kernel_scope.key(kernel)
        found = session.scopes[id(kernel.node)] = id(kernel.node), around
    return found


def identity(kernel: Func) -> Value:
    """Returns a cache key for a kernel. Where it closes over a function's variables, or its language compiles it anew
    for other globals, the key includes the values that it sees."""
    if kernel.node.kind != "python" or not kernel.language and kernel.env.parent is None:
        return id(kernel.node)
    return kernel_scope.key(kernel)


def agree(left: Mapping[str, Value], right: Mapping[str, Value], decided: frozenset[str]) -> bool:
    """Whether two bindings are equal but for numbers that decided no branch; `decided` names those that did."""
    if left.keys() != right.keys():
        return False
    for name, value in left.items():
        other = right[name]
        if value is other:
            continue
        if name in decided or not _plain(value) or not _plain(other):
            if type(value) is not type(other) or value != other:
                return False
    return True


def _alike(value: Value, other: Value, decided: frozenset[str], name: str = "") -> bool:
    """Whether two objects of a class differ only in numbers that decided nothing; `name` is that of a field of one."""
    if type(value) is not type(other):
        return False
    if isinstance(value, Made) and isinstance(other, Made):
        pairs = list(zip(value.fields, other.fields, strict=False))
        named = len(value.fields) == len(other.fields) and all(one[0] == two[0] for one, two in pairs)
        if value is other or value.path != OBJECT or not named:
            return value == other
        return all(_alike(one, two, decided, FIELD + key) for (key, one), (_, two) in pairs)
    if not name:
        return False
    if isinstance(value, tuple) and isinstance(other, tuple):
        return len(value) == len(other) and all(map(partial(_alike, decided=decided, name=name), value, other))
    if isinstance(value, Scalar) and isinstance(other, Scalar):
        if value.dtype != other.dtype or type(value.value) is not type(other.value):
            return False
    return value == other or _plain(value) and name not in decided


def _fit_alike(binding: Mapping[str, Value], other: Mapping[str, Value], sizes: TileSizes) -> bool:
    """Whether tiles whose sizes come from the numbers of `binding` are refused where those from `other` are, of which
    no argument says that it decided that: powers of two stay such, and what there is room for is not reached. Sizes
    grow at most as the numbers behind them do."""
    growth = 1.0
    for name in sizes.names:
        new, old = _number(binding.get(name)), _number(other.get(name))
        if new == old:
            continue
        if new is None or old is None or min(new, old) <= 0 or (new.bit_count() == 1) is not (old.bit_count() == 1):
            return False
        growth *= max(new / old, 1) ** sizes.power
    return growth == 1 or sizes.elements * growth <= MAX_TILE and sizes.operands * growth <= MOST_SHARED


def _number(given: object) -> int | None:
    """The whole number that an argument is."""
    number = given.value if isinstance(given, Scalar) else given
    return number if isinstance(number, int) else None


def _plain(value: Value) -> bool:
    return isinstance(value, (int, float, bool, Scalar))


def normal(value: Value, numbers: dict[int, int]) -> Any:
    """Returns an argument with storages numbered in order of appearance, so that equal launches on other tensors look
    equal."""
    if type(value) in _ALONE:
        return value
    if isinstance(value, Buffer):
        storage = numbers.setdefault(value.storage, len(numbers) + 1)
        leads = tuple([(name, normal(one, numbers)) for name, one in value.leads])
        return Buffer(value.dtype, storage, value.content, leads, value.role)
    if isinstance(value, Descriptor):
        return replace(value, storage=numbers.setdefault(value.storage, len(numbers) + 1))
    if isinstance(value, tuple):
        return tuple(normal(v, numbers) for v in value)
    if isinstance(value, StructArg):
        return StructArg(tuple((name, normal(v, numbers)) for name, v in value.fields))
    if isinstance(value, Made):
        return type(value)(value.path, tuple((name, normal(v, numbers)) for name, v in value.fields), value.methods)
    return value


class _Moved(KernelFacts):
    """Facts of a kernel with the storages of one launch. Each kind of fact is converted when it is first asked for,
    since most launches need no more than loads and stores."""

    __slots__ = ("_back", "_facts", "_known")
    _facts: KernelFacts
    _back: dict[int, int]
    _known: dict[frozenset[Origin], frozenset[Origin]]

    @classmethod
    def of(cls, facts: KernelFacts, back: dict[int, int]) -> _Moved:
        """Makes the facts `facts` of a launch on other storages, mapped by `back`. (`replace` calls the constructor
        with all fields.)"""
        made = cls.__new__(cls)
        made._facts, made._back, made._known, made._traffic = facts, back, {}, None
        return made

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._facts, name)
        if isinstance(value, list) and name not in ("uses", "unread"):
            value = [self._one(item) for item in value]
        setattr(self, name, value)
        return value

    def plain(self) -> KernelFacts:
        """Returns the facts of the kernel, with storages by number; of a copy with other fields itself."""
        facts: KernelFacts | None = getattr(self, "_facts", None)
        return self if facts is None else facts

    def traffic(self) -> Traffic:
        """Returns the loads and stores of the facts, on this launch's storages."""
        facts: KernelFacts | None = getattr(self, "_facts", None)
        if facts is not None and self._traffic is None:
            self._traffic = facts.traffic().moved(self._back)
        return super().traffic()

    def _one(self, item: Value) -> Value:
        kind: Any = type(item)
        fields_of, origins, storages = _parts(kind)
        if not origins and not storages:
            return item
        values = list(fields_of(item))
        for at in origins:
            values[at] = self._origins(values[at])
        for at in storages:
            values[at] = self._back.get(values[at], values[at])
        return kind(*values)

    def _origins(self, values: frozenset[Origin]) -> frozenset[Origin]:
        made = self._known.get(values)
        if made is None:
            back = self._back
            made = frozenset([Origin(o.param, back.get(o.storage, o.storage), o.dtype, o.flags) for o in values])
            self._known[values] = made
        return made


@cache
def _parts(
    made: type[Any],
) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[int, ...], tuple[int, ...]]:
    """What gives all fields of a fact, and the positions of those that hold origins or a storage."""
    names = [field.name for field in fields(made)]
    origins = tuple(at for at, name in enumerate(names) if name in ("origins", "a_origins", "b_origins"))
    return attrgetter(*names), origins, tuple(at for at, name in enumerate(names) if name == "storage")


def normal_key(binding: Mapping[str, Value]) -> tuple[Value, ...]:
    """Returns a hashable key for the arguments of a launch, the same for an equal launch on other tensors: storages are
    numbered in order of appearance."""
    return _normalised(binding).key


class Normal(NamedTuple):
    """A binding with storages numbered in order of appearance, the real storages by number, and a hashable key."""

    binding: dict[str, Any]
    storages: dict[int, int]
    key: tuple[Any, ...]


def normalised(cache: dict[Any, Any], binding: Mapping[str, Value]) -> Normal:
    """Returns a binding with storages numbered in order of appearance (`normal`), from the cache if it is there."""
    known = cache.get(("normal", id(binding)))
    if known is None or known[0] is not binding:
        known = cache["normal", id(binding)] = binding, _normalised(binding)
    return cast(Normal, known[1])


def _normalised(binding: Mapping[str, Value]) -> Normal:
    storages: dict[int, int] = {}
    plain = {name: normal(value, storages) for name, value in binding.items()}
    return Normal(plain, storages, tuple([(name, exact(value)) for name, value in plain.items()]))
