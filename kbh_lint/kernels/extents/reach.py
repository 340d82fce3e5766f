"""Up to where in a tensor the stores of a launch can reach, whatever its grid: by the conditions that they stand under.

Addresses and masks are followed as sums of program ids, lanes and arguments. Nothing is claimed of a store that is not
seen as such: through a cast pointer, in a function that the kernel calls, at an address made of loaded data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kbh_lint.base import dtypes, ir, values
from kbh_lint.base.records import dataclass
from kbh_lint.cpp import integers
from kbh_lint.frontends.walk import by_node, walk
from kbh_lint.kernels.extents.assigned import assigned_each_time, assigned_names
from kbh_lint.kernels.extents.intervals import Atoms, Limits, Linear, add, highest, limited, lowest, scaled
from kbh_lint.ops.catalogue import spellings

Dims = tuple[Any, ...]
MAX_STEPS = 20_000
MAX_PARTS = 24  # of a number, one in another
_OPERATIONS = ("+", "-", "*", "//", "%", "<<", ">>", "&")
SAME = ("multiple_of", "max_contiguous", "max_constancy", "expand_dims", "broadcast_to", "cast", "to", "reshape",
        "__builtin_assume_aligned", "view", "static_cast")  # fmt: skip
_EXTREMES = {word: kind for kind in ("min", "max") for word in spellings(kind, f"reduce_{kind}", languages=("triton",))}


_OUTSIDE = values.Sym("")  # what a name stands for that the submission does not bind


class TooLong(Exception):
    """The kernel takes too many steps."""


class Pointer(NamedTuple):
    """An address: so many elements behind the start of a storage."""

    storage: int
    offset: Linear


class Described(NamedTuple):
    """A tensor that is read and written in boxes of `block`: behind a TMA descriptor, of which nothing outside is
    touched, or with `at`, where the box begins, a block pointer."""

    storage: int
    start: Linear
    shape: tuple[Linear, ...]
    strides: tuple[Linear, ...]
    block: tuple[int, ...]
    at: tuple[Linear, ...] | None = None


_AtMost = tuple[Linear, Linear, int]  # a <= b - room


@dataclass(frozen=True, slots=True)
class _Test:
    """A condition: what is known where it holds and where it does not; `doubt`: more than positions decides it."""

    yes: tuple[_AtMost, ...] = ()
    no: tuple[_AtMost, ...] = ()
    doubt: bool = False


Value = Linear | Pointer | Described | _Test


_Place = tuple[int, ir.Loc]  # of a store: the storage, and where the store stands


class Reach(NamedTuple):
    """What is known of the stores of a launch, by storage and place.

    `ends`: how many elements lie before the last one that a store can write (0: it writes none); one that is not known
    is left out. `doubtful`: stores under a condition on more than positions, as on what was loaded, which may never
    hold.
    """

    ends: dict[_Place, int]
    doubtful: set[_Place]


def reach(kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> Reach:
    """How far the stores of a launch of `grid` and `block` can reach, and which of them may not be made at all."""
    body = kernel.node.body or ()
    if not can_be_followed(body):
        return Reach({}, set())
    follow = Follow(kernel, args, grid, block)
    try:
        follow.run(body, {})
    except (TooLong, RecursionError):
        return Reach({}, set())
    ends = {at: n for at, n in follow.found.items() if n is not None}
    return Reach(ends, follow.doubtful - follow.firm)


@by_node
def can_be_followed(body: tuple[Any, ...]) -> bool:
    """Whether a kernel has nothing in it that addresses are not followed through."""
    return not any(_unfollowed(node) for node in walk(body))


def _unfollowed(node: object) -> bool:
    """Whether a kernel with such a node in it is left alone."""
    jumps = isinstance(node, ir.Jump) and node.kind == "goto"
    return jumps or isinstance(node, (ir.Lambda, ir.FuncDef)) or isinstance(node, ir.Decl) and _is_reference(node)


def _counts_elements(ref: object, args: Mapping[str, Any]) -> bool:
    """Whether a parameter is a number, or a pointer to single numbers and to no vectors or structs."""
    name = getattr(ref, "name", "")
    given = args.get(name)
    if isinstance(given, values.TypeValue):
        name = given.ref.name if not given.ref.pointers else ""
    known = isinstance(given, values.DType) or dtypes.from_cpp(name) is not None
    return isinstance(ref, ir.TypeRef) and (known and ref.pointers == 1 or not ref.pointers)


def unpacked(stmt: ir.Assign) -> list[tuple[ir.Expr, ir.Expr]]:
    """The names and values of `a, b = x, y`; nothing for any other assignment."""
    target = stmt.targets[0]
    if len(stmt.targets) != 1 or not isinstance(target, ir.Seq) or not isinstance(stmt.value, ir.Seq):
        return []
    plain = all(isinstance(item, ir.Name) for item in target.items)
    whole = not any(isinstance(item, ir.Star) for item in stmt.value.items)
    same = len(target.items) == len(stmt.value.items)
    return list(zip(target.items, stmt.value.items, strict=True)) if plain and whole and same else []


@by_node
def _continues(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether something in a loop goes on to the next round."""
    return any(isinstance(node, ir.Jump) and node.kind == "continue" for node in walk(body))


