"""Expressions of a kernel by how they depend on offsets: loads, comparisons, and what is done where they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kbh_lint.base import dtypes, ir, values
from kbh_lint.frontends.walk import children, walk
from kbh_lint.kernels.extents.growing import CONDITIONS, POINTERS, How, Unsure, compared, met, together, turned
from kbh_lint.kernels.extents.loads import READS
from kbh_lint.ops.catalogue import BY_POINTERS, OPERATIONS, spellings

_SAME = ("multiple_of", "max_contiguous", "max_constancy", "expand_dims", "broadcast_to", "cast", "to", "reshape",
         "view", "static_cast", "int", "constexpr", "to_tensor")  # fmt: skip
_EXTREMES = frozenset(("min", "max", "std::min", "std::max", "::min", "::max")).union(
    *(spellings(kind, languages=BY_POINTERS) for kind in ("min", "max"))
)
_NUMBERS = (How.NOT, How.MORE, How.LESS)
_WRITES = ("store", "atomic", "scatter", "gather", "load", "advance", "make_", "descriptor")
_COMPUTES = frozenset(  # functions of CUDA that touch no memory
    word
    for row in OPERATIONS
    if row.kind in ("function", "whole", "test", "arithmetic", "extreme", "bits", "cast")
    for word in row.spellings.get("cuda", ())
)


class Values:
    """Computes how names and expressions depend on offsets, in the running function."""

    def __init__(self, kernel: values.Func, args: Mapping[str, object], offsets: Mapping[str, frozenset[int]]) -> None:
        self.cpp = kernel.node.kind != "python"
        self.scope = kernel.env
        self.names: dict[str, How] = dict.fromkeys(offsets, How.FIRST)
        self.known = frozenset.intersection(*offsets.values())
        self.numbers: dict[str, int] = {}
        for name, given in {**kernel.defaults, **args}.items():
            number = given.value if isinstance(given, values.Scalar) else given
            if isinstance(number, int) and not isinstance(number, bool):
                self.numbers[name] = number
        self.types: dict[str, str] = {}
        self.floats = {name for name, given in args.items() if isinstance(given, values.Buffer) and _float(given.dtype)}
        for param in kernel.node.params:
            self.typed(param.name, param.type)
        self.control = self.entered = How.NOT  # on which conditions the walk is where it is
        self.jumped = self.unsure_return = False
        self.returned: list[list[How]] = []
        self.counting: frozenset[str] = frozenset()  # names that go from one group to the next
        self.depth = self.steps = 0

    def inline(self, func: values.Func, node: ir.Call) -> list[How]:
        """How the results of a call of a function of the submission depend on offsets."""
        raise NotImplementedError

    def turned(self, how: How) -> How:
        """How `not x` depends on offsets if `x` depends on them as `how` says."""
        return turned(how)

    def acts(self) -> None:
        """Called where code has an effect: raises Unsure if larger offsets may prevent it from running."""
        if self.control is How.FAILS:
            raise Unsure

    # --- names ---

    def typed(self, name: str, ref: object) -> None:
        """Records the element type with which a variable is declared."""
        if isinstance(ref, ir.TypeRef):
            self.types[name] = "float" if _float(dtypes.from_cpp(ref.name) or "") or self._alias(ref.name) else ref.name

    def _alias(self, name: str) -> bool:
        """Whether a name of a type stands for one of floating point."""
        found = self.scope.get(name)
        if isinstance(found, values.TypeValue):
            return _float(dtypes.from_cpp(found.ref.name) or "")
        node = found.node if isinstance(found, values.CppType) else None
        return isinstance(node, ir.Using) and node.type is not None and _float(dtypes.from_cpp(node.type.name) or "")

    def declare(self, node: ir.Decl) -> None:
        """Executes `T x = init;`."""
        self.numbers.pop(node.name, None)
        self.typed(node.name, node.type)
        init = node.init
        if isinstance(init, ir.Seq) and len(init.items) == 1:
            init = init.items[0]
        way = self.of(init) if init is not None else How.NOT
        if way in POINTERS and not (node.type is not None and (node.type.pointers or node.type.name == "auto")):
            raise Unsure
        if node.type is not None and node.type.reference and way is not How.NOT:
            raise Unsure
        if init is not None and (number := self.number(init)) is not None and way is How.NOT:
            self.numbers[node.name] = number
        self.names[node.name] = way

    def assign(self, target: object, ways: list[How]) -> None:
        """Assigns values that depend on offsets in these `ways` to a name, a tuple of names or a place in memory."""
        if isinstance(target, ir.Seq):
            if len(target.items) != len(ways):
                if any(way is not How.NOT for way in ways):
                    raise Unsure
                ways = [How.NOT] * len(target.items)
            for item, way in zip(target.items, ways, strict=True):
                self.assign(item, [way])
            return
        way = ways[0] if len(ways) == 1 else together(ways)
        if isinstance(target, ir.Name):
            self.numbers.pop(target.id, None)
            self.names[target.id] = way
            return
        place = target
        while isinstance(place, (ir.Index, ir.Unary, ir.Cast, ir.Attr, ir.Binary)):
            inside = (
                place.index if isinstance(place, ir.Index) else place.right if isinstance(place, ir.Binary) else None
            )
            if inside is not None and self.of(inside) is not How.NOT:
                raise Unsure
            place = place.left if isinstance(place, ir.Binary) else place.value
        if not isinstance(place, ir.Name) or self.names.get(place.id, How.NOT) not in (How.NOT, How.DATA):
            raise Unsure
        if way is not How.NOT and not (way is How.DATA and self._holds_floats(place.id)):
            raise Unsure
        self.acts()

    def _holds_floats(self, name: str) -> bool:
        return name in self.floats or self.types.get(name) == "float"

    # --- expressions ---

    def items(self, node: object) -> list[How]:
        """How the value of an expression depends on offsets, item by item for a tuple."""
        if isinstance(node, ir.Seq):
            return [self.of(item) for item in node.items]
        if isinstance(node, ir.Call) and (func := self.own(node)) is not None and self._reached(node):
            return self.inline(func, node)
        return [self.of(node)]

    def of(self, node: object) -> How:
        """How an expression depends on offsets."""
        if node is None or isinstance(node, (ir.Const, ir.TypeRef)):
            return How.NOT
        handler = _EXPRESSIONS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if any(self.of(part) is not How.NOT for part in children(node)):
            raise Unsure
        return How.NOT

    def compare(self, node: ir.Compare) -> How:
        """How `a < b < c` depends on offsets."""
        sides = [self.of(part) for part in (node.left, *node.rights)]
        return together(compared(op, a, b) for op, a, b in zip(node.ops, sides, sides[1:], strict=False))

    def cast(self, node: ir.Cast) -> How:
        """How `(T)x` depends on offsets; raises Unsure for an address of offsets cast to anything but a pointer to
        integers."""
        way = self.of(node.value)
        if way in POINTERS and not (node.type.pointers and dtypes.from_cpp(node.type.name) in dtypes.INTS):
            raise Unsure
        return way

    def assignment(self, node: ir.AssignE) -> How:
        """Executes `a = b` or `a += b`; returns how its value depends on offsets."""
        way = self.binary(node.op, node.target, node.value) if node.op else self.of(node.value)
        self.assign(node.target, [way])
        return way

    def binary(self, op: str, left: object, right: object) -> How:
        """How `left op right` depends on offsets."""
        a, b = self.of(left), self.of(right)
        if a is b is How.NOT:
            return How.NOT
        if b in POINTERS and op == "+":
            return self.moved(op, b, a, left)
        if a in POINTERS:
            return self.moved(op, a, b, right)
        if How.DATA in (a, b):
            if {a, b} <= {How.NOT, How.DATA}:
                return How.DATA
            raise Unsure
        if op in ("&", "|") and {a, b} <= {How.NOT, *CONDITIONS}:
            return together((a, b))
        if a not in _NUMBERS or b not in _NUMBERS:
            raise Unsure
        if op in ("+", "-"):
            return together((a, turned(b) if op == "-" else b))
        return self.scaled(op, (a, left), (b, right))

    def scaled(self, op: str, one: tuple[How, object], other: tuple[How, object]) -> How:
        """How a product with a positive constant, or a quotient by one, depends on offsets."""
        (a, left), (b, right) = one, other
        if op in ("*", "/", "//", ">>", "<<") and b is How.NOT and (self.number(right) or 0) > 0:
            return a
        if op == "*" and a is How.NOT and (self.number(left) or 0) > 0:
            return b
        raise Unsure

    def moved(self, op: str, pointer: How, by: How, node: object) -> How:
        """How `offsets + n` depends on offsets: as the address of one of them."""
        if by is not How.NOT or op not in ("+", "-"):
            raise Unsure
        known = pointer is How.FIRST and op == "+" and self.number(node) in self.known
        return How.KNOWN if known else How.PLACE

    def unary(self, op: str, value: object) -> How:
        """How `-x`, `!x`, `*p` or `&p[i]` depends on offsets."""
        if op == "&" and isinstance(value, ir.Index):
            return self.binary("+", value.value, value.index)
        way = self.of(value)
        if op == "*" and way in POINTERS:
            return self.loaded(way, value)
        if way in (How.NOT, How.DATA) and op in ("-", "+", "not", "!", "~"):
            return way
        if way is How.NOT or op == "+":
            return way
        if op in ("-", "not", "!", "~") and not (op == "~" and way in (How.MORE, How.LESS)):
            return turned(way)
        raise Unsure

    def counts(self, node: object) -> bool:
        """Whether an expression uses a variable that counts groups in a loop."""
        return any(
            isinstance(part, ir.Name) and part.id in self.counting
            for part in walk(node if isinstance(node, tuple) else (node,))
        )

    def loaded(self, pointer: How, node: object) -> How:
        """How an offset depends on offsets that is loaded through `pointer`. Raises Unsure for a load of each group's
        offset in turn, as one group may then overwrite another's rows."""
        if self.counts(node):
            raise Unsure
        known = pointer is How.KNOWN or pointer is How.FIRST and 0 in self.known
        return How.NOT if known else How.MORE

    def element(self, base: How, value: object, index: object) -> How:
        """How `offsets[i]` or `tile[:, None]` depends on offsets."""
        if base in POINTERS:
            place = base if self.number(index) == 0 else self.binary("+", value, index)
            return self.loaded(place, (value, index))
        if self.of(index) is not How.NOT or self.cpp and base is not How.NOT:  # an address that was chosen
            raise Unsure
        return base

    def choice(self, test: object, yes: object, no: object) -> How:
        """How `yes if test else no` depends on offsets. If offsets decide the test, one side must be a constant:
        otherwise the older value may be kept for rows of another group."""
        how, a, b = self.of(test), self.of(yes), self.of(no)
        if how is How.NOT:
            return met(a, b)
        if how not in CONDITIONS or not {a, b} <= {How.NOT, How.DATA} or not (_constant(yes) or _constant(no)):
            raise Unsure
        return How.DATA

    def number(self, node: object) -> int | None:
        """The integer value of an expression; None where unknown."""
        if isinstance(node, ir.Const):
            return node.value if isinstance(node.value, int) and not isinstance(node.value, bool) else None
        if isinstance(node, ir.Cast):
            return self.number(node.value)
        if isinstance(node, ir.Name):
            found = self.numbers.get(node.id)
            outer = self.scope.get(node.id) if found is None and node.id not in self.names else None
            return outer if isinstance(outer, int) and not isinstance(outer, bool) else found
        return None

    # --- calls ---

    def called(self, node: ir.Call) -> str:
        """The last part of the name of the called function."""
        func = node.func
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, (ir.Attr, ir.TypeRef)) else ""
        return name.rsplit("::", 1)[-1]

    def own(self, node: ir.Call) -> values.Func | None:
        """The function of the submission that is called; None for others."""
        func = node.func
        name = func.id if isinstance(func, ir.Name) else func.name if isinstance(func, ir.TypeRef) else ""
        found = self.scope.get(name) if name else None
        if isinstance(found, values.Overloads) and len(found.funcs) == 1:
            found = found.funcs[0]
        found = found.func if isinstance(found, values.JitFunction) else found
        return found if isinstance(found, values.Func) else None

    def _receiver(self, func: object) -> tuple[bool, How]:
        """Whether a method is called, and what offsets have to do with its object."""
        if isinstance(func, ir.Attr) and not self._module(func):
            return True, self.of(func.value)
        return False, How.NOT

    def _reached(self, node: ir.Call) -> bool:
        """Whether offsets have to do with a call: by its arguments, or by where it stands."""
        parts = (*node.args, *(value for _, value in node.keywords))
        return self.control is How.FAILS or any(self.of(part) is not How.NOT for part in parts)

    def call(self, node: ir.Call) -> How:
        """How the result of a call depends on offsets."""
        func = self.own(node)
        if func is not None and self._reached(node):
            return together(self.inline(func, node))
        name = self.called(node)
        method, base = self._receiver(node.func)
        told = {key: value for key, value in node.keywords if key is not None}
        if not self.cpp and name in ("load", "store") and not method and node.args:
            return self.memory(name, node, told)
        parts = [self.of(part) for part in (*node.args, *told.values())]
        if self.cpp and name in READS and parts[:1] != [How.NOT]:
            if len(parts) != 1 or parts[0] not in POINTERS:
                raise Unsure
            return self.loaded(parts[0], node.args)
        if name == "where" and len(node.args) == 3:
            return self.choice(*node.args)
        if name in _SAME or self.cpp and len(parts) == 1 and dtypes.from_cpp(name) in dtypes.INTS:
            return base if method else parts[0] if parts else How.NOT
        found = self.number_of(name, node, parts)
        return self.unknown(name, {base, *parts}) if found is None else found

    def number_of(self, name: str, node: ir.Call, parts: list[How]) -> How | None:
        """How a minimum or maximum of two numbers, or a quotient rounded up, depends on offsets; None for other
        functions."""
        if name in _EXTREMES and len(parts) == 2 and How.DATA not in parts:
            way = together(parts)
            if way not in _NUMBERS:
                raise Unsure
            return way
        divided = name == "cdiv" and parts[1:] == [How.NOT] and parts[0] in _NUMBERS
        return parts[0] if divided and (self.number(node.args[1]) or 0) > 0 else None

    def unknown(self, name: str, ways: set[How]) -> How:
        """How the result of an unknown function depends on offsets, given how its arguments do; raises Unsure if it may
        use one of them as an address."""
        places = name not in _COMPUTES if self.cpp else any(word in name for word in _WRITES)
        if ways - {How.NOT, How.DATA} or How.DATA in ways and places:
            raise Unsure
        if places and not name.startswith("__sync"):
            self.acts()
        return How.DATA if How.DATA in ways else How.NOT

    def memory(self, name: str, node: ir.Call, told: Mapping[str, ir.Expr]) -> How:
        """How `tl.load(pointer, mask, other)` or `tl.store(pointer, value, mask)` depends on offsets."""
        names = ("pointer", "mask", "other") if name == "load" else ("pointer", "value", "mask")
        given = {**dict(zip(names, node.args, strict=False)), **told}
        pointer, mask = self.of(given.get("pointer")), self.of(given.get("mask"))
        if pointer in POINTERS and name == "load":
            if mask is not How.NOT or self.of(given.get("other")) is not How.NOT:
                raise Unsure
            return self.loaded(pointer, given.get("pointer"))
        value = self.of(given.get("value" if name == "store" else "other"))
        if pointer is not How.NOT or mask not in (How.NOT, How.HOLDS) or value not in (How.NOT, How.DATA):
            raise Unsure
        if name == "store":
            self.acts()
        return How.DATA if value is How.DATA or mask is not How.NOT else How.NOT

    def _module(self, func: ir.Attr) -> bool:
        """Whether an attribute is one of a module, as `tl.load`."""
        root: object = func
        while isinstance(root, ir.Attr):
            root = root.value
        return (
            isinstance(root, ir.Name) and root.id not in self.names and isinstance(self.scope.get(root.id), values.Sym)
        )


_EXPRESSIONS: dict[type, Callable[[Values, Any], How]] = {
    ir.Name: lambda walk, node: walk.names.get(node.id, How.NOT),
    ir.Binary: lambda walk, node: walk.binary(node.op, node.left, node.right),
    ir.Unary: lambda walk, node: walk.unary(node.op, node.value),
    ir.Compare: Values.compare,
    ir.Bool: lambda walk, node: together(walk.of(part) for part in node.values),
    ir.Seq: lambda walk, node: together(walk.of(part) for part in node.items),
    ir.Index: lambda walk, node: walk.element(walk.of(node.value), node.value, node.index),
    ir.Cond: lambda walk, node: walk.choice(node.test, node.yes, node.no),
    ir.Cast: Values.cast,
    ir.AssignE: Values.assignment,
    ir.Call: Values.call,
}


def _float(dtype: str) -> bool:
    return dtype in dtypes.FLOATS


def _constant(node: object) -> bool:
    """Whether an expression is a number, or a conversion of one."""
    funcs = [part.func for part in walk((node,)) if isinstance(part, ir.Call)]
    return not any(isinstance(part, ir.Name) and all(part is not f for f in funcs) for part in walk((node,)))
