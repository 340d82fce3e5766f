"""Rounds of a loop of C++ host code that are not followed: how many there are, and what they leave."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env, Func, Overloads, Value
from kbh_lint.cpp import integers
from kbh_lint.frontends.walk import walk
from kbh_lint.host.cpp import classes as cpp_classes
from kbh_lint.host.cpp import numbers as cpp_numbers
from kbh_lint.host.cpp.looping.computing import Computing, More, declared
from kbh_lint.host.cpp.std import containers, pure
from kbh_lint.host.cpp.types import MAX_COUNTED
from kbh_lint.host.python import loops
from kbh_lint.host.values.cpp_objects import CStruct, Slot
from kbh_lint.host.values.frames import BREAK, FULL_ITERATIONS, Returned
from kbh_lint.host.values.tensors import Content, Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

MOST_FUEL = 60_000  # of one loop with all in it, before it is asked whether it only computes
MOST_AGAIN = 4_000  # of one that was left before it ended
MOST_ELEMENTS = 1 << 17  # of a list, which are told one by one
_DEEP = 6
_WHY = "computed in a loop that was not followed to its end"
_HOLDERS = (list, CStruct, Slot)
_Place = tuple[int, Any]  # a table of variables, and a name in it


def _file(env: Env) -> Env:
    while env.parent is not None:
        env = env.parent
    return env


def of_loop(run: Cpp, node: ir.While | ir.CFor | ir.For, env: Env) -> Computing | None:
    """What a loop may write to that only computes; None where it may do more. `env` is the scope in which its variable
    is declared."""
    found = Computing(run, {}, {}, set(), [], {}, {}, [])
    own = frozenset[str]().union(*(declared(part) for part in node.body))
    if isinstance(node, ir.For):
        own |= {one.id for one in walk(node.target) if isinstance(one, ir.Name)}
    try:
        for name, held in _file(env).vars.items():
            for func in held.funcs if name.startswith("operator") and isinstance(held, Overloads) else ():
                found.function(func.node, func.env, frozenset())
        if isinstance(node, ir.For):
            if node.reference:
                found.writes(node.iterable, env, own)
            found.visit(node.iterable, env, own, False)
        else:
            step = getattr(node, "step", None)
            found.block([part for part in (node.test, step) if part is not None], env, own, False)
        found.block(node.body, env, own, False)
    except (More, KeyError, RecursionError):
        return None
    return found


@dataclass(slots=True)
class _Measured:
    """What is counted of a loop between two rounds: whole numbers, and lengths."""

    numbers: dict[_Place, int]
    lengths: dict[int, int]


def _measured(found: Computing) -> _Measured:
    numbers = {key: value for key, slot in found.places.items() if integers.is_plain(value := slot.get())}
    lengths = {key: len(held) for key, held in found.held.items() if isinstance(held, list)}
    return _Measured(numbers, lengths)


def finish(
    found: Computing,
    node: ir.While | ir.CFor | ir.For,
    env: Env,
    left: Callable[[dict[_Place, int]], int],
    one_round: Callable[[], Value],
) -> Value:
    """Leaves the rest of the rounds of a loop that only computes: follows two more, and makes what they all write
    unknown, but for counters and the lengths of lists that each round changes alike. `left` says how many rounds follow
    where each changes numbers so; 0 where that is not known. Returns the signal that ended it."""
    run, interp = found.run, found.run.interp
    before = [_measured(found)]
    for _ in range(2):
        signal = one_round()
        if signal is BREAK or isinstance(signal, Returned):
            return signal
        before.append(_measured(found))
    moved = _moved(found, node, *before)
    tested = {one.id for one in walk(getattr(node, "test", None) or ()) if isinstance(one, ir.Name)}
    steady = all(key in moved for key, slot in found.places.items() if slot.name in tested)
    jumps = any(isinstance(one, ir.Jump) for one in found.leaving)
    rounds = left(moved) if steady and not jumps else 0
    contents = tuple(dict.fromkeys(c for value in found.read for c in interp.contents_of(value)))
    for key, slot in found.places.items():
        _put(slot, moved.get(key, 0) * rounds, contents)
    _put_in_containers(found, node, before, rounds, contents)
    ending = (
        one for one in found.leaving if not isinstance(one, ir.Jump) and run.truth(Unknown(contents, _WHY), one.loc)
    )
    leaves = next(ending, None)
    if isinstance(leaves, ir.Return):
        return Returned(Unknown(contents, _WHY))
    return None if leaves is None else run.statement(leaves, env)


def _moved(
    found: Computing, node: ir.While | ir.CFor | ir.For, first: _Measured, middle: _Measured, last: _Measured
) -> dict[_Place, int]:
    """The counters, by how much each round changes them."""
    steps = {
        key: last.numbers[key] - middle.numbers[key]
        for key in last.numbers.keys() & middle.numbers.keys() & first.numbers.keys()
        if middle.numbers[key] - first.numbers[key] == last.numbers[key] - middle.numbers[key]
    }
    return {key: step for key, step in steps.items() if step and _counts(node, found.places[key].name)}


def _put(slot: Slot, more: int, contents: tuple[Content, ...]) -> None:
    """What a variable holds after the rounds that are left out: a counter so much more, else what nobody knows."""
    held = slot.get()
    if more and integers.is_plain(held):
        slot.set(integers.typed(held + more, held.dt) if isinstance(held, integers.Typed) else held + more)
    elif held is None or isinstance(held, (str, Unknown)) or cpp_numbers.is_number(held):
        slot.set(Unknown(contents, _WHY))


def _put_in_containers(
    found: Computing,
    node: ir.While | ir.CFor | ir.For,
    before: list[_Measured],
    rounds: int,
    contents: tuple[Content, ...],
) -> None:
    """What containers and objects hold after the rounds that are left out."""
    straight = not any(isinstance(one, (ir.If, ir.Cond, ir.Switch, ir.Bool)) for one in walk(node.body))
    first, middle, last = (one.lengths for one in before)
    for at, held in found.held.items():
        grown = last.get(at, 0) - middle.get(at, 0)
        alike = middle.get(at, 0) - first.get(at, 0) == grown and straight
        _forget(held, grown * rounds if alike and (rounds or not grown) else None, contents, found.held)
    for slot in found.places.values():
        if id(slot.get()) not in found.held:
            _forget(slot.get(), None, contents, found.held)


def _counts(node: ir.While | ir.CFor | ir.For, name: object) -> bool:
    """Whether a variable is assigned once in a loop, in every round, by the same step."""
    places = [one for one in walk(node) if isinstance(one, (ir.AssignE, ir.AugAssign, ir.Assign)) and _is(one, name)]
    always: list[Any] = [part.value if isinstance(part, ir.ExprS) else part for part in node.body]
    always += [getattr(node, "step", None)]
    handed = sum(isinstance(one, ir.Unary) and one.op == "&" and _is(one, name) for one in walk(node))
    return len(places) == 1 and not handed and any(places[0] is one for one in always)


def _is(node: object, name: object) -> bool:
    targets = node.targets if isinstance(node, ir.Assign) else (getattr(node, "target", getattr(node, "value", None)),)
    return any(isinstance(one, ir.Name) and one.id == name for one in targets)


def _forget(
    held: object, more: int | None, contents: tuple[Content, ...], apart: Mapping[int, object], depth: int = 0
) -> None:
    """Makes what a container or an object holds unknown, but for those in it that are looked after `apart`; `more`
    elements came to a list, None says that nobody knows how many."""
    unknown = Unknown(contents, _WHY)
    if depth > _DEEP or not isinstance(held, (list, CStruct)):
        return
    for item in held if isinstance(held, list) else held.attrs.values():
        if id(item) not in apart:
            _forget(item, None, contents, apart, depth + 1)
    if isinstance(held, CStruct):
        held.attrs.update({key: unknown for key, item in held.attrs.items() if not isinstance(item, _HOLDERS)})
        return
    held[:] = [item if isinstance(item, _HOLDERS) else unknown for item in held]
    if more is None or len(held) + more > MOST_ELEMENTS:
        held.append(containers.SoMany(contents, _WHY))
    else:
        held += [unknown] * more


def left_of(run: Cpp, node: ir.While | ir.CFor, env: Env) -> Callable[[dict[_Place, int]], int]:
    """How many rounds follow where each moves numbers so, by the numbers of places (`finish`)."""
    scope = cpp_numbers.Variables(run, env)

    def left(moved: dict[_Place, int]) -> int:
        tables = {id(table): at for at, table in enumerate(scope.tables)}
        known: dict[Hashable, int] = {
            (tables[table], name): step for (table, name), step in moved.items() if table in tables
        }
        return loops.rounds_left(scope, node, known)

    return left


def is_long(done: int, fuel: int, most: int) -> bool:
    """Whether a loop has taken so many rounds, or so much fuel, that the rest is not followed if it only computes."""
    return done >= MAX_COUNTED or fuel > most and done > (1 if most == MOST_AGAIN else FULL_ITERATIONS)


def known_long(run: Cpp, node: ir.While | ir.CFor) -> None:
    """Notes a loop that was left before it ended, and the loops in it: when they run again they are left sooner."""
    run.long_loops.update({id(one): one for one in walk(node) if isinstance(one, (ir.While, ir.CFor))})


def left_out(run: Cpp, node: ir.While | ir.CFor | ir.For, env: Env) -> None:
    """What the rounds of a loop assign that are left out may be anything, and what functions do that they call, too."""
    for part in walk(node.body):
        if isinstance(part, ir.Call) and _calls(part.func, env):
            run.interp.lost("calls in a loop that was not followed to its end", part.loc)
        if isinstance(part, ir.Index) and isinstance(_root(part, env), dict):
            run.interp.lost("a map in a loop that was not followed to its end", part.loc)
        if isinstance(part, (ir.Assign, ir.AugAssign, ir.AssignE)):
            targets = part.targets if isinstance(part, ir.Assign) else (part.target,)
            for target in targets:
                slot = run.place(target, env) if isinstance(target, (ir.Name, ir.Attr)) else None
                if slot is not None and slot.is_filled() and isinstance(slot.get(), (bool, int, float, str)):
                    slot.set(Unknown((), "assigned in a loop that was not followed to its end"))


def _calls(func: ir.Expr, env: Env) -> bool:
    """Whether a call is one of a function of the text, or of a method that changes an object or a container."""
    if isinstance(func, ir.Name):
        return isinstance(_held(func.id, env), (Overloads, Func))
    held = _root(func.value, env) if isinstance(func, ir.Attr) else None
    if isinstance(func, ir.Attr) and isinstance(held, CStruct):
        return cpp_classes.method(held, func.name) is not None
    changed = isinstance(func, ir.Attr) and func.name in pure.CHANGING
    if changed and isinstance(held, list):
        held.append(containers.SoMany((), _WHY))
    return changed and isinstance(held, dict)


def _root(node: ir.Expr, env: Env) -> Value:
    """What the variable holds of which an expression is a part."""
    while isinstance(node, (ir.Attr, ir.Index, ir.Unary)):
        node = node.value
    return _held(node.id, env) if isinstance(node, ir.Name) else None


def _held(name: str, env: Env) -> Value:
    held = env.get(name)
    return held.get() if isinstance(held, Slot) else held


def so_often(contents: tuple[Content, ...], numbers: cpp_numbers.Counted, lists: cpp_numbers.Lists) -> None:
    """What a loop of unknown length counted, and the lists that it made longer, depend on what decides its end."""
    if not contents:
        return
    for table, name, value in numbers:
        if table.get(name) != value and name in table:
            table[name] = Unknown(contents, "counted in a loop of unknown length")
    for held, before in lists:
        if len(held) > before:
            held.append(containers.SoMany(contents))
