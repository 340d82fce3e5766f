"""One walk through a kernel after its addresses, at the arguments of a launch: what its parts share, and the parts.

Addresses and masks are followed as sums of program ids, lanes and arguments. Nothing is claimed of an access that is
not seen as such: through a cast pointer, in a function that is not followed, at an address made of loaded data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

from kbh_lint import registry
from kbh_lint.base import dtypes, ir, values
from kbh_lint.frontends.walk import all_nodes, by_node
from kbh_lint.kernels.core.walker import OutOfFuel
from kbh_lint.kernels.extents.assigned import assigned_names, binds
from kbh_lint.kernels.extents.control import OneRound
from kbh_lint.kernels.extents.expressions import Expressions
from kbh_lint.kernels.extents.intervals import Atoms, Bound, Limits, Linear, highest, limited, lowest
from kbh_lint.kernels.extents.statements import Statements
from kbh_lint.kernels.extents.values import Described, Dims, Env, Frame, Pointer, Test, Value

if TYPE_CHECKING:
    from kbh_lint.kernels.extents.types import Types

MAX_STEPS = 20_000
MAX_PARTS = 24  # of a number, one in another
MAX_CALLS = 4  # of functions that compute places, one in another
NOT_FOLLOWED = (OutOfFuel, RecursionError)  # how a walk ends that says nothing


_Sizes = tuple[int | None, ...]  # along each axis; None where it is not known


def _sizes(dims: Dims) -> _Sizes:
    return tuple([size if isinstance(size, int) else None for size in (*dims[:3], *(1,) * (3 - len(dims)))])


@lru_cache(maxsize=256)
def _axes(grid: _Sizes, block: _Sizes) -> tuple[tuple[tuple[Bound, Bound], ...], dict[str, tuple[Linear, ...]]]:
    """What a launch has along its axes, by name, made of numbers that are new to a walk; and the ranges of these. A
    kernel is followed for several questions at one launch."""
    atoms = Atoms()

    def positions(sizes: _Sizes) -> tuple[Linear, ...]:
        return tuple([atoms.between(0, None if size is None else size - 1) for size in sizes])

    found = {"program_id": positions(grid), "blockIdx": positions(grid), "threadIdx": positions(block)}
    for name, sizes in (("num_programs", grid), ("gridDim", grid), ("blockDim", block)):
        found[name] = tuple([atoms.between(1, None) if size is None else Linear(size) for size in sizes])
    return tuple(atoms.ranges), found


class Follow:
    """A walk that follows the addresses in a kernel. `limits` hold where the walk is; `doubt` says that a condition on
    more than positions decides whether it gets there. Subclasses record loads and stores.

    Used in a `with` statement, at whose end the references between the walk and its parts are broken, so that they are
    freed without the garbage collector.
    """

    def __init__(self, kernel: values.Func, args: Mapping[str, Any], grid: Dims, block: Dims) -> None:
        self.cpp = kernel.node.kind != "python"
        self.frame = Frame(kernel, {})
        self.limits: Limits = {}
        self.doubt = False
        self.atoms = Atoms()
        self.unknown = self.atoms.anything  # a number of which nothing is known: asked for too often for a call more
        self.steps, self.most = 0, MAX_STEPS
        self.calls = 0
        self.kept: dict[
            tuple[str, int], bool
        ] = {}  # whether functions that are called leave their arguments as they are
        self.chosen: set[int] = set()  # atoms with bounds that what was loaded may have decided
        self.positions: set[int] = set()  # atoms without bounds that are arguments, or count iterations
        ranges, self.axes = _axes(_sizes(grid), _sizes(block))
        self.atoms.ranges += ranges  # of the first numbers that there are
        self.types: Types | None = None
        if self.cpp:
            from kbh_lint.kernels.extents.types import Types  # start-up: what has no C++ does without it

            self.types = Types(self, args)
        env = self.frame.env
        for param in kernel.node.params:
            given = args.get(param.name, kernel.defaults.get(param.name, values.UNKNOWN))
            counts = not self.cpp or self.counts_elements(param.type)  # else offsets are in other units than stores
            env[param.name] = self.argument(given) if counts else self.unknown()
        for name, given in args.items():  # of a template
            if name not in env and isinstance(given, int):
                env[name] = self.argument(given)
        self.expressions = Expressions(self)
        self.statements = Statements(self, OneRound(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.types is not None:
            self.types.classes.close()
            vars(self.types).clear()
        vars(self).clear()

    def run(self) -> None:
        """Follows the whole kernel; raises one of `NOT_FOLLOWED` where that is impossible."""
        self.statements.activate(self.frame, self.frame.kernel.node.body)

    def step(self, amount: int = 1) -> None:
        """Spends `amount` steps; raises OutOfFuel when none are left."""
        self.steps += amount
        if self.steps > self.most:
            raise OutOfFuel

    # --- values ---

    @property
    def env(self) -> Env:
        """The variables of the running function, with their values."""
        return self.frame.env

    def value(self, node: object) -> Value:
        """The value of an expression."""
        return self.expressions.value(node)

    def argument(self, given: object) -> Value:
        """The value of an argument of the kernel, or of a value from the scope around it."""
        if isinstance(given, values.Buffer):
            return Pointer(given.storage, Linear(0))
        if isinstance(given, values.Descriptor):
            shape, strides = (tuple(Linear(n) for n in sizes) for sizes in (given.shape, given.strides))
            return Described(given.storage, Linear(0), shape, strides, given.block or ())
        number = given.value if isinstance(given, values.Scalar) else given
        return Linear(int(number)) if isinstance(number, int) else self.position()

    def pointed(self, pointer: Pointer, kind: ir.TypeRef) -> Value:
        """The value of a pointer cast to another pointer type, `kind`."""
        return self.unknown()

    def address(self, node: object) -> Value:
        """The value of `&node`."""
        return self.unknown()

    def referred(self, node: object) -> Value:
        """The value of a C++ reference that is bound to the expression `node`."""
        return self.unknown()

    def member(self, node: ir.Attr) -> Value:
        """The value of `node.name`."""
        return self.unknown()

    def inlined(self, node: ir.Call) -> list[Value] | None:
        """The results of a call of a function of the submission that only computes numbers, given numbers; None for any
        other call."""
        func = None if self.cpp else self._own(node.func)
        if func is None or self.calls >= MAX_CALLS or not _computes(func.node.body or ()):
            return None
        names = [param.name for param in func.node.params]
        told = dict(zip(names, node.args, strict=False)) | {name: value for name, value in node.keywords if name}
        given = {name: self.value(part) for name, part in told.items()}
        given |= {name: self.argument(func.defaults[name]) for name in names if name in func.defaults.keys() - told}
        if given.keys() != set(names) or len(node.args) > len(names):
            return None
        if not all(isinstance(value, Linear) for value in given.values()):
            return None
        frame, self.frame = self.frame, Frame(func, given)
        self.calls += 1
        self.entered()
        try:
            *steps, last = func.node.body or ()
            for step in steps:
                if isinstance(step, ir.Assign):
                    self.statements.s_assign(step)
            value = last.value if isinstance(last, ir.Return) else None
            return [self.value(item) for item in (value.items if isinstance(value, ir.Seq) else (value,))]
        finally:
            self.frame = frame
            self.calls -= 1
            self.entered()

    def _own(self, func: object) -> values.Func | None:
        if not isinstance(func, ir.Name):
            return None
        found = self.frame.kernel.env.get(func.id)
        found = found.func if isinstance(found, values.JitFunction) else found
        return found if isinstance(found, values.Func) and found.node.kind == "python" else None

    def entered(self) -> None:
        """Called when another function begins to run, and when its caller goes on."""

    def position(self) -> Linear:
        """A new number that is unknown, but fixed by the launch and the position of the thread or iteration."""
        found = self.unknown()
        self.positions.add(found.terms[0][0])
        return found

    def placed(self, value: Value, depth: int = 0) -> bool:
        """Whether a number is computed from block and thread indices, loop counters and arguments alone, and not from
        loaded data."""
        if not isinstance(value, Linear) or depth > MAX_PARTS:
            return False
        for atom, _ in value.terms:
            made = self.atoms.made.get(atom)
            if made is None and self.atoms.ranges[atom] == (None, None) and atom not in self.positions:
                return False
            if atom in self.chosen:
                return False
            if made is not None and not all(self.placed(part, depth + 1) for part in made[1:]):
                return False
        return True

    def doubts(self, test: Value) -> bool:
        """Whether a condition depends on anything but positions and arguments."""
        return test.doubt if isinstance(test, Test) else not self.placed(test)

    def under(self, test: Value, limits: Limits, holds: bool = True) -> Limits:
        """`limits` with those added that follow from `test` being true, or false if `holds` is False."""
        if isinstance(test, Linear) and not test.terms and bool(test.const) is not holds:
            return limits | {(): -1}
        for a, b, room in () if not isinstance(test, Test) else test.yes if holds else test.no:
            most, least = highest(self.atoms, b, limits), lowest(self.atoms, a, limits)
            limits = limited(limits, a, b, room)
            if b.terms and most is not None:
                limits = limited(limits, a, Linear(most), room)
            if a.terms and least is not None:
                limits = limited(limits, Linear(least), b, room)
        return limits

    # --- types of C++ ---

    def element(self, ref: ir.TypeRef) -> str | None:
        """The element type that a type in the source names; None for pointers, vectors, classes and unknown types."""
        known = dtypes.from_cpp(ref.name) if not ref.member and not ref.pointers else None
        return known if known is not None or self.types is None else self.types.element(ref)

    def counts_elements(self, ref: object) -> bool:
        """Whether a parameter is a number, or a pointer to single numbers: not to vectors or structs, and not an object
        of a class template such as torch's accessors, whose indices may mean anything."""
        if not isinstance(ref, ir.TypeRef) or ref.args and not ref.pointers:
            return False
        return not ref.pointers or ref.pointers == 1 and self.element(replace(ref, pointers=0)) is not None

    # --- names ---

    def assigned(self, node: object) -> None:
        """Makes the variables unknown that are assigned below `node`, or passed to a function that may change them."""
        names = None if node is None else assigned_names(node, self.cpp, self.keeps)
        if names:
            self.forget(names)

    def keeps(self, called: str, position: int) -> bool:
        """Whether every function of the submission called `called` takes its argument at `position` by value."""
        known = self.kept.get((called, position))
        if known is None:
            funcs = self._funcs(called)
            known = self.kept[called, position] = bool(funcs) and all(_by_value(f.node, position) for f in funcs)
        return known

    def changes(self, called: str, position: int) -> bool:
        """Whether a function of the submission called `called` may change its argument at `position`."""
        return not self.keeps(called, position) and bool(self._funcs(called))

    def _funcs(self, called: str) -> list[values.Func]:
        """The functions of C++ of the submission that a name may mean."""
        try:
            found = self.frame.kernel.env.lookup(called)
        except KeyError:
            return []
        funcs = found.funcs if isinstance(found, values.Overloads) else [found]
        return funcs if all(isinstance(func, values.Func) for func in funcs) else []

    def computed(self, node: object) -> None:
        """Makes the variables unknown that the expression `node` assigns. Python expressions only assign where the
        kernel has a `:=`."""
        if self.cpp or binds(self.frame.kernel.node.body):
            self.assigned(node)

    def forget(self, names: Collection[str]) -> None:
        """Makes some variables unknown."""
        env = self.frame.env
        for name in names:
            env[name] = self.unknown()

    # --- what is noted ---

    def begins(self, stmt: object) -> None:
        """Called before each statement; subclasses record things here."""

    def ends(self, stmt: object) -> None:
        """Called after each statement."""

    def stored(self, where: Value, *places: ir.Loc) -> None:
        """Called for each store to the address `where`; `places` are the places in the source to record it under."""

    def differs(self, *ways: Value | None) -> None:
        """Called where a variable has the different values `ways` behind the two sides of a branch."""

    def passed(self, before: Mapping[str, Value]) -> None:
        """Called behind a branch or a loop; `before` has the variables from before it."""