def _leaves(stmt: object) -> bool:
    return isinstance(stmt, ir.Return) or isinstance(stmt, ir.Jump) and stmt.kind in ("continue", "break")


def _is_reference(node: ir.Decl) -> bool:
    return node.type is not None and node.type.reference


class Follow:
    """One walk through a kernel: `env` holds what names stand for, `limits` of `run` what holds where it is."""

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> None:
        self.kernel = kernel
        self.cpp = kernel.node.kind != "python"
        self.atoms = Atoms()
        self.steps = 0
        self.env: dict[str, Value] = {}
        self.found: dict[_Place, int | None] = {}
        self.doubtful: set[_Place] = set()
        self.firm: set[_Place] = set()
        self.doubt = False  # a condition on more than positions holds here
        self.positions: set[int] = set()  # atoms without bounds that are arguments, or count rounds
        self.axes = {"program_id": self._positions(grid), "blockIdx": self._positions(grid)}
        self.axes["threadIdx"] = self._positions(block)
        sizes = {"num_programs": grid, "gridDim": grid, "blockDim": block}
        self.axes |= {name: [self._size(dims, i) for i in range(3)] for name, dims in sizes.items()}
        for param in kernel.node.params:
            given = args.get(param.name, kernel.defaults.get(param.name, values.UNKNOWN))
            counts = not self.cpp or _counts_elements(param.type, args)  # else offsets are in other units than stores
            self.env[param.name] = self._argument(given) if counts else self.unknown()
        for name, given in args.items():  # of a template
            if name not in self.env and isinstance(given, int):
                self.env[name] = self._argument(given)

    def _size(self, dims: Dims, axis: int) -> Linear:
        size = dims[axis] if axis < len(dims) else 1
        return Linear(size) if isinstance(size, int) else self.atoms.between(1, None)

    def _positions(self, dims: Dims) -> list[Linear]:
        sizes = [dims[i] if i < len(dims) else 1 for i in range(3)]
        return [self.atoms.between(0, n - 1 if isinstance(n, int) else None) for n in sizes]

    def _argument(self, given: object) -> Value:
        if isinstance(given, values.Buffer):
            return Pointer(given.storage, Linear(0))
        if isinstance(given, values.Descriptor):
            shape, strides = (tuple(Linear(n) for n in sizes) for sizes in (given.shape, given.strides))
            return Described(given.storage, Linear(0), shape, strides, given.block or ())
        number = given.value if isinstance(given, values.Scalar) else given
        return Linear(int(number)) if isinstance(number, int) else self._position()

    def _position(self) -> Linear:
        """A number that is not known, and that nothing but the launch and the place in it decides."""
        found = self.unknown()
        self.positions.add(found.terms[0][0])
        return found

    def unknown(self) -> Linear:
        return self.atoms.between(None, None)

    # --- statements ---

    def run(self, body: tuple[Any, ...], limits: Limits) -> Limits:
        """Follows statements; returns the limits that hold behind them."""
        for stmt in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TooLong
            limits = self._statement(stmt, limits)
        return limits

    def _statement(self, stmt: object, limits: Limits) -> Limits:
        if isinstance(stmt, ir.ExprS):
            self._effect(stmt.value, limits)
        elif isinstance(stmt, ir.Return):
            self._assigned(stmt.value)
        elif isinstance(stmt, ir.Decl):
            scalar = stmt.init is not None and not isinstance(stmt.init, ir.Seq) and not (stmt.type and stmt.type.dims)
            self._assigned(stmt.init)
            self.env[stmt.name] = self._held(self.value(stmt.init), stmt.type) if scalar else self.unknown()
        elif isinstance(stmt, ir.Assign):
            self._assigned(stmt.value)
            pairs = unpacked(stmt) or [(target, stmt.value) for target in stmt.targets]
            known = [self.value(value) for _, value in pairs]
            for (target, _), value in zip(pairs, known, strict=True):
                self._assign(target, value)
                self._element(target, limits, stmt.loc)
        elif isinstance(stmt, ir.AugAssign) and isinstance(stmt.target, ir.Name):
            self._assigned(stmt.value)
            self._assign(stmt.target, self._binary(stmt.op, self.value(stmt.target), self.value(stmt.value)))
        elif isinstance(stmt, ir.If):
            return self._if(stmt, limits)
        elif isinstance(stmt, (ir.For, ir.CFor, ir.While)):
            self._loop(stmt, limits)
        elif isinstance(stmt, ir.Block):
            inner = {n.name for n in stmt.body if isinstance(n, ir.Decl)}
            limits = self.run(stmt.body, limits)
            if len(inner) < len(stmt.body):  # else one declaration of several names
                self._forget(inner)
        else:
            self._assigned(stmt)
        return limits

    def _held(self, value: Value, kind: ir.TypeRef | None) -> Value:
        """What a declared variable holds of a value: a narrow type does not hold all."""
        dtype = dtypes.from_cpp(kind.name) if self.cpp and kind is not None and not kind.pointers else None
        if not isinstance(value, Linear) or dtype is None or dtype in dtypes.INTS and dtypes.BITS[dtype] >= 32:
            return value
        if value.terms or integers.held(value.const, dtype) != value.const:
            return self.unknown()
        return value

    def _if(self, stmt: ir.If, limits: Limits) -> Limits:
        self._assigned(stmt.test)
        test = _Test(doubt=True) if assigned_names(stmt.test, self.cpp) else self.value(stmt.test)
        yes, no = self._under(test, limits), self._under(test, limits, False)
        before, doubt = dict(self.env), self.doubt
        self.doubt = doubt or self._doubts(test)
        self.run(stmt.body, yes)
        after, self.env = self.env, before
        self.run(stmt.orelse, no)
        gone = bool(stmt.body) and _leaves(stmt.body[-1])
        self.doubt = self.doubt if gone else doubt
        for name in () if gone else after.keys() | self.env.keys():
            if after.get(name) is not self.env.get(name) and after.get(name) != self.env.get(name):
                self._differ(after.get(name), self.env.get(name))
                self.env[name] = self.unknown()
        return no if gone else limits

    def _differ(self, *ways: Value | None) -> None:
        """What a name stands for after either side of a branch is not the same."""

    def _loop(self, stmt: ir.For | ir.CFor | ir.While, limits: Limits) -> None:
        start: dict[str, Value] = {}
        if isinstance(stmt, ir.CFor):
            self.run(stmt.init, limits)
            start = {n.name: self.env[n.name] for n in stmt.init if isinstance(n, ir.Decl)}
        elif isinstance(stmt, ir.For):
            self._assigned(stmt.iterable)
        before = dict(self.env)
        self._assigned(stmt)
        inside, rounds = limits, self.atoms.between(0, None)
        if isinstance(stmt, ir.For):
            inside, rounds = self._counted(stmt, limits, rounds)
        self._carried(stmt, before, rounds)
        if not isinstance(stmt, ir.For) and stmt.test is not None:
            for name, first in start.items():
                step = stmt.step if isinstance(stmt, ir.CFor) else None
                if self._rises(step, name, stmt.body) and isinstance(first, Linear):
                    now = self.env[name] = self._position() if self._placed(first) else self.env[name]
                    inside = self._under(_Test(((first, now, 0),)), inside) if isinstance(now, Linear) else inside
            if not (isinstance(stmt, ir.While) and stmt.once or assigned_names(stmt.test, self.cpp)):
                inside = self._under(self.value(stmt.test), inside)
        doubt = self.doubt
        self.run(stmt.body, inside)
        self.doubt = doubt
        self._assigned(stmt)

    def _carried(self, stmt: ir.For | ir.CFor | ir.While, before: Mapping[str, Value], rounds: Linear) -> None:
        """What a name that each round adds the same to is in round `rounds`: where it began, and so many times that."""
        added: dict[str, list[Any]] = {}
        for node in stmt.body:
            name, by = self._adds(node.value if isinstance(node, ir.ExprS) else node)
            if name:
                added.setdefault(name, []).append(by)
        if not added or _continues(stmt.body):
            return
        changed = assigned_each_time(stmt, self.cpp)
        for name, (step, *more) in added.items():
            first, parts = before.get(name), list(walk(step))
            if more or changed.count(name) > 1 or any(isinstance(node, (ir.Call, ir.Index)) for node in parts):
                continue
            if first is None or {node.id for node in parts if isinstance(node, ir.Name)} & set(changed):
                continue
            if isinstance(first, Described):
                self.env[name] = self._moved(first, step, rounds)
                continue
            by = self.value(step)
            if isinstance(by, Linear) and not isinstance(first, _Test):
                self.env[name] = self._binary("+", first, self.atoms.apply("*", by, rounds))

    def _adds(self, node: object) -> tuple[str, Any]:
        """The name that a statement adds something to, and what: `p += n`, `p = p + n`, `p = tl.advance(p, n)`."""
        if isinstance(node, (ir.AugAssign, ir.AssignE)) and node.op == "+" and isinstance(node.target, ir.Name):
            return node.target.id, node.value
        if not isinstance(node, ir.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ir.Name):
            return "", None
        name, value = node.targets[0].id, node.value
        sides: tuple[Any, ...] = ()
        if isinstance(value, ir.Binary) and value.op == "+":
            sides = (value.left, value.right)
        elif isinstance(value, ir.Call) and len(value.args) == 2 and self._called(value.func) == "advance":
            sides = value.args
        added = bool(sides) and isinstance(sides[0], ir.Name) and sides[0].id == name
        return (name, sides[1]) if added else ("", None)

    def _moved(self, box: Described, by: object, times: Linear) -> Value:
        """A block pointer that is moved by so much along each axis, so many times."""
        steps = [self.value(step) for step in by.items] if isinstance(by, ir.Seq) else []
        if box.at is None or len(steps) != len(box.at) or not all(isinstance(step, Linear) for step in steps):
            return self.unknown()
        moves = [self.atoms.apply("*", step, times) for step in steps if isinstance(step, Linear)]
        return box._replace(at=tuple(add(at, move) for at, move in zip(box.at, moves, strict=True)))

    def _made(self, node: ir.Call) -> Value:
        """`make_tensor_descriptor(base, shape, strides, block_shape)` and `make_block_ptr(base, shape, strides,
        offsets, block_shape, order)`."""
        names = ["base", "shape", "strides", "block_shape"]
        if self._called(node.func) == "make_block_ptr":
            names.insert(3, "offsets")
        told = dict(zip(names, node.args, strict=False)) | {name: value for name, value in node.keywords if name}
        base = self.value(told["base"]) if "base" in told else None
        parts: list[tuple[Linear, ...]] = []
        for name in names[1:]:
            seq = told.get(name)
            numbers = [self.value(item) for item in seq.items] if isinstance(seq, ir.Seq) else []
            parts.append(tuple(number for number in numbers if isinstance(number, Linear)))
        rank = len(parts[0])
        block = tuple(size.const for size in parts[-1] if not size.terms)
        if not isinstance(base, Pointer) or not rank or any(len(part) != rank for part in (*parts, block)):
            return self.unknown()
        at = parts[2] if len(parts) == 4 else None
        return Described(base.storage, base.offset, parts[0], parts[1], block, at)

    def _counted(self, stmt: ir.For, limits: Limits, rounds: Linear) -> tuple[Limits, Linear]:
        """`for i in range(...)`: what the loop variable is between, and the number of the round."""
        call = stmt.iterable
        if not isinstance(stmt.target, ir.Name):
            return limits, rounds
        now = self.env[stmt.target.id] = self.unknown()
        if not isinstance(call, ir.Call) or self._called(call.func) not in ("range", "static_range"):
            return limits, rounds
        given = [self.value(a) for a in call.args]
        if not 1 <= len(given) <= 3 or not all(isinstance(g, Linear) for g in given):
            return limits, rounds
        first, last = (Linear(0), given[0]) if len(given) == 1 else (given[0], given[1])
        step = given[2] if len(given) == 3 else Linear(1)
        if isinstance(step, Linear) and not step.terms and step.const > 0:
            assert isinstance(first, Linear) and isinstance(last, Linear)
            left = highest(self.atoms, add(add(last, first, -1), Linear(1), -1), limits)
            rounds = self.atoms.between(0, None if left is None else max(left, 0) // step.const)
            if self._placed(first):
                now = self.env[stmt.target.id] = add(first, scaled(rounds, step.const))
            limits = self._under(_Test(((first, now, 0), (now, last, 1))), limits)
        return limits, rounds

    def _rises(self, step: object, name: str, body: tuple[Any, ...]) -> bool:
        """Whether a loop variable only grows: by `i += n` of something that is not negative, and nowhere else."""
        if not (isinstance(step, ir.AssignE) and isinstance(step.target, ir.Name) and step.target.id == name):
            return False
        by = self.value(step.value)
        if step.op != "+" or not isinstance(by, Linear) or name in assigned_names(body, True):
            return False
        most = highest(self.atoms, Linear(-by.const, tuple((a, -f) for a, f in by.terms)), {})
        return most is not None and most <= 0

    def _assign(self, target: object, value: Value) -> None:
        if isinstance(target, ir.Name):
            self.env[target.id] = value
        else:
            self._assigned(target)
            self._forget(
                {n.id for n in walk(target) if isinstance(n, ir.Name)} if isinstance(target, ir.Seq) else set()
            )

    def _assigned(self, node: object) -> None:
        """Nothing is known any more of what is assigned below a node, or given to a function that may change it."""
        if node is not None:
            self._forget(assigned_names(node, self.cpp))

    def _forget(self, names: Collection[str]) -> None:
        for name in names:
            self.env[name] = self.unknown()

    def _effect(self, node: object, limits: Limits) -> None:
        """An expression as a statement: a store, an assignment, or anything else."""
        if isinstance(node, ir.AssignE) and isinstance(node.target, ir.Name):
            self._assigned(node.value)
            value = self.value(node.value)
            self._assign(node.target, self._binary(node.op, self.value(node.target), value) if node.op else value)
            return
        if isinstance(node, ir.AssignE):
            self._element(node.target, limits, node.loc)
        elif isinstance(node, ir.Call) and not self.cpp and self._called(node.func) == "store" and node.args:
            given = dict(node.keywords)
            mask = given.get("mask", node.args[2] if len(node.args) > 2 else None)
            test = None if mask is None else self.value(mask)
            inside, doubt = limits if test is None else self._under(test, limits), self.doubt
            self.doubt = doubt or test is not None and self._doubts(test)
            self._stored(self.value(node.args[0]), inside, node.loc)
            self.doubt = doubt
        self._assigned(node)

    def _both(self, conjoined: bool, parts: list[Value]) -> Value:
        """All of some conditions, or any."""
        tests = [p for p in parts if isinstance(p, _Test)]
        yes, no = tuple(x for t in tests for x in t.yes), tuple(x for t in tests for x in t.no)
        doubt = any(self._doubts(p) for p in parts)
        return _Test(yes, (), doubt) if conjoined else _Test((), no, doubt)

    def _doubts(self, test: Value) -> bool:
        """Whether more than positions and arguments decides a condition."""
        return test.doubt if isinstance(test, _Test) else not self._placed(test)

    def _placed(self, value: Value, depth: int = 0) -> bool:
        """Whether a number is made of positions and arguments alone."""
        if not isinstance(value, Linear) or depth > MAX_PARTS:
            return False
        for atom, _ in value.terms:
            made = self.atoms.made.get(atom)
            if made is None and self.atoms.ranges[atom] == (None, None) and atom not in self.positions:
                return False
            if made is not None and not all(self._placed(part, depth + 1) for part in made[1:]):
                return False
        return True

    def _under(self, test: Value, limits: Limits, holds: bool = True) -> Limits:
        """The limits where a condition holds, or where it does not."""
        for a, b, room in () if not isinstance(test, _Test) else test.yes if holds else test.no:
            most, least = highest(self.atoms, b, limits), lowest(self.atoms, a, limits)
            limits = limited(limits, a, b, room)
            if b.terms and most is not None:
                limits = limited(limits, a, Linear(most), room)
            if a.terms and least is not None:
                limits = limited(limits, Linear(least), b, room)
        return limits

    def _element(self, target: object, limits: Limits, loc: ir.Loc) -> None:
        """A store to `target` if it is an element of memory."""
        if isinstance(target, ir.Index):
            where = self._binary("+", self.value(target.value), self.value(target.index))
            self._stored(where, limits, loc, target.loc)

    def _stored(self, where: Value, limits: Limits, *places: ir.Loc) -> None:
        if not isinstance(where, Pointer):
            return
        last = -1 if limits.get((), 0) < 0 else highest(self.atoms, where.offset, limits)
        for loc in places:
            (self.doubtful if self.doubt else self.firm).add((where.storage, loc))
            before = self.found.get((where.storage, loc), 0)
            known = before is not None and last is not None
            self.found[where.storage, loc] = max(before or 0, (last or 0) + 1, 0) if known else None

    # --- expressions ---

    def value(self, node: Any) -> Value:
        """What an expression stands for."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooLong
        kind = type(node)
        if kind is ir.Const:
            return Linear(node.value) if isinstance(node.value, int) else self._position()
        if kind is ir.Name:
            return self._name(node.id)
        if kind is ir.Binary:
            return self._binary(node.op, self.value(node.left), self.value(node.right))
        if kind is ir.Call:
            return self._call(node)
        if kind is ir.Compare and len(node.ops) == 1:
            return self._compare(node.ops[0], self.value(node.left), self.value(node.rights[0]))
        if kind is ir.Bool:
            return self._both(node.op == "and", [self.value(part) for part in node.values])
        if kind is ir.Unary:
            inner = self.value(node.value)
            if node.op == "not" and isinstance(inner, _Test):
                return _Test(inner.no, inner.yes, inner.doubt)
            return self._binary("-", Linear(0), inner) if node.op == "-" else self.unknown()
        if kind is ir.Cast:
            inner = self.value(node.value)
            return self.unknown() if node.type.pointers and isinstance(inner, Pointer) else inner
        if kind is ir.Index:  # x[:, None] is x; an element of memory is not known
            return self.value(node.value) if _widens(node.index) else self.unknown()
        if kind is ir.Attr:
            base = node.value.id if isinstance(node.value, ir.Name) else ""
            known = base in self.axes and base not in self.env and node.name in ("x", "y", "z")
            return self.axes[base]["xyz".index(node.name)] if known else self.unknown()
        return self.unknown()

    def _name(self, name: str) -> Value:
        found = self.env.get(name)
        if found is None:
            found = self.env[name] = self._argument(self.kernel.env.get(name))
        return found

    def _binary(self, op: str, a: Value, b: Value) -> Value:
        if op in ("&", "|") and isinstance(a, _Test) and isinstance(b, _Test):
            return self._both(op == "&", [a, b])
        if op == "+" and isinstance(b, Pointer):
            a, b = b, a
        if isinstance(a, Pointer) and isinstance(b, Linear) and op in ("+", "-"):
            return Pointer(a.storage, self.atoms.apply(op, a.offset, b))
        if not (isinstance(a, Linear) and isinstance(b, Linear)):
            return self.unknown()
        whole = "//" if op == "/" and self.cpp else op
        return self.atoms.apply(whole, a, b) if whole in _OPERATIONS else self.unknown()

    def _compare(self, op: str, a: Value, b: Value) -> Value:
        if not (isinstance(a, Linear) and isinstance(b, Linear)):
            return _Test(doubt=True)
        doubt = not (self._placed(a) and self._placed(b))
        less, more = ((a, b, 1),), ((b, a, 0),)
        if op in (">", "<="):
            less, more = ((b, a, 1),), ((a, b, 0),)
        if op in ("<", ">"):
            return _Test(less, more, doubt)
        if op in (">=", "<="):
            return _Test(more, less, doubt)
        same = ((a, b, 0), (b, a, 0))
        return _Test(same, (), doubt) if op == "==" else _Test((), same if op == "!=" else (), doubt)

    def _call(self, node: ir.Call) -> Value:
        name = self._called(node.func)
        given = list(node.args)
        if isinstance(node.func, ir.Attr) and name == "to" and not self.cpp:
            base = self.value(node.func.value)
            return self.unknown() if isinstance(base, Pointer) else base
        if name in ("make_tensor_descriptor", "make_block_ptr") and not self.cpp:
            return self._made(node)
        numbers = [self.value(a) for a in given]
        if name == "advance" and len(numbers) == 2 and isinstance(numbers[0], Described) and not self.cpp:
            return self._moved(numbers[0], given[1], Linear(1))
        if name in SAME and numbers:
            return self.unknown() if name == "cast" and isinstance(numbers[0], Pointer) else numbers[0]
        kind = dtypes.from_cpp(_type_name(node.func)) if self.cpp and len(numbers) == 1 else None
        if kind is not None and kind in dtypes.INTS and dtypes.BITS[kind] >= 32 and isinstance(numbers[0], Linear):
            return numbers[0]  # size_t(i)
        if name in ("program_id", "num_programs") and not self.cpp:
            axis = numbers[0] if numbers else self.value(dict(node.keywords).get("axis"))
            at = axis.const if isinstance(axis, Linear) and not axis.terms else -1
            return self.axes[name][at] if 0 <= at < 3 else self.unknown()
        pair = [n for n in numbers if isinstance(n, Linear)]
        if len(pair) != 2 or len(numbers) != 2:
            return self.unknown()
        a, b = pair
        if name == "arange" and not a.terms and not b.terms:
            return self.atoms.between(a.const, b.const - 1)
        if name in _EXTREMES:
            return self.atoms.apply(_EXTREMES[name], a, b)
        if name == "cdiv":
            return (
                self.atoms.apply("//", self.atoms.apply("+", a, Linear(b.const - 1)), b)
                if not b.terms
                else self.unknown()
            )
        return self.unknown()

    def _called(self, func: object) -> str:
        """The plain name of a function of the language; empty for one of the submission."""
        name = func.id.rsplit("::", 1)[-1] if isinstance(func, ir.Name) else getattr(func, "name", "")
        root = func
        while isinstance(root, ir.Attr):
            root = root.value
        if not isinstance(root, ir.Name) or name == "to":
            return name if name == "to" else ""
        return name if isinstance(self.kernel.env.get(root.id, _OUTSIDE), values.Sym) else ""


def _type_name(func: object) -> str:
    """The name of what is called if it may be a type of numbers."""
    if isinstance(func, ir.TypeRef):
        return "" if func.pointers or func.dims else func.name
    return func.id if isinstance(func, ir.Name) else ""


def _widens(index: object) -> bool:
    """Whether an index is only made of `:` and None."""
    parts = index.items if isinstance(index, ir.Seq) else (index,)
    return all(isinstance(p, ir.SliceE) or isinstance(p, ir.Const) and p.value is None for p in parts)
