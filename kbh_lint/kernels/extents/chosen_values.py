"""Expressions of a kernel by what they are made of: indices of blocks, what varies inside of one, offsets of groups,
and what was chosen by these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kbh_lint.base import dtypes, ir, values
from kbh_lint.frontends.walk import children, walk
from kbh_lint.kernels.extents.loads import READS
from kbh_lint.ops.catalogue import BY_POINTERS, OPERATIONS, spellings


class Axis(NamedTuple):
    """The index of a block along an axis of the grid."""

    at: int


class To(NamedTuple):
    """Marks an address in the memory behind the parameter `param`."""

    param: str


Mark = str | Axis | To
Marks = frozenset[Mark]
NONE: Marks = frozenset()
OFFSET = "an offset"
PLACE = "the address of offsets"
CHOSEN = "what a comparison with an offset decided"
VARIES = "other numbers in a block: a lane, an element of a tile, a round of a loop"
_AXES = {"x": 0, "y": 1, "z": 2}
_SAME_IN_A_BLOCK = frozenset(("gridDim", "blockDim", "warpSize"))
_KNOWN_CALLS = frozenset(
    "to cast reshape view expand_dims broadcast_to broadcast trans multiple_of max_contiguous max_constancy cdiv"
    " num_programs constexpr int size_t static_cast zeros full dot".split()
).union(
    *(spellings(kind, languages=BY_POINTERS) for kind in ("min", "max", "reduce_min", "reduce_max")),
    ("sum", "cumsum", "min", "max", "std::min", "std::max", "::min", "::max"),
    (word for row in OPERATIONS if row.kind in ("function", "whole", "extreme", "bits", "cast")
     for word in row.spellings.get("cuda", ())),
)  # fmt: skip
_NO_MEMORY = (
    bool,
    int,
    float,
    str,
    values.TypeValue,
    values.CppType,
    values.Func,
    values.Overloads,
    values.DType,
    values.Sym,
)


class Undecided(Exception):
    """Raised where offsets distinguish the rows of a tile, or where that cannot be excluded."""


class Values:
    """Computes the marks of expressions, in the running function; `static` are the pointer parameters whose addresses
    must not depend on offsets."""

    def __init__(
        self, kernel: values.Func, args: Mapping[str, object], offsets: Iterable[str], static: frozenset[str]
    ) -> None:
        self.cpp = kernel.node.kind != "python"
        self.scope = kernel.env
        self.static = static
        self.names: dict[str, Marks] = {}
        for name, given in args.items():
            self.names[name] = frozenset((To(name),)) if isinstance(given, values.Buffer) else NONE
        self.names |= dict.fromkeys(offsets, frozenset((PLACE,)))
        self.axes: set[int] = set()  # of the grid, that offsets are compared with
        self.asked = False  # whether an offset was compared
        self.touched: set[str] = set()  # pointers that something is read or written through
        self.lambdas: dict[str, ir.FuncDef] = {}

    def inline(self, func: ir.FuncDef, scope: values.Env | None, node: ir.Call) -> Marks:
        """The marks of the result of a call of a function of the submission."""
        raise NotImplementedError

    def carried(self, parts: tuple[object, ...], marks: Marks) -> Marks:
        """The marks of a value computed from `parts` at this place, `marks` being those of its parts."""
        raise NotImplementedError

    def assign(self, target: object, marks: Marks) -> None:
        """Assigns a value with these marks to a name, or stores it."""
        raise NotImplementedError

    # --- expressions ---

    def of(self, node: object) -> Marks:
        """The marks of an expression: what it is computed from."""
        if node is None or isinstance(node, (ir.Const, ir.TypeRef)):
            return NONE
        handler = _EXPRESSIONS.get(type(node))
        if handler is not None:
            return handler(self, node)
        return self.all_of(children(node))

    def all_of(self, nodes: Iterable[object]) -> Marks:
        """The united marks of several expressions."""
        return self.checked(NONE.union(*map(self.of, nodes)))

    def checked(self, marks: Marks) -> Marks:
        """Returns `marks`; raises Undecided where they mix offsets with values that differ inside a block, or with
        addresses."""
        if OFFSET in marks and (VARIES in marks or is_address(marks)):
            raise Undecided
        if CHOSEN in marks and any(isinstance(mark, To) and mark.param in self.static for mark in marks):
            raise Undecided
        return marks

    def name(self, node: ir.Name) -> Marks:
        """The marks of a variable."""
        if node.id in self.lambdas:  # whoever gets it may call it for each row
            raise Undecided
        found = self.names.get(node.id)
        if found is not None:
            return found
        outer = self.scope.get(node.id)
        if self.cpp and outer is not None and not isinstance(outer, _NO_MEMORY):  # a plan may lie there
            raise Undecided
        known = node.id in _SAME_IN_A_BLOCK or outer is not None
        return NONE if known else frozenset((VARIES,))

    def attribute(self, node: ir.Attr) -> Marks:
        """The marks of `blockIdx.x`, of a field, or of a member of a module."""
        base = node.value.id if isinstance(node.value, ir.Name) else ""
        if base == "blockIdx":
            return frozenset((Axis(_AXES.get(node.name, 0)),))
        if base in _SAME_IN_A_BLOCK:
            return NONE
        return self.of(node.value)

    def combined(self, left: object, right: object) -> Marks:
        """The marks of `left op right`."""
        marks = self.all_of((left, right))
        return frozenset((PLACE,)) if PLACE in marks else marks

    def compare(self, marks: Marks) -> Marks:
        """The marks of a comparison or other test of values with the given marks. A comparison with an offset notes the
        axes of the grid in it."""
        if OFFSET not in marks:
            return marks
        self.checked(marks)
        self.asked = True
        self.axes |= {mark.at for mark in marks if isinstance(mark, Axis)}
        return frozenset((CHOSEN,))

    def choice(self, test: object, yes: object, no: object) -> Marks:
        """The marks of `yes if test else no`."""
        asked, made = self.compare(self.of(test)), self.all_of((yes, no))
        if OFFSET in made:  # one of several offsets, by its place
            asked -= {VARIES}
        return self.checked(made | asked)

    def access(self, marks: Marks) -> Marks:
        """The marks of a load from, or a store to, an address with the given marks."""
        if PLACE in marks:
            if any(isinstance(mark, To) for mark in marks):
                raise Undecided
            return frozenset((OFFSET,))
        self.checked(marks)
        self.touched |= {mark.param for mark in marks if isinstance(mark, To)}
        return NONE

    def element(self, node: ir.Index) -> Marks:
        """The marks of `p[i]`, of an element of an array, or of `tile[:, None]`."""
        base, index = self.of(node.value), self.of(node.index)
        if is_address(base):
            return self.access(base | index - {OFFSET} if PLACE in base else base | index)
        return self.checked(base | (index - {VARIES} if OFFSET in base else index))

    def unary(self, node: ir.Unary) -> Marks:
        """The marks of `*p`, `&p[i]` or `-x`."""
        if node.op == "&" and isinstance(node.value, ir.Index):
            return self.combined(node.value.value, node.value.index)
        marks = self.of(node.value)
        if node.op == "*" and is_address(marks):
            return self.access(marks)
        return self.compare(marks) if node.op in ("!", "not") else marks

    def assignment(self, node: ir.AssignE) -> Marks:
        """Executes `a = b` or `a += b`; returns the marks of its value."""
        parts = (node.target, node.value) if node.op else (node.value,)
        marks = self.carried(parts, self.all_of(parts))
        self.assign(node.target, marks)
        return marks

    def handed_on(self, node: ir.Lambda) -> Marks:
        """Raises Undecided: a lambda that is passed on may be called in ways that are not followed."""
        raise Undecided

    # --- calls ---

    def called(self, node: ir.Call) -> str:
        """The last part of the name of the called function."""
        func = node.func
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, (ir.Attr, ir.TypeRef)) else ""
        return name.rsplit("::", 1)[-1]

    def own(self, node: ir.Call) -> tuple[ir.FuncDef, values.Env | None] | None:
        """The function of the submission that is called, with its scope; the scope is None for a lambda. None for other
        functions."""
        func = node.func
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, ir.TypeRef) else ""
        if name in self.lambdas:
            return self.lambdas[name], None
        found = self.scope.get(name) if name else None
        if isinstance(found, values.Overloads):
            defined = [one for one in found.funcs if one.node.body is not None]
            found = defined[0] if len(defined) == 1 else None
            if found is None:
                raise Undecided
        found = found.func if isinstance(found, values.JitFunction) else found
        return (found.node, found.env) if isinstance(found, values.Func) else None

    def call(self, node: ir.Call) -> Marks:
        """The marks of the result of a call."""
        func = self.own(node)
        if func is not None:
            return self.inline(*func, node)
        name = self.called(node)
        given = {key: value for key, value in node.keywords if key is not None}
        if name == "program_id":
            return self.block_index(next(iter((*node.args, *given.values())), None))
        if name == "arange":
            return frozenset((VARIES,))
        if not self.cpp and name in ("load", "store"):
            return self.memory(name, node.args, given)
        if name == "where" and len(node.args) == 3:
            return self.choice(*node.args)
        method = isinstance(node.func, ir.Attr) and not self.is_module(node.func.value)
        base = (node.func.value,) if method and isinstance(node.func, ir.Attr) else ()
        return self.other(node, name, [*node.args, *given.values(), *base])

    def block_index(self, axis: object) -> Marks:
        """The mark of `program_id(axis)`."""
        if not isinstance(axis, ir.Const) or not isinstance(axis.value, int):
            raise Undecided
        return frozenset((Axis(axis.value),))

    def other(self, node: ir.Call, name: str, parts: Sequence[object]) -> Marks:
        """The marks of the result of calling a function that is not the submission's, given all its arguments,
        `parts`."""
        marks = [self.of(part) for part in parts]
        whole = NONE.union(*marks)
        if name in READS and len(marks) == 1 and is_address(marks[0]):
            return self.access(marks[0])
        if name in _KNOWN_CALLS or isinstance(node.func, ir.TypeRef) and dtypes.from_cpp(node.func.name) is not None:
            return self.checked(whole)
        return self.unknown(name, whole, parts)

    def unknown(self, name: str, marks: Marks, parts: Sequence[object]) -> Marks:
        """The marks of the result of a function that is not known: it may access any memory that it is given, and its
        result may differ from lane to lane."""
        if name.startswith("__sync"):
            return NONE
        if OFFSET in marks or PLACE in marks:
            raise Undecided
        self.access(marks)
        made = frozenset(mark for mark in marks if not is_address((mark,))) | {VARIES}
        for part in parts if self.cpp else ():  # it may be given what it changes
            changed = part.value if isinstance(part, ir.Unary) and part.op == "&" else part
            if isinstance(changed, ir.Name) and not is_address(self.names.get(changed.id, NONE)):
                self.assign(changed, made)
        return made

    def memory(self, name: str, args: Sequence[object], given: Mapping[str, ir.Expr]) -> Marks:
        """The marks of `tl.load(pointer, mask, other)` or `tl.store(pointer, value, mask)`."""
        order = ("pointer", "mask", "other") if name == "load" else ("pointer", "value", "mask")
        told = {**dict(zip(order, args, strict=False)), **given}
        pointer, mask = self.of(told.get("pointer")), self.of(told.get("mask"))
        beside = self.of(told.get("value" if name == "store" else "other"))
        self.checked(pointer | self.compare(mask) - {VARIES})
        if OFFSET in mask or OFFSET in beside or name == "store" and CHOSEN in beside:
            raise Undecided
        return self.access(pointer | (self.compare(mask) & {CHOSEN}))

    def is_module(self, node: object) -> bool:
        """Whether an expression is a module, such as `tl`."""
        while isinstance(node, ir.Attr):
            node = node.value
        return isinstance(node, ir.Name) and isinstance(self.scope.get(node.id), values.Sym)


def is_address(marks: Iterable[Mark]) -> bool:
    """Whether `marks` are those of an address in memory that the kernel is given."""
    return any(mark is PLACE or isinstance(mark, To) for mark in marks)


def names_in(nodes: tuple[object, ...]) -> set[str]:
    """The names that occur in `nodes`."""
    return {part.id for part in walk(nodes) if isinstance(part, ir.Name)}


_EXPRESSIONS: dict[type, Callable[[Values, Any], Marks]] = {
    ir.Name: Values.name,
    ir.Attr: Values.attribute,
    ir.Binary: lambda walk, node: walk.combined(node.left, node.right),
    ir.Unary: Values.unary,
    ir.Compare: lambda walk, node: walk.compare(walk.all_of((node.left, *node.rights))),
    ir.Bool: lambda walk, node: NONE.union(*(walk.compare(walk.of(part)) for part in node.values)),
    ir.Index: Values.element,
    ir.Cond: lambda walk, node: walk.choice(node.test, node.yes, node.no),
    ir.Cast: lambda walk, node: walk.of(node.value),
    ir.AssignE: Values.assignment,
    ir.Call: Values.call,
    ir.Lambda: Values.handed_on,
}
