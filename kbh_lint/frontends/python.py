"""Python to IR, from the standard library's `ast`: a tenth of the cost of a concrete syntax tree, with positions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from kbh_lint.base import ir
from kbh_lint.base.records import dataclass
from kbh_lint.base.syntax import tree_of
from kbh_lint.frontends import patterns
from kbh_lint.source.spans import Span

MAX_DEPTH = 150

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
_COMPARE = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}


@dataclass(slots=True, eq=False)
class PythonUnit:
    """A Python text and the file it stands in; `first_line` is the file's line of the text's line 1."""

    path: str
    text: str
    first_line: int = 1
    language: str = "python"
    _lines: list[str] | None = None

    def span(self, loc: ir.Loc) -> Span:
        """The place of `loc` in the file; columns, which `ast` counts in UTF-8 bytes, become characters, counted from
        1."""
        _, line, column, end_line, end_column = loc
        return Span(
            self.path,
            line + self.first_line - 1,
            self.character(line, column) + 1,
            end_line + self.first_line - 1,
            self.character(end_line, end_column) + 1,
        )

    def character(self, line: int, byte_column: int) -> int:
        """The index of a character in `line`, counted from 1, given the offset of its first UTF-8 byte."""
        if self._lines is None:
            self._lines = self.text.split("\n")
        if not 0 < line <= len(self._lines):
            return byte_column
        row = self._lines[line - 1]
        if row.isascii():
            return byte_column
        return len(row.encode()[:byte_column].decode("utf-8", "ignore"))


class TooDeep(Exception):
    """The program nests deeper than `MAX_DEPTH`."""


def lower(text: str, path: str = "<text>", first_line: int = 1, unit: PythonUnit | None = None) -> ir.Module:
    """Lowers Python text to IR; `unit` replaces the unit that is made from `path` and `first_line`.

    Raises SyntaxError (or ValueError for NUL bytes) when the text is not Python, and TooDeep when it nests more than
    MAX_DEPTH deep.
    """
    tree = tree_of(str(text))  # a text that knows its places is compared slowly
    unit = unit or PythonUnit(path, text, first_line)
    lowering = Lowering(unit)
    body = lowering.block(tree.body)
    return ir.Module(unit, body, ast.get_docstring(tree, clean=False), lowering.unread)


class Lowering:
    """Turns the statements and expressions of one text into IR."""

    def __init__(self, unit: PythonUnit) -> None:
        self.unit = unit
        self.unread: list[tuple[str, ir.Loc]] = []
        self.depth = 0
        self.yields: list[bool] = []
        self.parts = 0  # of subjects of `match` that were given names

    def loc(self, node: ast.stmt | ast.expr | ast.arg | ast.excepthandler | ast.pattern | ast.alias) -> ir.Loc:
        """The location of a node."""
        return (self.unit, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)

    # --- statements

    def block(self, nodes: list[ast.stmt]) -> tuple[ir.Stmt, ...]:
        """Lowers the statements of a body."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeep(f"nesting deeper than {MAX_DEPTH}")
        out: list[ir.Stmt] = []
        for node in nodes:
            handler = _STATEMENTS.get(type(node))
            if handler is None:
                self.unread.append((f"unsupported statement {type(node).__name__}", self.loc(node)))
                out.append(ir.Opaque(type(node).__name__, (), self.loc(node)))
                continue
            lowered = handler(self, node)
            if isinstance(lowered, tuple):
                out.extend(lowered)
            elif lowered is not None:
                out.append(lowered)
        self.depth -= 1
        return tuple(out)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ir.Stmt:
        self.yields.append(False)
        body = self.block(node.body)
        generator = self.yields.pop()
        return ir.FuncDef(
            node.name,
            self.params(node.args),
            body,
            self.loc(node),
            decorators=tuple(self.expr(d) for d in node.decorator_list),
            returns=self.expr(node.returns) if node.returns is not None else None,
            generator=generator,
            coroutine=isinstance(node, ast.AsyncFunctionDef),
            doc=ast.get_docstring(node, clean=False),
        )

    def params(self, args: ast.arguments) -> tuple[ir.Param, ...]:
        """Lowers the parameters of a function."""
        out: list[ir.Param] = []
        plain = [*args.posonlyargs, *args.args]
        missing = len(plain) - len(args.defaults)
        for i, arg in enumerate(plain):
            out.append(self.param(arg, args.defaults[i - missing] if i >= missing else None, "positional"))
        if args.vararg is not None:
            out.append(self.param(args.vararg, None, "star"))
        for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            out.append(self.param(arg, default, "keyword"))
        if args.kwarg is not None:
            out.append(self.param(args.kwarg, None, "doublestar"))
        return tuple(out)

    def param(self, arg: ast.arg, default: ast.expr | None, kind: str) -> ir.Param:
        annotation = self.expr(arg.annotation) if arg.annotation is not None else None
        return ir.Param(arg.arg, annotation, self.expr(default) if default is not None else None, kind, self.loc(arg))

    def class_def(self, node: ast.ClassDef) -> ir.Stmt:
        return ir.ClassDef(
            node.name,
            tuple(self.expr(b) for b in node.bases),
            self.block(node.body),
            self.loc(node),
            tuple(self.expr(d) for d in node.decorator_list),
            tuple((k.arg, self.expr(k.value)) for k in node.keywords),
        )

    def return_(self, node: ast.Return) -> ir.Stmt:
        return ir.Return(self.expr(node.value) if node.value is not None else None, self.loc(node))

    def delete(self, node: ast.Delete) -> ir.Stmt:
        return ir.Delete(tuple(self.expr(t) for t in node.targets), self.loc(node))

    def assign(self, node: ast.Assign) -> ir.Stmt:
        return ir.Assign(tuple(self.expr(t) for t in node.targets), self.expr(node.value), self.loc(node))

    def aug_assign(self, node: ast.AugAssign) -> ir.Stmt:
        return ir.AugAssign(self.expr(node.target), _BINARY[type(node.op)], self.expr(node.value), self.loc(node))

    def ann_assign(self, node: ast.AnnAssign) -> ir.Stmt:
        if node.value is None:
            name = node.target.id if isinstance(node.target, ast.Name) else ""
            return ir.Decl(name, None, None, frozenset(), self.loc(node), self.expr(node.annotation))
        said = self.expr(node.annotation)
        return ir.Assign((self.expr(node.target),), self.expr(node.value), self.loc(node), said)

    def for_(self, node: ast.For | ast.AsyncFor) -> ir.Stmt:
        return ir.For(
            self.expr(node.target), self.expr(node.iter), self.block(node.body), self.block(node.orelse), self.loc(node)
        )

    def while_(self, node: ast.While) -> ir.Stmt:
        return ir.While(self.expr(node.test), self.block(node.body), self.block(node.orelse), self.loc(node))

    def if_(self, node: ast.If) -> ir.Stmt:
        # elif chains nest in ast; walk them in a loop so that a long chain is not deep
        chain = [node]
        while len(chain[-1].orelse) == 1 and isinstance(chain[-1].orelse[0], ast.If):
            chain.append(chain[-1].orelse[0])
        orelse = self.block(chain[-1].orelse)
        for link in reversed(chain):
            orelse = (ir.If(self.expr(link.test), self.block(link.body), orelse, self.loc(link)),)
        return orelse[0]

    def with_(self, node: ast.With | ast.AsyncWith) -> ir.Stmt:
        items = tuple(
            (self.expr(i.context_expr), self.expr(i.optional_vars) if i.optional_vars is not None else None)
            for i in node.items
        )
        return ir.With(items, self.block(node.body), self.loc(node))

    def raise_(self, node: ast.Raise) -> ir.Stmt:
        return ir.Raise(self.expr(node.exc) if node.exc is not None else None, self.loc(node))

    def try_(self, node: ast.Try | ast.TryStar) -> ir.Stmt:
        handlers = tuple(
            (self.expr(h.type) if h.type is not None else None, h.name, self.block(h.body)) for h in node.handlers
        )
        return ir.Try(
            self.block(node.body), handlers, self.block(node.orelse), self.block(node.finalbody), self.loc(node)
        )

    def assert_(self, node: ast.Assert) -> ir.Stmt:
        return ir.Assert(self.expr(node.test), self.loc(node))

    def import_(self, node: ast.Import) -> tuple[ir.Stmt, ...]:
        return tuple(ir.Import(a.name, None, a.asname, 0, self.loc(node)) for a in node.names)

    def import_from(self, node: ast.ImportFrom) -> tuple[ir.Stmt, ...]:
        return tuple(ir.Import(node.module or "", a.name, a.asname, node.level, self.loc(node)) for a in node.names)

    def scope(self, node: ast.Global | ast.Nonlocal) -> ir.Stmt:
        return ir.Scope("global" if isinstance(node, ast.Global) else "nonlocal", tuple(node.names), self.loc(node))

    def expr_stmt(self, node: ast.Expr) -> ir.Stmt:
        return ir.ExprS(self.expr(node.value), self.loc(node))

    def jump(self, node: ast.Break | ast.Continue) -> ir.Stmt:
        return ir.Jump("break" if isinstance(node, ast.Break) else "continue", self.loc(node))

    def match(self, node: ast.Match) -> tuple[ir.Stmt, ...]:
        """Lowers a `match` statement to a chain of ifs on its subject."""
        subject = ir.Name(patterns.SUBJECT, self.loc(node.subject))
        orelse: tuple[ir.Stmt, ...] = ()
        for case in reversed(node.cases):
            loc = self.loc(case.pattern)
            test = patterns.test(self, subject, case.pattern, loc)
            if case.guard is not None:
                test = ir.Bool("and", (test, self.expr(case.guard)), loc)
            orelse = (ir.If(test, self.block(case.body), orelse, loc),)
        return (ir.Assign((subject,), self.expr(node.subject), subject.loc), *orelse)

    # --- expressions

    def expr(self, node: ast.expr) -> ir.Expr:
        """Lowers an expression."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            return ir.Opaque(type(node).__name__, (), self.loc(node))
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeep(f"nesting deeper than {MAX_DEPTH}")
        lowered = handler(self, node)
        self.depth -= 1
        return lowered

    def constant(self, node: ast.Constant) -> ir.Expr:
        return ir.Const(node.value, self.loc(node))

    def name(self, node: ast.Name) -> ir.Expr:
        return ir.Name(node.id, self.loc(node))

    def attribute(self, node: ast.Attribute) -> ir.Expr:
        return ir.Attr(self.expr(node.value), node.attr, self.loc(node))

    def subscript(self, node: ast.Subscript) -> ir.Expr:
        return ir.Index(self.expr(node.value), self.expr(node.slice), self.loc(node))

    def slice(self, node: ast.Slice) -> ir.Expr:
        def part(e: ast.expr | None) -> ir.Expr | None:
            return self.expr(e) if e is not None else None

        return ir.SliceE(part(node.lower), part(node.upper), part(node.step), self.loc(node))

    def call(self, node: ast.Call) -> ir.Expr:
        return ir.Call(
            self.expr(node.func),
            tuple(self.expr(a) for a in node.args),
            tuple((k.arg, self.expr(k.value)) for k in node.keywords),
            self.loc(node),
        )

    def binary(self, node: ast.BinOp) -> ir.Expr:
        # a long chain `a + b + c ...` is left deep: walk it in a loop
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        left = self.expr(chain[-1].left)
        for link in reversed(chain):
            left = ir.Binary(_BINARY[type(link.op)], left, self.expr(link.right), self.loc(link))
        return left

    def unary(self, node: ast.UnaryOp) -> ir.Expr:
        operand = self.expr(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(operand, ir.Const) and type(operand.value) in (int, float):
            return ir.Const(-operand.value, self.loc(node))
        return ir.Unary(_UNARY[type(node.op)], operand, self.loc(node))

    def bool_op(self, node: ast.BoolOp) -> ir.Expr:
        op = "and" if isinstance(node.op, ast.And) else "or"
        return ir.Bool(op, tuple(self.expr(v) for v in node.values), self.loc(node))

    def compare(self, node: ast.Compare) -> ir.Expr:
        return ir.Compare(
            self.expr(node.left),
            tuple(_COMPARE[type(o)] for o in node.ops),
            tuple(self.expr(c) for c in node.comparators),
            self.loc(node),
        )

    def if_exp(self, node: ast.IfExp) -> ir.Expr:
        return ir.Cond(self.expr(node.test), self.expr(node.body), self.expr(node.orelse), self.loc(node))

    def seq(self, node: ast.Tuple | ast.List | ast.Set) -> ir.Expr:
        kind = type(node).__name__.lower()
        return ir.Seq(kind, tuple(self.expr(e) for e in node.elts), self.loc(node))

    def dict_(self, node: ast.Dict) -> ir.Expr:
        return ir.DictE(
            tuple(self.expr(k) if k is not None else None for k in node.keys),
            tuple(self.expr(v) for v in node.values),
            self.loc(node),
        )

    def comp(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ir.Expr:
        kinds = {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict", ast.GeneratorExp: "generator"}
        clauses = tuple(
            (self.expr(g.target), self.expr(g.iter), tuple(self.expr(c) for c in g.ifs)) for g in node.generators
        )
        if isinstance(node, ast.DictComp):
            return ir.Comp("dict", self.expr(node.key), self.expr(node.value), clauses, self.loc(node))
        return ir.Comp(kinds[type(node)], None, self.expr(node.elt), clauses, self.loc(node))

    def lambda_(self, node: ast.Lambda) -> ir.Expr:
        loc = self.loc(node)
        self.yields.append(False)
        body = (ir.Return(self.expr(node.body), self.loc(node.body)),)
        self.yields.pop()
        return ir.Lambda(ir.FuncDef("<lambda>", self.params(node.args), body, loc, kind="lambda"), loc)

    def joined(self, node: ast.JoinedStr) -> ir.Expr:
        parts: list[Any] = []
        for value in node.values:
            if isinstance(value, ast.Constant):
                parts.append(ir.Const(value.value, self.loc(value)))
            elif isinstance(value, ast.FormattedValue):
                conversion = chr(value.conversion) if value.conversion > 0 else ""
                spec = self.expr(value.format_spec) if value.format_spec is not None else None
                parts.append((self.expr(value.value), conversion, spec))
        return ir.FString(tuple(parts), self.loc(node))

    def starred(self, node: ast.Starred) -> ir.Expr:
        return ir.Star(self.expr(node.value), self.loc(node))

    def named(self, node: ast.NamedExpr) -> ir.Expr:
        return ir.AssignE(self.expr(node.target), "", self.expr(node.value), self.loc(node))

    def yield_(self, node: ast.Yield | ast.YieldFrom) -> ir.Expr:
        if self.yields:
            self.yields[-1] = True
        kind = "yield from" if isinstance(node, ast.YieldFrom) else "yield"
        children = (self.expr(node.value),) if node.value is not None else ()
        return ir.Opaque(kind, children, self.loc(node))

    def await_(self, node: ast.Await) -> ir.Expr:
        return ir.Opaque("await", (self.expr(node.value),), self.loc(node))


_STATEMENTS: dict[type, Callable[[Lowering, Any], Any]] = {
    ast.FunctionDef: Lowering.function, ast.AsyncFunctionDef: Lowering.function, ast.ClassDef: Lowering.class_def,
    ast.Return: Lowering.return_, ast.Delete: Lowering.delete, ast.Assign: Lowering.assign,
    ast.AugAssign: Lowering.aug_assign, ast.AnnAssign: Lowering.ann_assign, ast.For: Lowering.for_,
    ast.AsyncFor: Lowering.for_, ast.While: Lowering.while_, ast.If: Lowering.if_, ast.With: Lowering.with_,
    ast.AsyncWith: Lowering.with_, ast.Raise: Lowering.raise_, ast.Try: Lowering.try_, ast.TryStar: Lowering.try_,
    ast.Assert: Lowering.assert_, ast.Import: Lowering.import_, ast.ImportFrom: Lowering.import_from,
    ast.Global: Lowering.scope, ast.Nonlocal: Lowering.scope, ast.Expr: Lowering.expr_stmt,
    ast.Break: Lowering.jump, ast.Continue: Lowering.jump, ast.Pass: lambda self, node: None,
    ast.Match: Lowering.match,
}  # fmt: skip

_EXPRESSIONS: dict[type, Callable[[Lowering, Any], ir.Expr]] = {
    ast.Constant: Lowering.constant, ast.Name: Lowering.name, ast.Attribute: Lowering.attribute,
    ast.Subscript: Lowering.subscript, ast.Slice: Lowering.slice, ast.Call: Lowering.call,
    ast.BinOp: Lowering.binary, ast.UnaryOp: Lowering.unary, ast.BoolOp: Lowering.bool_op,
    ast.Compare: Lowering.compare, ast.IfExp: Lowering.if_exp, ast.Tuple: Lowering.seq, ast.List: Lowering.seq,
    ast.Set: Lowering.seq, ast.Dict: Lowering.dict_, ast.ListComp: Lowering.comp, ast.SetComp: Lowering.comp,
    ast.DictComp: Lowering.comp, ast.GeneratorExp: Lowering.comp, ast.Lambda: Lowering.lambda_,
    ast.JoinedStr: Lowering.joined, ast.Starred: Lowering.starred, ast.NamedExpr: Lowering.named,
    ast.Yield: Lowering.yield_, ast.YieldFrom: Lowering.yield_, ast.Await: Lowering.await_,
}  # fmt: skip
