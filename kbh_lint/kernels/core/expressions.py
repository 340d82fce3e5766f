"""Expressions of kernel code, in any language, as abstract values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.kernels.core.branches import Pair, merge
from kbh_lint.kernels.core.joins import join, mix, tuple_of
from kbh_lint.kernels.core.origins import NO_ORIGINS, choosing, flagged, testing, union
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, V, constant

if TYPE_CHECKING:
    from kbh_lint.kernels.core.run import Run


MAX_UNROLL = 8
_EXPRESSIONS: dict[type, str] = {
    ir.Const: "e_const", ir.Name: "e_name", ir.Attr: "e_attr", ir.Index: "e_index", ir.Call: "e_call",
    ir.Binary: "e_binary", ir.Unary: "e_unary", ir.Bool: "e_bool", ir.Compare: "e_compare", ir.Cond: "e_cond",
    ir.Seq: "e_seq", ir.Lambda: "e_lambda", ir.Comp: "e_comp", ir.Opaque: "e_opaque", ir.AssignE: "e_assign",
    ir.Cast: "e_cast", ir.TypeRef: "e_type", ir.FString: "e_text", ir.DictE: "e_dict", ir.Star: "e_star",
}  # fmt: skip


class Expressions:
    """Evaluates expressions to values; languages say what attributes, indices and calls mean."""

    expressions: dict[type, Callable[[Any, Any], V]]  # of the class: no instance holds itself

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.expressions = {kind: getattr(cls, name) for kind, name in _EXPRESSIONS.items()}

    def __init__(self, run: Run) -> None:
        self.run = run

    def e_attr(self, node: ir.Attr) -> V:
        """The value of `value.name`."""
        raise NotImplementedError

    def e_index(self, node: ir.Index) -> V:
        """The value of `value[index]`."""
        raise NotImplementedError

    def e_call(self, node: ir.Call) -> V:
        """The result of a call."""
        raise NotImplementedError

    def e_cast(self, node: ir.Cast) -> V:
        """The result of a C++ cast."""
        return self.eval(node.value)

    def e_type(self, node: ir.TypeRef) -> V:
        """A type that stands where a value is expected, as a value."""
        return UNKNOWN_V

    def eval(self, node: ir.Expr) -> V:
        """The value of an expression."""
        handler = self.expressions.get(type(node))
        if handler is None:
            self.run.facts.unread(f"a {type(node).__name__.lower()} expression", node.loc)
            return UNKNOWN_V
        return handler(self, node)

    def e_const(self, node: ir.Const) -> V:
        return constant(node.value)

    def e_name(self, node: ir.Name) -> V:
        value = self.run.frame.env.get(node.id)
        return value if value is not None else self.run.names.outer(node.id, node.loc)

    def e_binary(self, node: ir.Binary) -> V:
        if node.op == ",":
            self.eval(node.left)
            return self.eval(node.right)
        return self.run.numbers.binary(node.op, self.eval(node.left), self.eval(node.right), node.loc)

    def e_unary(self, node: ir.Unary) -> V:
        return self.run.numbers.unary(node.op, self.eval(node.value), node.loc)

    def e_bool(self, node: ir.Bool) -> V:
        result: V | None = None
        stop = node.op == "or"
        pair: Pair | tuple[()] = ()
        for item in node.values:
            start = dict(self.run.frame.env) if result is not None and assigns(item) else None
            with self.run.sides.watching(*pair[stop : stop + 1]):
                value = self.eval(item)
            if start is not None and result is not None:
                merge(self.run.frame.env, start, choosing(testing(result.origins)))
            pair = pair or self.run.sides.of(value, node.loc)
            known = self.run.numbers.truth(value)
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
            value = self.run.numbers.compare(op, left, right)
            if result is None or result.const is True:
                result = value
            elif result.const is not False:
                result = value if value.const is False else join(result, value)
            left = right
        assert result is not None
        return result

    def e_cond(self, node: ir.Cond) -> V:
        test = self.eval(node.test)
        known = self.run.numbers.truth(test)
        if known is not None:
            return self.eval(node.yes if known else node.no)
        pair = self.run.sides.of(test, node.loc)
        with self.run.sides.watching(*pair[:1]):
            yes = self.chosen(node.yes)
        with self.run.sides.watching(*pair[1:]):
            no = self.chosen(node.no)
        result = join(yes, no)
        if test.origins:
            chose = choosing(testing(test.origins)) if yes.free and no.free else NO_ORIGINS
            result = result.with_(origins=union(result.origins, chose or flagged(test.origins, "index")))
        return result

    def chosen(self, node: ir.Expr) -> V:
        """The value of one side of a choice, which is joined with the other."""
        return self.eval(node)

    def e_seq(self, node: ir.Seq) -> V:
        return tuple_of(self.items(node.items))

    def items(self, nodes: Iterable[Any]) -> list[V]:
        """The values of arguments or items; `*x` gives each item of `x`."""
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
        return self.run.names.closure(node.func)

    def e_comp(self, node: ir.Comp) -> V:
        made: list[V] = []
        saved = dict(self.run.frame.env)

        def clause(depth: int) -> None:
            """Executes the clauses of a comprehension from number `depth` on."""
            self.run.step()
            if depth == len(node.clauses):
                made.append(self.eval(node.item))
                return
            target, iterable, tests = node.clauses[depth]
            for value in self.elements(self.eval(iterable)):
                self.run.names.assign(target, value)
                if all(self.run.numbers.truth(self.eval(test)) is not False for test in tests):
                    clause(depth + 1)
                if len(made) > 64:
                    return

        clause(0)
        self.run.frame.env = saved
        return tuple_of(made[:64])

    def elements(self, value: V) -> list[V]:
        """The values that a loop over `value` takes: each by itself for tuples and short ranges of known numbers, else
        one value that is the join of them all."""
        if isinstance(value.x, tuple):
            return list(value.x)
        if isinstance(value.const, range):
            self.run.facts.decide(value)
            if len(value.const) <= MAX_UNROLL:
                return [V("i32", "i32", const=i, deps=value.deps) for i in value.const]
            return [V("i32", "i32")]
        return [value.with_(const=NOTHING, x=None)]

    def e_opaque(self, node: ir.Opaque) -> V:
        self.run.facts.unread(node.reason, node.loc)
        found: list[V] = []
        for child in node.children:
            if type(child) in self.expressions:
                found.append(self.eval(child))
            elif type(child) in self.run.statements.statements:
                self.run.statements.execute(child)
        return mix(found)

    def e_assign(self, node: ir.AssignE) -> V:
        old = self.eval(node.target) if node.op or node.post else UNKNOWN_V
        value = self.eval(node.value)
        if node.op:
            value = self.run.numbers.augmented(node.op, old, value, node.loc)
        self.run.names.assign(node.target, value)
        return old if node.post else value


def assigns(node: object) -> bool:
    """Whether an operand of `&&` or `||` is an assignment or a comma expression, which changes variables."""
    return isinstance(node, ir.AssignE) or (isinstance(node, ir.Binary) and node.op == ",")
