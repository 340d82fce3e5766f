"""Inputs of which one element says whether others are read: where two inputs agree in it, they are taken to agree in
all that a tile holds.

Followed are pointers to the inputs, what places vary with inside of a block (threads, lanes, rounds of loops), and
tests whether elements of two inputs at a place that does not vary are equal. A pointer that goes where it is not
followed, and a load that such a test does not stand before, say that the input is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.frontends.walk import children, walk
from kbh_lint.kernels.core.branches import last
from kbh_lint.kernels.extents.asked.held import NONE, PLAIN, Held, Sides, carried, compares, met, refers
from kbh_lint.kernels.extents.assigned import assigned_names
from kbh_lint.kernels.extents.loads import READS

MAX_DEPTH = 6
MAX_STEPS = 20_000
_SAME = ("to", "cast", "multiple_of", "max_contiguous")
_UNIFORM = frozenset(("program_id", "num_programs", "cdiv", "min", "max", "minimum", "maximum"))


class Lost(Exception):
    """Raised where a kernel cannot be followed."""


def asked_once(kernel: values.Func, args: Mapping[str, object], inputs: frozenset[int]) -> frozenset[int]:
    """Those of the storages `inputs` of which a kernel tests one element and reads others only on one side of that
    test."""
    if len(inputs) < 2 or not compares(kernel):
        return frozenset()
    walker = _Walk(kernel, args, inputs)
    try:
        walker.block(kernel.node.body or ())
    except (Lost, RecursionError):
        return frozenset()
    return frozenset(at for at in inputs - walker.lost if walker.decided(at))


class _Walk:
    def __init__(self, kernel: values.Func, args: Mapping[str, object], inputs: frozenset[int]) -> None:
        self.cpp = kernel.node.kind != "python"
        self.scope, self.inputs, self.args = kernel.env, inputs, args
        self.names: dict[str, Held] = {name: self.given(value) for name, value in args.items()}
        self.under = NONE
        self.loads: dict[int, list[Sides]] = {}  # at places that vary, each on which tests it is made
        self.single: dict[int, set[tuple[int, ...]]] = {}  # where loads stand at places that do not, by calls
        self.tests: dict[int, tuple[object, frozenset[int]]] = {}
        self.shared: set[str] = set()
        self.path: tuple[int, ...] = ()
        self.lost: set[int] = set()
        self.returned: list[Held] = []
        self.looped: frozenset[str] = frozenset()
        self.depth = self.steps = 0

    def given(self, value: object) -> Held:
        """What an argument of the launch holds."""
        if isinstance(value, values.StructArg):
            return Held(fields=tuple((name, self.given(part)) for name, part in value.fields))
        if isinstance(value, values.Buffer) and value.storage in self.inputs:
            return Held(at=((value.storage, NONE),))
        return PLAIN

    def decided(self, at: int) -> bool:
        """Whether the kernel reads varying places of input `at` only on one side of a test of one element of the same
        input."""
        varying = self.loads.get(at, [])
        common = frozenset.intersection(*varying) if varying else NONE
        return len(self.single.get(at, ())) == 1 and any(at in self.tests[test][1] for test, _ in common)

    # --- statements ---

    def block(self, body: Sequence[ir.Stmt]) -> None:
        """Follows the statements of a block."""
        for stmt in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise Lost
            handler = _STATEMENTS.get(type(stmt))
            if handler is not None:
                handler(self, stmt)
            else:
                self.lose(stmt)
                for _, target in stmt.outputs if isinstance(stmt, ir.Asm) else ():
                    self.assign(target, Held(varies=True))

    def lose(self, *nodes: object) -> None:
        """Marks the storages that names in `nodes` point to as read in unknown places."""
        for node in walk(nodes):
            if isinstance(node, ir.Name):
                self.lose_held(self.names.get(node.id, PLAIN))

    def lose_held(self, held: Held) -> None:
        """Marks the storages that `held` points to as read in unknown places."""
        self.lost |= {at for at, _ in held.at}
        for _, part in held.fields:
            self.lose_held(part)

    def assign(self, target: object, held: Held) -> None:
        """Assigns a value to a name, a tuple of names or a place in memory."""
        if isinstance(target, ir.Name):
            varies = held.varies or target.id in self.looped
            old = self.names.get(target.id)
            made = Held(held.at, varies, held.of, held.yes, held.no, held.fields)
            if old is not None and (old.at or old.fields) and (made.at != old.at or made.fields != old.fields):
                made = met(old, made) if not made.fields and not old.fields else self._dropped(old, made)
            self.names[target.id] = made
            return
        if isinstance(target, ir.Seq):
            self.lose_held(held)
            for item in target.items:
                self.assign(item, Held(varies=True))
            return
        self.lose_held(held)
        for part in children(target):
            self.of(part)

    def _dropped(self, *ways: Held) -> Held:
        for way in ways:
            self.lose_held(way)
        return PLAIN

    def given_to(self, node: ir.Assign) -> None:
        """Follows an assignment."""
        target, value = node.targets[0], node.value
        if isinstance(target, ir.Seq) and isinstance(value, ir.Seq) and len(target.items) == len(value.items):
            parts = [self.of(item) for item in value.items]
            for item, part in zip(target.items, parts, strict=True):
                self.assign(item, part)
            return
        held = self.of(value)
        for target in node.targets:
            self.assign(target, held)

    def declare(self, node: ir.Decl) -> None:
        self.names.pop(node.name, None)
        if "__shared__" in node.storage:
            self.shared.add(node.name)
        if node.type is not None and node.type.dims:
            self.lose(node.init)
        elif node.init is not None:
            init = node.init.items[0] if isinstance(node.init, ir.Seq) and len(node.init.items) == 1 else node.init
            self.assign(ir.Name(node.name, node.loc), self.of(init))

    def branch(self, node: ir.If) -> None:
        """Follows both sides of a branch, each with what its condition says, and joins the variables."""
        test, around, before = self.of(node.test), self.under, dict(self.names)
        ends = []
        for body, sides in ((node.body, test.yes), (node.orelse, test.no)):
            self.names, self.under = dict(before), around | sides
            self.block(body)
            ends.append((isinstance(last(tuple(body)), (ir.Return, ir.Jump)), self.names, self.under))
        stay = [end for end in ends if not end[0]]
        if len(stay) == 1:
            _, self.names, self.under = stay[0]
            return
        self.under = around
        self.names = {name: met(ends[0][1].get(name), ends[1][1].get(name)) for name in ends[0][1] | ends[1][1]}
        changed = assigned_names(node.body, False) | assigned_names(node.orelse, False)
        for name in changed & self.names.keys() if test.varies else ():
            held = self.names[name]
            if name not in self.shared:  # else threads have one in common
                self.names[name] = Held(held.at, True, fields=held.fields)

    def loop(self, node: ir.For | ir.CFor | ir.While) -> None:
        """Follows the body of a loop twice, so that what one iteration assigns is known in the next."""
        outer, around = self.looped, self.under
        if isinstance(node, ir.CFor):
            self.block(node.init)
        self.looped = outer | carried(node)
        for name in self.looped - outer:
            held = self.names.get(name, PLAIN)
            self.names[name] = Held(held.at, True, fields=held.fields)
        for _ in range(2):  # what a round assigns is there in the next one
            self.of(node.iterable if isinstance(node, ir.For) else node.test)
            self.block(node.body)
            self.of(node.step if isinstance(node, ir.CFor) else None)
        self.looped, self.under = outer, around

    # --- expressions ---

    def of(self, node: object) -> Held:
        """What an expression holds."""
        if node is None or isinstance(node, (ir.Const, ir.TypeRef)):
            return PLAIN
        handler = _EXPRESSIONS.get(type(node))
        return mixed([self.of(part) for part in children(node)], self) if handler is None else handler(self, node)

    def name(self, node: ir.Name) -> Held:
        return self.names.get(node.id, Held(varies=node.id == "threadIdx" or node.id in self.looped))

    def binary(self, node: ir.Binary) -> Held:
        a, b = self.of(node.left), self.of(node.right)
        if node.op in "&|" and (a.yes or b.yes or a.no or b.no):
            return self.both(node.op == "&", [a, b], node)
        if a.at and b.at or a.fields or b.fields:
            self.lose_held(a)
            self.lose_held(b)
        if (a.at or b.at) and node.op in "+-":
            return Held((*a.at, *b.at), a.varies or b.varies)
        return mixed([a, b], self)

    def both(self, conjoined: bool, parts: list[Held], node: object) -> Held:
        """All of the conditions `parts`, or any of them. If each tests an element, they count as one test."""
        made = mixed(parts, self)
        if all(part.yes and part.no for part in parts):
            return self.test(node, made.of, made)
        joined = frozenset(side for part in parts for side in (part.yes if conjoined else part.no))
        return Held((), made.varies, made.of, joined if conjoined else NONE, NONE if conjoined else joined)

    def test(self, node: object, of: frozenset[int], made: Held) -> Held:
        """A test on elements of the inputs `of`, and what is known on either side of it."""
        self.tests[id(node)] = node, of
        return Held((), made.varies, of, frozenset([(id(node), True)]), frozenset([(id(node), False)]))

    def compare(self, node: ir.Compare) -> Held:
        sides = [self.of(part) for part in (node.left, *node.rights)]
        made = mixed(sides, self)
        asks = node.ops in (("==",), ("!=",)) and not made.varies and sides[0].of and sides[1].of
        if not asks or sides[0].of == sides[1].of:
            return made
        found = self.test(node, made.of, made)
        return found if node.ops == ("==",) else Held((), False, found.of, found.no, found.yes)

    def unary(self, node: ir.Unary) -> Held:
        if node.op == "&" and isinstance(node.value, ir.Index):
            return self.binary(ir.Binary("+", node.value.value, node.value.index, node.loc))
        held = self.of(node.value)
        if node.op == "*" and held.at:
            return self.loaded(held, node)
        if node.op in ("!", "not", "~"):
            return Held((), held.varies, held.of, held.no, held.yes)
        return mixed([held], self) if node.op != "&" else self._dropped(held)

    def index(self, node: ir.Index) -> Held:
        base, index = self.of(node.value), self.of(node.index)
        if base.at and self.cpp:
            return self.loaded(Held(base.at, base.varies or index.varies), node)
        self.lose_held(index)
        return Held(base.at, base.varies or index.varies, base.of | index.of, base.yes, base.no)

    def loaded(self, pointer: Held, node: object, sides: Sides = NONE) -> Held:
        """What a load through `pointer` holds; notes under which tests it is made."""
        for at, chosen in pointer.at:
            if pointer.varies:
                self.loads.setdefault(at, []).append(self.under | chosen | sides)
            else:
                self.single.setdefault(at, set()).add((*self.path, id(node)))
        one = frozenset(at for at, _ in pointer.at) if not pointer.varies and len(pointer.at) == 1 else frozenset[int]()
        return Held(varies=pointer.varies, of=one)

    def attr(self, node: ir.Attr) -> Held:
        held = self.of(node.value)
        found = dict(held.fields).get(node.name)
        return found if isinstance(found, Held) else mixed([held], self)

    def choice(self, node: ir.Cond) -> Held:
        test, around, ways = self.of(node.test), self.under, []
        for part, sides in ((node.yes, test.yes), (node.no, test.no)):
            self.under = around | sides
            held = self.of(part)
            at = tuple((storage, chosen | sides) for storage, chosen in held.at)
            ways.append(Held(at, held.varies or test.varies and not held.at, held.of))
        self.under = around
        return met(*ways)

    def cast(self, node: ir.Cast) -> Held:
        """What `(T)x` holds. An address is kept only by a cast to a pointer to a type of whole numbers."""
        held = self.of(node.value)
        if held.at and not (node.type.pointers and dtypes.from_cpp(node.type.name) in dtypes.INTS):
            return self._dropped(held)
        return held

    def assignment(self, node: ir.AssignE) -> Held:
        whole = ir.Binary(node.op, node.target, node.value, node.loc) if node.op else node.value
        held = self.of(whole)
        self.assign(node.target, held)
        return held

    def own(self, node: ir.Call) -> tuple[str, values.Func | None]:
        """The name that is called, and the function of the submission of that name, if there is one."""
        func = node.func
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, (ir.Attr, ir.TypeRef)) else ""
        found = self.scope.get(name)
        found = found.funcs[0] if isinstance(found, values.Overloads) and len(found.funcs) == 1 else found
        found = found.func if isinstance(found, values.JitFunction) else found
        return name, found if isinstance(found, values.Func) else None

    def call(self, node: ir.Call) -> Held:
        func, (name, found) = node.func, self.own(node)
        if found is not None:
            return self.inline(found, node)
        name = name.rsplit("::", 1)[-1]
        told = {key: value for key, value in node.keywords if key is not None}
        if not self.cpp and name == "load" and node.args:
            mask = told.get("mask", node.args[1] if len(node.args) > 1 else None)
            held = self.of(mask)
            return self.loaded(self.of(node.args[0]), node, held.yes)
        parts = [self.of(part) for part in (*node.args, *told.values())]
        if self.cpp and name in READS and len(parts) == 1 and parts[0].at:
            return self.loaded(parts[0], node)
        if name in _SAME:
            return self.of(func.value) if isinstance(func, ir.Attr) and name == "to" else parts[0] if parts else PLAIN
        return self.other(name, node, parts)

    def other(self, name: str, node: ir.Call, parts: list[Held]) -> Held:
        """What the result of a function that is not followed holds, given its arguments."""
        func = node.func
        if isinstance(func, ir.Attr):
            self.lose(func.value)
        made = mixed(parts, self)
        if name == "arange" and not self.depth and len(node.args) == 2 and self._is_one(node.args[1]):
            return made
        plain = name in _UNIFORM or isinstance(func, ir.TypeRef) or dtypes.from_cpp(name) is not None
        return made if plain else Held(varies=True)

    def _is_one(self, node: object) -> bool:
        """Whether a size is one, so that a tile holds no other element than the one that is asked."""
        number = (
            node.value if isinstance(node, ir.Const) else self.args.get(node.id) if isinstance(node, ir.Name) else 0
        )
        return (number.value if isinstance(number, values.Scalar) else number) == 1

    def inline(self, func: values.Func, node: ir.Call) -> Held:
        """What a call of a function of the submission gives; its body is followed."""
        params, body = func.node.params, func.node.body
        if body is None or self.depth >= MAX_DEPTH or len(node.args) > len(params) or node.keywords and self.cpp:
            raise Lost
        given = dict(zip([param.name for param in params], node.args, strict=False))
        given |= {name: value for name, value in node.keywords if name is not None}
        if any(isinstance(part, (ir.Lambda, ir.FuncDef, ir.Opaque)) for part in walk(body)):
            raise Lost
        kept = self.names, self.scope, self.returned, self.looped, self.under
        names = {name: self.of(value) for name, value in given.items()}
        self.names, self.scope, self.returned, self.looped = names, func.env, [], frozenset()
        path, self.path = self.path, (*self.path, id(node))
        self.depth += 1
        self.block(body)
        self.depth -= 1
        made, self.path = self.returned, path
        self.names, self.scope, self.returned, self.looped, self.under = kept
        for param in params:
            value = given.get(param.name)
            if value is not None and refers(param):  # what is assigned through it is not followed
                self.lose(value)
                self.assign(value, Held(varies=True))
        result = made[0] if made else PLAIN
        for more in made[1:]:
            result = met(result, more)
        return result

    def leave(self, node: ir.Return) -> None:
        held = self.of(node.value)
        at = tuple((storage, chosen | self.under) for storage, chosen in held.at)
        self.returned.append(Held(at, held.varies, held.of, held.yes, held.no, held.fields))


def mixed(parts: list[Held], walk: _Walk) -> Held:
    """What a value computed from several holds. Pointers among them are no longer followed."""
    for part in parts:
        walk.lose_held(part)
    return Held(varies=any(part.varies for part in parts), of=frozenset(at for part in parts for at in part.of))


_STATEMENTS: dict[type, Callable[[_Walk, Any], object]] = {
    ir.Assign: _Walk.given_to,
    ir.AugAssign: lambda walk, node: walk.assign(
        node.target, walk.binary(ir.Binary(node.op, node.target, node.value, node.loc))
    ),
    ir.Decl: _Walk.declare,
    ir.ExprS: lambda walk, node: walk.of(node.value),
    ir.Block: lambda walk, node: walk.block(node.body),
    ir.If: _Walk.branch,
    ir.For: _Walk.loop,
    ir.CFor: _Walk.loop,
    ir.While: _Walk.loop,
    ir.Return: _Walk.leave,
    ir.Jump: lambda walk, node: None,
    ir.Using: lambda walk, node: None,
}
_EXPRESSIONS: dict[type, Callable[[_Walk, Any], Held]] = {
    ir.Name: _Walk.name,
    ir.Binary: _Walk.binary,
    ir.Unary: _Walk.unary,
    ir.Compare: _Walk.compare,
    ir.Bool: lambda walk, node: walk.both(node.op == "and", [walk.of(part) for part in node.values], node),
    ir.Index: _Walk.index,
    ir.Attr: _Walk.attr,
    ir.Cond: _Walk.choice,
    ir.Cast: _Walk.cast,
    ir.AssignE: _Walk.assignment,
    ir.Call: _Walk.call,
}
