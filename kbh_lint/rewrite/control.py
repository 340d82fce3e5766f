"""Other statements for the same course: while for for, walrus, unpacking, inverted tests, contexts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, expression, is_pure, names_in, simple, statements
from kbh_lint.rewrite.program import Program, Rewrite
from kbh_lint.rewrite.tree import BodyTransformer, HostTransformer, Source, source_of


def while_loops(program: Program, rng: Random) -> Program:
    """`for i in range(a, b, c)` on the host becomes a while loop."""
    source = source_of(program)
    return _While(source, rng).run(program, "no host loop over a range can be a while loop")


class _While(HostTransformer):
    def leave_For(
        self, original_node: cst.For, updated_node: cst.For
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        bounds = _range(original_node.iter)
        if bounds is None or not isinstance(original_node.target, cst.Name) or original_node.orelse is not None:
            return updated_node
        if original_node.asynchronous is not None or not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        self.count += 1
        at, end, step = (self.source.fresh(self.rng) for _ in range(3))
        start, stop, stride = bounds
        # The loop variable keeps its last value, and keeps none when there is no trip; bounds are read once.
        text = (
            f"{at}, {end}, {step} = {start}, {stop}, {stride}\n"
            f"while ({at} < {end}) if {step} > 0 else ({at} > {end}):\n"
            f"    {original_node.target.value} = {at}\n"
            f"    {at} += {step}\n"
        )
        first, loop = statements(text)
        assert isinstance(loop, cst.While) and isinstance(loop.body, cst.IndentedBlock)
        if isinstance(first, cst.SimpleStatementLine):
            first = first.with_changes(leading_lines=updated_node.leading_lines)
        body = loop.body.with_changes(body=[*loop.body.body, *updated_node.body.body])
        return cst.FlattenSentinel([first, loop.with_changes(body=body)])


def _range(node: cst.BaseExpression) -> tuple[str, str, str] | None:
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "range"):
        return None
    if not 1 <= len(node.args) <= 3 or any(arg.keyword or arg.star for arg in node.args):
        return None
    words = [f"({code(arg.value)})" for arg in node.args]
    if len(words) == 3 and words[2].strip("()").lstrip("-").startswith("0"):
        return None
    return ("0", words[0], "1") if len(words) == 1 else (words[0], words[1], words[2] if len(words) == 3 else "1")


def walrus(program: Program, rng: Random) -> Program:
    """`return e` becomes `return (name := e)`, and so do the tests of `if`."""
    source = source_of(program)
    return _Walrus(source, rng).run(program, "no function returns an expression")


class _Walrus(BodyTransformer):
    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        return updated_node.with_changes(value=self._named(updated_node.value)) if updated_node.value else updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        return updated_node.with_changes(test=self._named(updated_node.test)) if self.depth else updated_node

    def _named(self, value: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(value, (cst.NamedExpr, cst.Yield)):
            return value
        self.count += 1
        text = f"({code(value)})" if isinstance(value, cst.Tuple) else code(value)
        return expression(f"({self.source.fresh(self.rng)} := {text})")


def unpack(program: Program, rng: Random) -> Program:
    """`a = x` becomes `(a,) = (x,)` or `[a] = [x]`; two assignments that do not touch become one."""
    source = source_of(program)
    return _Unpack(source, rng).run(program, "no function assigns to a name")


class _Unpack(HostTransformer):
    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body: list[cst.BaseStatement] = []
        waiting = list(updated_node.body)
        while waiting:
            one = waiting.pop(0)
            pair = self._pair(one, waiting[0]) if waiting else None
            if pair is not None:
                waiting.pop(0)
            body.append(pair if pair is not None else self._single(one))
        return updated_node.with_changes(body=body)

    def _pair(self, one: cst.BaseStatement, two: cst.BaseStatement) -> cst.BaseStatement | None:
        first, second = _assigned(one), _assigned(two)
        if first is None or second is None or first[0] in names_in(second[1]) or first[0] == second[0]:
            return None
        # What is assigned first must not be seen by a call in the second value either.
        if not is_pure(second[1]) or not isinstance(one, cst.SimpleStatementLine):
            return None
        self.count += 1
        values = f"({code(first[1])}), ({code(second[1])})"
        return one.with_changes(body=[simple(statements(f"{first[0]}, {second[0]} = {values}\n")[0])])

    def _single(self, one: cst.BaseStatement) -> cst.BaseStatement:
        found = _assigned(one)
        if found is None or not isinstance(one, cst.SimpleStatementLine):
            return one
        self.count += 1
        name, value = found
        spelled = self.rng.choice((f"({name},) = (({code(value)}),)", f"[{name}] = [({code(value)})]"))
        return one.with_changes(body=[simple(statements(spelled + "\n")[0])])


def _assigned(statement: cst.BaseStatement) -> tuple[str, cst.BaseExpression] | None:
    item = simple(statement)
    if not isinstance(item, cst.Assign) or len(item.targets) != 1 or not isinstance(item.targets[0].target, cst.Name):
        return None
    if isinstance(item.value, (cst.Yield, cst.Await)):
        return None
    return item.targets[0].target.value, item.value


def invert_tests(program: Program, rng: Random) -> Program:
    """`if a: x else: y` becomes `if not a: y else: x`; without else, `if not a: pass else: x`."""
    source = source_of(program)
    return _Invert(source).run(program, "the host code has no if")


class _Invert(HostTransformer):
    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        other = updated_node.orelse
        if isinstance(other, cst.If) or "__name__" in code(original_node.test):
            return updated_node
        self.count += 1
        empty = cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])])
        return updated_node.with_changes(
            test=expression(f"not ({code(updated_node.test)})"),
            whitespace_before_test=cst.SimpleWhitespace(" "),
            body=_block(other.body) if other is not None else empty,
            orelse=cst.Else(_block(updated_node.body)),
        )


def _block(body: cst.BaseSuite) -> cst.BaseSuite:
    if isinstance(body, cst.SimpleStatementSuite):
        return cst.IndentedBlock([cst.SimpleStatementLine(body.body)])
    return body


def null_contexts(program: Program, rng: Random) -> Program:
    """The body of each function stands under a condition or a context that changes nothing."""
    source = source_of(program)
    tool = source.fresh(rng)
    return _Contexts(source, tool).run(program, "the file has no host function", f"import contextlib as {tool}\n")


class _Contexts(HostTransformer):
    def __init__(self, source: Source, tool: str) -> None:
        super().__init__(source)
        self.tool = tool

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        body = updated_node.body
        if self.source.is_device(original_node) or not isinstance(body, cst.IndentedBlock):
            return updated_node
        self.count += 1
        frame = statements(f"with {self.tool}.nullcontext():\n    pass\n")[0]
        assert isinstance(frame, cst.With)
        head, rest = _docstring(body.body)
        if not rest:
            return updated_node
        inner = cst.IndentedBlock(rest)
        return updated_node.with_changes(body=body.with_changes(body=[*head, frame.with_changes(body=inner)]))


def _docstring(
    body: Sequence[cst.BaseStatement],
) -> tuple[Sequence[cst.BaseStatement], Sequence[cst.BaseStatement]]:
    first = simple(body[0]) if body else None
    cut = (
        1 if isinstance(first, cst.Expr) and isinstance(first.value, (cst.SimpleString, cst.ConcatenatedString)) else 0
    )
    return body[:cut], body[cut:]


REWRITES = (
    Rewrite("while-loops", "host loops over a range become while loops", while_loops),
    Rewrite("walrus", "returned values and tests are named by :=", walrus),
    Rewrite("unpack", "assignments through tuples and lists", unpack),
    Rewrite("invert-tests", "tests are negated and their branches change places", invert_tests),
    Rewrite("null-contexts", "the bodies of functions stand in a context that does nothing", null_contexts),
)
