"""Whether a kernel reads each element of a tensor once: by what its addresses depend on.

Program indices (`tl.program_id`, `blockIdx`, `threadIdx`) and what is taken out of one by division, remainder and the
like are *atoms*. A load is read once when its address depends on every atom that any address of the kernel depends on,
and on every loop around it: then no two programs and no two iterations read the same place. Reading is by names alone,
without order; what cannot be told is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import gcd
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.values import Env
from kbh_lint.frontends.walk import children, walk
from kbh_lint.kernels.core.calls import own_function
from kbh_lint.kernels.core.identities import nothing_left
from kbh_lint.ops.catalogue import BY_POINTERS, spellings

MAX_ROUNDS = 12
MAX_CALLS = 3  # functions in functions
_READERS = (ir.Call, ir.Index, ir.Unary, ir.Asm)
_PARTS = frozenset(("//", "/", "%", ">>", "&"))
_PART_CALLS = {"clamp"} | spellings(
    "ceil_div", "min", "max", "where", "reduce_min", "reduce_max", languages=BY_POINTERS
)
_ACCESSES = spellings("load", "store", languages=(*BY_POINTERS, "cuda")) | spellings(
    "atomic_add", "block_pointer", languages=BY_POINTERS
)
_GRIDS = frozenset(("blockIdx", "threadIdx"))

Atoms = frozenset[Any]
NONE: Atoms = frozenset()


_AXES = {"x": 0, "y": 1, "z": 2}


class _Same:
    """A kernel that is equal to itself alone, so that answers about it can be kept, with the scope that it is in."""

    __slots__ = ("kernel", "env")

    def __init__(self, kernel: ir.FuncDef, env: Env | None) -> None:
        self.kernel = kernel
        self.env = env

    def __hash__(self) -> int:
        return id(self.kernel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.kernel is other.kernel


def read_once(
    kernel: ir.FuncDef, loc: ir.Loc, env: Env | None = None, single: frozenset[int] = frozenset()
) -> bool | None:
    """Whether the load at `loc` reads no element twice in one launch; `single` are the axes of the grid with one block.

    The load stands in the body of `kernel`, or in a function that it calls once and that `env` contains. None when it
    stands elsewhere.
    """
    return _read_once(_Same(kernel, env), loc[1:], single)


def axes(kernel: ir.FuncDef, loc: ir.Loc, env: Env | None = None) -> frozenset[int] | None:
    """The axes of the grid that the address of the load at `loc` depends on; None when that is unknown."""
    return _axes(_Same(kernel, env), loc[1:])


@lru_cache(maxsize=32)  # as of `_read_once`
def _axes(same: _Same, place: tuple[int, ...]) -> frozenset[int] | None:
    found = _reading(same.kernel.body or (), place, same.env, _Names({}, {}), 0)
    if found is None:
        return None
    whole = {b for a in found[0] for b in (a[2] if a[0] == "part" else (a,))}
    named = {_AXES.get(a[1], a[1]) for a in whole if a[0] in ("axis", "blockIdx")}
    return frozenset(at for at in named if isinstance(at, int)) if "?" not in named else None


@lru_cache(maxsize=32)  # every configuration of a kernel and every graded shape asks again
def _read_once(same: _Same, place: tuple[int, ...], single: frozenset[int]) -> bool | None:
    body, env = same.kernel.body or (), same.env
    found = _reading(body, place, env, _Names({}, {}), 0)
    if found is None:
        return None
    own, loops = _put_together(found[0]), found[1]
    if any(("loop", id(loop)) not in own for loop in loops):
        return False
    everywhere = {a for a in _everywhere(body, env) if not _always_same(a, single)}
    return bool(everywhere) and all(a in own or a[0] == "part" and a[2] <= own for a in everywhere)


def _put_together(atoms: Atoms) -> Atoms:
    """Atoms, with those of which there are a quotient and a remainder by one number: together they are the whole."""
    made: dict[tuple[Any, ...], set[str]] = {}
    for atom in atoms:
        if atom[0] == "part" and len(atom[2]) == 1 and atom[3] is not None:
            kind, number = atom[3]
            made.setdefault((atom[2], number), set()).add(kind)
    return atoms | {atom for (bases, _), kinds in made.items() if len(kinds) == 2 for atom in bases}


def _cut(node: object) -> tuple[str, int] | None:
    """Whether a division takes a quotient or a remainder, and by which number of its own."""
    if not isinstance(node, ir.Binary) or not isinstance(node.left, (ir.Name, ir.Attr)):
        return None
    if not isinstance(node.right, ir.Const) or type(node.right.value) is not int or node.right.value < 1:
        return None
    by = node.right.value
    if node.op in ("/", "//", "%"):
        return ("remainder" if node.op == "%" else "quotient"), by
    return (
        ("quotient", 1 << by) if node.op == ">>" and by < 32 else ("remainder", by + 1) if by & (by + 1) == 0 else None
    )


def _always_same(atom: tuple[Any, ...], single: frozenset[int]) -> bool:
    """Whether an index of a program, or a part of such, is the same in all programs of a grid."""
    if atom[0] == "part":
        return bool(atom[2]) and all(_always_same(base, single) for base in atom[2])
    return atom[0] in ("axis", "blockIdx") and _AXES.get(atom[1], atom[1]) in single


def _reading(
    body: Iterable[object], place: tuple[int, ...], env: Env | None, given: _Names, depth: int
) -> tuple[Atoms, tuple[Any, ...]] | None:
    """What the address of the load at a place depends on, and the loops around it; `given` says it of parameters."""
    names = _names(body, given)
    found = _around(body, place, ())
    if found is not None:
        return _atoms(_address(found[0]), names), found[1]
    calls = [(call, func) for call in walk(body) if (func := own_function(call, env)) is not None]
    for call, func in calls if depth < MAX_CALLS else ():
        if sum(other is func for _, other in calls) != 1:
            continue
        passed = [(p.name, value) for p, value in zip(func.params, call.args, strict=False)] + list(call.keywords)
        handed = _Names(
            {name: _atoms(value, names) for name, value in passed},
            {name: _multiple(value, names) for name, value in passed},
        )
        inside = _reading(func.body or (), place, env, handed, depth + 1)
        at = _around(body, call.loc[1:], ()) if inside is not None else None
        if inside is not None and at is not None:
            return inside[0], (*at[1], *inside[1])
    return None


def _everywhere(body: Iterable[object], env: Env | None) -> set[Any]:
    """What any address of a kernel depends on, loops aside; an argument of a function of the file may be one."""
    names = _names(body, _Names({}, {}))
    found: set[Any] = set()
    for node in walk(body):
        parts = [_address(node)] if _is_access(node) else list(node.args) if own_function(node, env) else []
        found |= {a for part in parts for a in _atoms(part, names) if a[0] != "loop"}
    return found


def _around(
    body: Iterable[object], place: tuple[int, ...], loops: tuple[object, ...]
) -> tuple[Any, tuple[Any, ...]] | None:
    """The node at a place, with the loops around it."""
    for node in body:
        inner = (*loops, node) if isinstance(node, (ir.For, ir.CFor, ir.While)) else loops
        if isinstance(node, _READERS) and node.loc is not None and node.loc[1:] == place:
            return node, loops
        found = _around(children(node), place, inner)
        if found is not None:
            return found
    return None


def _is_access(node: object) -> bool:
    if isinstance(node, (ir.Index, ir.Asm)) or isinstance(node, ir.Unary) and node.op == "*":
        return True
    return isinstance(node, ir.Call) and _called(node) in _ACCESSES


def _called(node: ir.Call) -> str:
    func = node.func
    name = func.name if isinstance(func, ir.Attr) else func.id if isinstance(func, ir.Name) else ""
    return name.rpartition("::")[2]


def _address(node: object) -> Any:
    """The part of an access that says where: the first argument of a call, the wide operands of assembly, all of an
    index."""
    if isinstance(node, ir.Asm):
        wide = tuple(value for constraint, value in node.inputs if "l" in constraint)
        return ir.Seq("tuple", wide or tuple(value for _, value in node.inputs), node.loc)
    if isinstance(node, ir.Call) and _called(node) != "make_block_ptr":
        return node.args[0] if node.args else node
    return node


@dataclass(slots=True)
class _Names:
    """What each name depends on, over all assignments, and a number that all of its values are multiples of."""

    atoms: dict[str, Atoms]
    multiples: dict[str, int]


def _names(body: Iterable[object], given: _Names) -> _Names:
    """What is known of each name; `given` is what is known of parameters."""
    names = _Names(dict(given.atoms), dict(given.multiples))
    assigned = [
        (name, value, loops, carried or name in {n.id for n in walk([value]) if isinstance(n, ir.Name)}, op)
        for name, value, loops, carried, op in _assignments(body, ())
    ]
    for name, *_ in assigned:
        if name not in given.multiples:
            names.multiples[name] = 0  # which all numbers divide: until something else is assigned
    for _ in range(MAX_ROUNDS):
        before = (dict(names.atoms), dict(names.multiples))
        for name, value, loops, carried, op in assigned:
            atoms = _atoms(value, names) if value is not None else NONE
            if carried:
                atoms |= {("loop", id(loop)) for loop in loops[-1:]}
            names.atoms[name] = names.atoms.get(name, NONE) | atoms
            plain = op in ("", "+", "-", "*")
            names.multiples[name] = gcd(names.multiples[name], _multiple(value, names) if plain else 1)
        if before == (names.atoms, names.multiples):
            break
    return names


def _multiple(node: object, names: _Names) -> int:
    """A number that the values of an expression are multiples of, as it is written: 0 of zero."""
    if isinstance(node, ir.Const):
        return abs(node.value) if type(node.value) is int else 1
    if isinstance(node, ir.Name):
        return names.multiples.get(node.id, 1)
    if isinstance(node, ir.Cast):
        return _multiple(node.value, names)
    if isinstance(node, ir.Call) and _called(node) == "range":
        args = node.args if len(node.args) > 1 else (ir.Const(0, node.loc), *node.args)
        return gcd(_multiple(args[0], names), _multiple(args[2], names) if len(args) > 2 else 1)
    if isinstance(node, ir.Binary):
        left, right = _multiple(node.left, names), _multiple(node.right, names)
        if node.op == "*":
            return left * right
        if node.op in ("+", "-"):
            return gcd(left, right)
        if node.op == "<<" and isinstance(node.right, ir.Const) and type(node.right.value) is int:
            return left << node.right.value if 0 <= node.right.value < 32 else 1
        by = _divisor(node)
        return left // by if by and left % by == 0 else 1
    return 1


def _divisor(node: ir.Binary) -> int:
    """The number that a quotient is by, as it is written; 0 where it is none."""
    by = node.right.value if isinstance(node.right, ir.Const) else None
    if type(by) is not int or by < 1:
        return 0
    return by if node.op in ("/", "//") else 1 << by if node.op == ">>" and by < 32 else 0


def _assignments(
    body: Iterable[object], loops: tuple[object, ...]
) -> Iterator[tuple[str, Any, tuple[Any, ...], bool, str]]:
    """(name, value, loops around, whether each iteration changes it, by which operator) of every assignment."""
    for node in body:
        if isinstance(node, ir.Assign):
            for target in node.targets:
                for name in _targets(target):
                    yield name, node.value, loops, False, ""
        elif isinstance(node, ir.AugAssign):
            for name in _targets(node.target):
                yield name, node.value, loops, True, node.op
        elif isinstance(node, ir.AssignE):
            for name in _targets(node.target):
                yield name, node.value, loops, bool(node.op), node.op
        elif isinstance(node, ir.Decl) and node.name:
            yield node.name, node.init, loops, False, ""
        elif isinstance(node, ir.For):
            for name in _targets(node.target):
                yield name, node.iterable, (*loops, node), True, ""
        inner = (*loops, node) if isinstance(node, (ir.For, ir.CFor, ir.While)) else loops
        yield from _assignments(children(node), inner)


def _targets(target: object) -> list[str]:
    return [n.id for n in walk([target]) if isinstance(n, ir.Name)] if not isinstance(target, ir.Index) else []


def _atoms(node: object, names: _Names) -> Atoms:
    """What an expression depends on."""
    if isinstance(node, ir.Name):
        return names.atoms.get(node.id, NONE)
    if isinstance(node, ir.Call) and _called(node) == "program_id":
        axis = node.args[0] if node.args else node.keywords[0][1] if node.keywords else None
        return frozenset((("axis", axis.value if isinstance(axis, ir.Const) else "?"),))
    if isinstance(node, ir.Attr) and isinstance(node.value, ir.Name) and node.value.id in _GRIDS:
        return frozenset(((node.value.id, node.name),))
    if isinstance(node, ir.Binary) and _always_zero(node):
        return NONE
    inside = NONE.union(*(_atoms(child, names) for child in children(node))) if node is not None else NONE
    if isinstance(node, ir.Binary) and node.op in _PARTS:
        by = _divisor(node)
        return inside if by and _multiple(node.left, names) % by == 0 else _part(node, inside)
    if isinstance(node, ir.Call) and _called(node) in _PART_CALLS:
        return _part(node, inside)
    return inside


def _part(node: ir.Binary | ir.Call, inside: Atoms) -> Atoms:
    """What a part of a number depends on, as `pid // 4` or `i % 8`: that part of what the whole depends on."""
    bases = frozenset(a for a in inside if a[0] != "loop")
    if not bases:
        return inside
    whole = frozenset(b for a in bases for b in (a[2] if a[0] == "part" else (a,)))
    cut = _cut(node) if bases == whole else None
    return frozenset(a for a in inside if a[0] == "loop") | {("part", node.loc[1:], whole, cut)}


def _always_zero(node: ir.Binary) -> bool:
    """Whether nothing of the operands is left: a product with zero, the remainder by one, a value less itself."""
    sides = [side.value if isinstance(side, ir.Const) else None for side in (node.left, node.right)]
    zero = any(type(side) in (int, float) and side == 0 for side in sides)
    by_one = node.op == "%" and type(sides[1]) is int and sides[1] == 1
    return node.op in ("*", "&") and zero or by_one or nothing_left(node)
