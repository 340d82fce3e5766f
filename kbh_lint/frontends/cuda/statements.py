"""Statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.base import MAX_DEPTH
from kbh_lint.frontends.cuda.exprs import _EXPRESSIONS, Exprs


class Statements(Exprs):
    """Lowers statement nodes."""

    def declaration(self, node: Node) -> list[ir.Stmt]:
        """Lowers a declaration of any kind; the list is empty if there is nothing to lower."""
        raise NotImplementedError

    def statement(self, node: Node) -> list[ir.Stmt]:
        """Lowers a node to statements: several for `int a, b;`, none for `;`."""
        if self.depth >= MAX_DEPTH:
            return [self.too_deep(node)]
        self.depth += 1
        try:
            lower = _STATEMENTS.get(node.type)
            if lower is not None:
                return lower(self, node)
            if node.type in _EXPRESSIONS:
                return self.expression_statement(node, node)
            return self.declaration(node)
        finally:
            self.depth -= 1

    def statements(self, nodes: Iterable[Node]) -> tuple[ir.Stmt, ...]:
        """Lowers several nodes to one sequence of statements."""
        found: list[ir.Stmt] = []
        for node in nodes:
            found += self.statement(node)
        return tuple(found)

    def block(self, node: Node | None) -> tuple[ir.Stmt, ...]:
        """Lowers a body: the statements inside braces, or the single statement."""
        if node is None:
            return ()
        if node.type == "compound_statement":
            return self.statements(node.named_children)
        return tuple(self.statement(node))

    def anything(self, nodes: Iterable[Node]) -> list[object]:
        """Lowers nodes of any kind, expressions and statements."""
        found: list[Any] = []
        for node in nodes:
            if node.type in _EXPRESSIONS:
                found.append(self.expr(node))
            else:
                found += self.statement(node)
        return found

    # --- simple ones ---

    def _nothing(self, node: Node) -> list[ir.Stmt]:
        return []

    def _expression(self, node: Node) -> list[ir.Stmt]:
        inner = [child for child in node.named_children if child.type != "comment"]
        if not inner:
            return []
        if len(inner) > 1:
            return [self.opaque(node)]
        return self.expression_statement(inner[0], node)

    def expression_statement(self, node: Node, whole: Node) -> list[ir.Stmt]:
        """Lowers an expression statement; assignments and asm become statements of their own. `whole` is the node with
        the semicolon."""
        where = self.loc(whole)
        if node.type == "call_expression" and self.blanked.asms:
            asm = self._asm(node, where)
            if asm is not None:
                return [asm]
        if node.type == "comma_expression":
            parts: list[Node] = []
            current: Node | None = node
            while current is not None and current.type == "comma_expression" and len(parts) < MAX_DEPTH:
                left = current.child_by_field_name("left")
                if left is not None:
                    parts.append(left)
                current = current.child_by_field_name("right")
            found: list[ir.Stmt] = []
            for part in [*parts, current]:
                if part is not None:
                    found += self.expression_statement(part, part)
            return found
        value = self.expr(node)
        if isinstance(value, ir.AssignE):
            declared = self._array_pointer(value.target, value.value, where) if not value.op else None
            return [declared or self._assign(value, where)]
        if isinstance(value, ir.Index):
            declared = self._array_pointer(value, None, where)
            if declared is not None:
                return [declared]
        return [ir.ExprS(value, where)]

    def _array_pointer(self, target: ir.Expr, init: ir.Expr | None, where: ir.Loc) -> ir.Decl | None:
        """`float (*rows)[4] = p;` reads as an assignment to `float(*rows)[4]` in the grammar."""
        dims: list[ir.Expr] = []
        while isinstance(target, ir.Index):
            dims.insert(0, target.index)
            target = target.value
        if not dims or not isinstance(target, ir.Call) or len(target.args) != 1:
            return None
        pointer, kind = target.args[0], target.func
        if isinstance(kind, ir.Name) and self.is_type(kind.id):
            kind = ir.TypeRef(kind.id, (), kind.loc)
        marked = isinstance(pointer, ir.Unary) and pointer.op in ("*", "&")
        if not isinstance(kind, ir.TypeRef) or not isinstance(pointer, ir.Unary) or not marked:
            return None
        if not isinstance(pointer.value, ir.Name):
            return None
        kind.reference = pointer.op == "&"
        kind.dims = tuple(dims) if kind.reference else (ir.Const(None, pointer.loc), *dims)  # `T rows[][N]`
        return ir.Decl(pointer.value.id, kind, init, frozenset(), where)

    def _assign(self, value: ir.AssignE, where: ir.Loc) -> ir.Stmt:
        if value.op:
            return ir.AugAssign(value.target, value.op, value.value, where)
        targets = [value.target]
        last = value.value
        while isinstance(last, ir.AssignE) and not last.op:
            targets.append(last.target)
            last = last.value
        return ir.Assign(tuple(targets), last, where)

    def _asm(self, node: Node, where: ir.Loc) -> ir.Stmt | None:
        func = node.child_by_field_name("function")
        args = node.child_by_field_name("arguments")
        marks = None if func is None else self.blanked.asms.get(func.start_byte + self.shift)
        if marks is None or args is None:
            return None
        sections: list[list[tuple[str, ir.Expr]]] = [[], [], [], []]
        template: ir.Expr = ir.Opaque("missing asm template", (), where)
        for child in args.named_children:
            start = child.start_byte + self.shift
            section = sum(1 for colon in marks.colons if colon < start)
            if section == 0:
                template = self.expr(child)
            elif section < 3:
                sections[section].append(self._operand(child))
        return ir.Asm(template, tuple(sections[1]), tuple(sections[2]), where)

    def _operand(self, node: Node) -> tuple[str, ir.Expr]:
        func = node.child_by_field_name("function") if node.type == "call_expression" else None
        args = node.child_by_field_name("arguments") if node.type == "call_expression" else None
        if func is None or args is None or len(args.named_children) != 1:
            return "", self.expr(node)
        constraint = self.expr(func)
        text = constraint.value if isinstance(constraint, ir.Const) else ""
        return str(text), self.expr(args.named_children[0])

    def _block(self, node: Node) -> list[ir.Stmt]:
        return [ir.Block(self.block(node), self.loc(node))]

    def _return(self, node: Node) -> list[ir.Stmt]:
        value = next((child for child in node.named_children if child.type != "comment"), None)
        return [ir.Return(self.maybe(value), self.loc(node))]

    def _jump(self, node: Node) -> list[ir.Stmt]:
        return [ir.Jump(node.type.removesuffix("_statement"), self.loc(node))]

    def _goto(self, node: Node) -> list[ir.Stmt]:
        label = node.child_by_field_name("label")
        self.gotos = True
        return [ir.Jump("goto", self.loc(node), "" if label is None else self.source(label))]

    def _throw(self, node: Node) -> list[ir.Stmt]:
        return [ir.Raise(self.maybe(next(iter(node.named_children), None)), self.loc(node))]

    def _labeled(self, node: Node) -> list[ir.Stmt]:
        label = next((child for child in node.named_children if child.type == "statement_identifier"), None)
        inner = self.statements(child for child in node.named_children if child is not label)
        if label is None or not self.in_function:
            return list(inner)
        self.gotos = True
        return [ir.Jump("label", self.loc(label), self.source(label)), *inner]

    def _assert(self, node: Node) -> list[ir.Stmt]:
        return [ir.Assert(self.field(node, "condition"), self.loc(node))]

    # --- control flow ---

    def _condition(self, node: Node) -> tuple[list[ir.Stmt], ir.Expr]:
        """What stands before the test of `if (init; test)` or `if (T x = e)`, and the test."""
        clause = node.child_by_field_name("condition")
        if clause is None:
            return [], ir.Opaque("missing condition", (), self.loc(node))
        if clause.type != "condition_clause":
            return [], self.expr(clause)
        before: list[ir.Stmt] = []
        initializer = clause.child_by_field_name("initializer")
        if initializer is not None:
            before += self.statement(initializer)
        value = clause.child_by_field_name("value")
        if value is None:
            return before, self.opaque(clause)
        if value.type == "declaration":
            declared = self.statement(value)
            before += declared
            last = declared[-1] if declared else None
            if not isinstance(last, ir.Decl):
                return before, self.opaque(value)
            if last.init is None:
                last.init = self.maybe(value.child_by_field_name("value"))
            name = ir.Name(last.name, self.loc(value))
            if node.type != "while_statement" or last.init is None:
                return before, name
            test = ir.AssignE(name, "", last.init, self.loc(value))  # evaluated before each iteration
            last.init = None
            return before, test
        return before, self.expr(value)

    def _if(self, node: Node) -> list[ir.Stmt]:
        """An `else if` chain is read without recursion."""
        chain: list[tuple[Node, list[ir.Stmt], ir.Expr, tuple[ir.Stmt, ...]]] = []
        current = node
        last: tuple[ir.Stmt, ...] = ()
        room = self.chain_room()
        while True:
            before, test = self._condition(current)
            chain.append((current, before, test, self.block(current.child_by_field_name("consequence"))))
            alternative = current.child_by_field_name("alternative")
            if alternative is not None and alternative.type == "else_clause":
                alternative = next((child for child in alternative.named_children if child.type != "comment"), None)
            if alternative is None:
                break
            if alternative.type != "if_statement":
                last = self.block(alternative)
                break
            if len(chain) >= room:
                last = (self.too_deep(alternative),)
                break
            current = alternative
        for link, before, test, body in reversed(chain):
            constexpr = any(child.type == "constexpr" for child in link.children[:3])
            last = (*before, ir.If(test, body, last, self.loc(link), constexpr))
        return list(last)

    def _while(self, node: Node) -> list[ir.Stmt]:
        before, test = self._condition(node)
        body = self.block(node.child_by_field_name("body"))
        return [*before, ir.While(test, body, (), self.loc(node), node.type == "do_statement")]

    def _for(self, node: Node) -> list[ir.Stmt]:
        initializer = node.child_by_field_name("initializer")
        init: tuple[ir.Stmt, ...] = ()
        if initializer is not None:
            init = tuple(self.statement(initializer))
        test = self.maybe(node.child_by_field_name("condition"))
        step = self.maybe(node.child_by_field_name("update"))
        return [ir.CFor(init, test, step, self.block(node.child_by_field_name("body")), self.loc(node))]

    def _range_for(self, node: Node) -> list[ir.Stmt]:
        name, kind = self.declared(
            node.child_by_field_name("declarator"), self.type_of(node.child_by_field_name("type"))
        )
        target: ir.Expr
        if name is None:
            target = ir.Opaque("missing name", (), self.loc(node))
        elif name.type == "structured_binding_declarator":
            target = ir.Seq("tuple", self.exprs(name.named_children), self.loc(name))
        else:
            target = ir.Name(self.source(name), self.loc(name))
        body = self.block(node.child_by_field_name("body"))
        return [ir.For(target, self.field(node, "right"), body, (), self.loc(node), kind.reference)]

    def _switch(self, node: Node) -> list[ir.Stmt]:
        before, value = self._condition(node)
        cases: list[tuple[tuple[ir.Expr, ...], tuple[ir.Stmt, ...]]] = []
        labels: list[ir.Expr] = []
        default = False
        body = node.child_by_field_name("body")
        for child in () if body is None else body.named_children:
            if child.type != "case_statement":
                statements = tuple(self.statement(child))
                if statements and cases:
                    cases[-1] = (cases[-1][0], cases[-1][1] + statements)
                continue
            label = child.child_by_field_name("value")
            if label is None:
                default = True
            else:
                labels.append(self.expr(label))
            inner = [part for part in child.named_children if part.type != "comment" and part != label]
            if inner:
                cases.append((() if default else tuple(labels), self.statements(inner)))
                labels, default = [], False
        if labels or default:
            cases.append((() if default else tuple(labels), ()))
        return [*before, ir.Switch(value, tuple(cases), self.loc(node))]

    def _try(self, node: Node) -> list[ir.Stmt]:
        handlers: list[tuple[ir.Expr | None, str | None, tuple[ir.Stmt, ...]]] = []
        for child in node.named_children:
            if child.type == "catch_clause":
                params = self.parameters(child.child_by_field_name("parameters"))
                first = params[0] if params else None
                body = self.block(child.child_by_field_name("body"))
                handlers.append((first.type if first else None, first.name if first else None, body))
        return [ir.Try(self.block(node.child_by_field_name("body")), tuple(handlers), (), (), self.loc(node))]


_STATEMENTS: dict[str, Callable[[Statements, Node], list[ir.Stmt]]] = {
    "comment": Statements._nothing,
    ";": Statements._nothing,
    "attribute_declaration": Statements._nothing,
    "expression_statement": Statements._expression,
    "compound_statement": Statements._block,
    "return_statement": Statements._return,
    "break_statement": Statements._jump,
    "continue_statement": Statements._jump,
    "goto_statement": Statements._goto,
    "throw_statement": Statements._throw,
    "labeled_statement": Statements._labeled,
    "attributed_statement": Statements._labeled,
    "static_assert_declaration": Statements._assert,
    "if_statement": Statements._if,
    "while_statement": Statements._while,
    "do_statement": Statements._while,
    "for_statement": Statements._for,
    "for_range_loop": Statements._range_for,
    "switch_statement": Statements._switch,
    "try_statement": Statements._try,
}
