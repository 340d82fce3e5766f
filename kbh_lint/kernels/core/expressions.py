"""Expressions of kernel code, in any language, as abstract values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kbh_lint.base import ir, values
from kbh_lint.kernels.core.arith import Arithmetic
from kbh_lint.kernels.core.branches import Pair, merge
from kbh_lint.kernels.core.joins import join, mix, tuple_of
from kbh_lint.kernels.core.origins import NO_ORIGINS, choosing, flagged, testing, union
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant

MAX_UNROLL = 8
Env = dict[str, V]


class Frame:
    """One call: its variables, the scope its function closes over, and what it returned so far."""

    __slots__ = ("env", "outer", "func", "returned", "jumps", "key", "this", "shadowed", "loops")

    def __init__(self, env: Env, outer: values.Env, func: Any, key: tuple[Any, ...]) -> None:
        self.env = env
        self.outer = outer
        self.func = func
        self.returned: V | None = None
        self.jumps: list[list[tuple[str, Env]]] = []  # of each loop and switch: how it is left, with what
        self.key = key
        self.this: Any = None
        self.shadowed: list[dict[str, V | None]] = []
        self.loops = 0


class Expressions(Arithmetic):
    """Evaluates expressions to values; subclasses supply statements and the language."""

    def __init__(self, name: str, fuel: int) -> None:
        super().__init__(name, fuel)
        self.frame = Frame({}, values.Env(), None, ())
        self.outer_cache: dict[tuple[int, str], V] = {}
        self.statements: dict[type, Callable[[Any], bool]] = {}
        self.expressions: dict[type, Callable[[Any], V]] = {
            ir.Const: self.e_const, ir.Name: self.e_name, ir.Attr: self.e_attr, ir.Index: self.e_index,
            ir.Call: self.e_call, ir.Binary: self.e_binary, ir.Unary: self.e_unary, ir.Bool: self.e_bool,
            ir.Compare: self.e_compare, ir.Cond: self.e_cond, ir.Seq: self.e_seq, ir.Lambda: self.e_lambda,
            ir.Comp: self.e_comp, ir.Opaque: self.e_opaque, ir.AssignE: self.e_assign, ir.Cast: self.e_cast,
            ir.TypeRef: self.e_type, ir.FString: self.e_text, ir.DictE: self.e_dict, ir.Star: self.e_star,
        }  # fmt: skip

    # --- hooks for languages ---

    def outer_value(self, value: Any) -> V:
        """A value of an enclosing scope as an abstract value."""
        return constant(value) if value is not values.UNKNOWN else UNKNOWN_V

    def missing(self, name: str, loc: ir.Loc) -> V:
        """A name that no scope binds."""
        return UNKNOWN_V

    def e_attr(self, node: ir.Attr) -> V:
        """`value.name`."""
        raise NotImplementedError

    def e_index(self, node: ir.Index) -> V:
        """`value[index]`."""
        raise NotImplementedError

    def e_call(self, node: ir.Call) -> V:
        """A call."""
        raise NotImplementedError

    def e_cast(self, node: ir.Cast) -> V:
        """A C++ cast."""
        return self.eval(node.value)

    def e_type(self, node: ir.TypeRef) -> V:
        """A type as a value."""
        return UNKNOWN_V

    def assign_other(self, target: ir.Expr, value: V) -> None:
        """Assigns to something that is neither a name nor a tuple."""

    def execute(self, node: Any) -> bool:
        """Executes one statement; false when control does not go on after it."""
        raise NotImplementedError

    # --- expressions ---

    def eval(self, node: Any) -> V:
        """The value of an expression."""
        handler = self.expressions.get(type(node))
        if handler is None:
            self.unread(f"a {type(node).__name__.lower()} expression", node.loc)
            return UNKNOWN_V
        return handler(node)

    def e_const(self, node: ir.Const) -> V:
        return constant(node.value)

    def e_name(self, node: ir.Name) -> V:
        value = self.frame.env.get(node.id)
        return value if value is not None else self.outer(node.id, node.loc)

    def outer(self, name: str, loc: ir.Loc) -> V:
        """The value of a name that is not local."""
        key = (id(self.frame.outer), name)
        found = self.outer_cache.get(key)
        if found is None:
            try:
                found = self.outer_value(self.frame.outer.lookup(name))
            except KeyError:
                found = self.missing(name, loc)
            self.outer_cache[key] = found
        return found

    def e_binary(self, node: ir.Binary) -> V:
        if node.op == ",":
            self.eval(node.left)
            return self.eval(node.right)
        return self.binary(node.op, self.eval(node.left), self.eval(node.right), node.loc)

    def e_unary(self, node: ir.Unary) -> V:
        return self.unary(node.op, self.eval(node.value), node.loc)

    def truth(self, value: V) -> bool | None:
        """Whether a value is known to be true or false; notes what decided it."""
        if value.const is not NOTHING:
            self.decide(value)
            try:
                return bool(value.const)
            except (TypeError, ValueError):
                return None
        if isinstance(value.x, tuple):
            return bool(value.x)
        return None

    def e_bool(self, node: ir.Bool) -> V:
        result: V | None = None
        stop = node.op == "or"
        pair: Pair | tuple[()] = ()
        for item in node.values:
            start = dict(self.frame.env) if result is not None and assigns(item) else None
            with self.sides.watching(*pair[stop : stop + 1]):
                value = self.eval(item)
            if start is not None and result is not None:
                merge(self.frame.env, start, choosing(testing(result.origins)))
            pair = pair or self.sides.of(value, node.loc)
            known = self.truth(value)
            if known is stop:
                return value if result is None else join(result, value)
            if known is not None and item is not node.values[-1]:
                continue
            result = value if result is None else join(result, value)
        assert result is not None
        return result

    def e_compare(self, node: ir.Compare) -> V:
        left = self.eval(node.left)
        result: V | None = None
        for op, item in zip(node.ops, node.rights, strict=True):
            right = self.eval(item)
            value = self.compare(op, left, right)
            if result is None or result.const is True:
                result = value
            elif result.const is not False:
                result = value if value.const is False else join(result, value)
            left = right
        assert result is not None
        return result

    def e_cond(self, node: ir.Cond) -> V:
        test = self.eval(node.test)
        known = self.truth(test)
        if known is not None:
            return self.eval(node.yes if known else node.no)
        pair = self.sides.of(test, node.loc)
        with self.sides.watching(*pair[:1]):
            yes = self.eval(node.yes)
        with self.sides.watching(*pair[1:]):
            no = self.eval(node.no)
        result = join(yes, no)
        if test.origins:
            chose = choosing(testing(test.origins)) if yes.known and no.known else NO_ORIGINS
            result = result.with_(origins=union(result.origins, chose or flagged(test.origins, "index")))
        return result

    def e_seq(self, node: ir.Seq) -> V:
        return tuple_of(self.items(node.items))

    def items(self, nodes: Iterable[Any]) -> list[V]:
        """Values of arguments or items, `*x` spread out."""
        found: list[V] = []
        for node in nodes:
            if isinstance(node, ir.Star):
                value = self.eval(node.value)
                found.extend(value.x if isinstance(value.x, tuple) else [value])
            else:
                found.append(self.eval(node))
        return found

    def e_star(self, node: ir.Star) -> V:
        return self.eval(node.value)

    def e_dict(self, node: ir.DictE) -> V:
        return mix([self.eval(item) for item in node.values])

    def e_text(self, node: ir.FString) -> V:
        return UNKNOWN_V

    def e_lambda(self, node: ir.Lambda) -> V:
        return self.closure(node.func)

    def closure(self, node: ir.FuncDef) -> V:
        """A local function: it sees, and may change, the variables of this frame."""
        return V(const=values.Func(node, values.Env({"": self.frame}, self.frame.outer)))

    def e_comp(self, node: ir.Comp) -> V:
        made: list[V] = []
        saved = dict(self.frame.env)

        def clause(depth: int) -> None:
            self.step()
            if depth == len(node.clauses):
                made.append(self.eval(node.item))
                return
            target, iterable, tests = node.clauses[depth]
            for value in self.elements(self.eval(iterable)):
                self.assign(target, value)
                if all(self.truth(self.eval(test)) is not False for test in tests):
                    clause(depth + 1)
                if len(made) > 64:
                    return

        clause(0)
        self.frame.env = saved
        return tuple_of(made[:64])

    def elements(self, value: V) -> list[V]:
        """The values that a loop over `value` takes: each by itself for tuples and short ranges of known numbers, else
        one value that is the join of them all."""
        if isinstance(value.x, tuple):
            return list(value.x)
        if isinstance(value.const, range):
            self.decide(value)
            if len(value.const) <= MAX_UNROLL:
                return [V("i32", "i32", const=i, deps=value.deps) for i in value.const]
            return [V("i32", "i32")]
        return [value.with_(const=NOTHING, x=None)]

    def e_opaque(self, node: ir.Opaque) -> V:
        self.unread(node.reason, node.loc)
        found: list[V] = []
        for child in node.children:
            if type(child) in self.expressions:
                found.append(self.eval(child))
            elif type(child) in self.statements:
                self.execute(child)
        return mix(found)

    def e_assign(self, node: ir.AssignE) -> V:
        old = self.eval(node.target) if node.op or node.post else UNKNOWN_V
        value = self.eval(node.value)
        if node.op:
            value = self.augmented(node.op, old, value, node.loc)
        self.assign(node.target, value)
        return old if node.post else value

    # --- assignments ---

    def assign(self, target: Any, value: V) -> None:
        """Binds `target` to `value`."""
        if isinstance(target, ir.Name):
            self.bind(target.id, value)
        elif isinstance(target, ir.Seq):
            self._unpack(target, value)
        elif isinstance(target, ir.Star):
            self.assign(target.value, value)
        else:
            self.assign_other(target, value)

    def bind(self, name: str, value: V) -> None:
        """Gives a variable a new value."""
        self.frame.env[name] = value

    def _unpack(self, target: ir.Seq, value: V) -> None:
        items = value.x if isinstance(value.x, tuple) else None
        for position, part in enumerate(target.items):
            if items is not None and len(items) == len(target.items):
                self.assign(part, items[position])
            else:
                self.assign(part, mix([value]) if items else value.with_(const=NOTHING, x=None))

    def augmented(self, op: str, old: V, value: V, loc: ir.Loc) -> V:
        """The new value of `target op= value`."""
        if op in ("+", "-"):
            value = self.accumulate(old, value, self.promote(op, old, value), loc, self.frame.loops > 0)
        return self.binary(op, old, value, loc)


def assigns(node: Any) -> bool:
    """Whether an operand of `&&` or `||` is there to change variables."""
    return isinstance(node, ir.AssignE) or (isinstance(node, ir.Binary) and node.op == ",")