def can_be_followed(kernel: values.Func, *, references: bool = False) -> bool:
    """Whether addresses can be followed through all of a kernel: its language uses pointers, and it has only statements
    that the walk knows. `references`: the caller follows C++ references to elements of memory too."""
    if not registry.by_pointers(kernel.language):
        return False
    return _has_only_followed(kernel.node.body or ())[references]


def _by_value(func: ir.FuncDef, position: int) -> bool:
    """Whether a parameter is none that a call may change the argument through."""
    kind = func.params[position].type if position < len(func.params) else None
    return isinstance(kind, ir.TypeRef) and (not kind.reference or kind.const and not kind.pointers)


@by_node
def _has_only_followed(body: tuple[object, ...]) -> tuple[bool, bool]:
    """Whether nothing in a body is not followed, and whether nothing but references to elements of memory is."""
    others = [node for node in all_nodes(body) if type(node) in _LOOKED_AT and _unfollowed(node)]
    return not others, all(map(_refers_to_a_place, others))


@by_node
def _computes(body: tuple[object, ...]) -> bool:
    """Whether a function is a few assignments and what it returns."""
    *steps, last = body or (None,)
    plain = all(
        isinstance(step, ir.Assign) or isinstance(step, ir.ExprS) and isinstance(step.value, ir.Const) for step in steps
    )
    return plain and isinstance(last, ir.Return) and last.value is not None


_LOOKED_AT = frozenset((ir.Jump, ir.Lambda, ir.FuncDef, ir.Decl))  # the kinds of nodes that may be none


def _unfollowed(node: object) -> bool:
    """Whether a kernel with such a node in it is left alone."""
    jumps = isinstance(node, ir.Jump) and node.kind == "goto"
    return jumps or isinstance(node, (ir.Lambda, ir.FuncDef)) or isinstance(node, ir.Decl) and _is_reference(node)


def _refers_to_a_place(node: object) -> bool:
    """`Part& part = parts[i];`, of which the names in it are no others for variables."""
    if not isinstance(node, ir.Decl) or node.type is None or node.type.pointers:
        return False
    place = node.init
    while isinstance(place, ir.Attr):
        place = place.value
    return isinstance(place, ir.Index) or isinstance(place, ir.Unary) and place.op == "*"


def _is_reference(node: ir.Decl) -> bool:
    return node.type is not None and node.type.reference
