"""Functions of C++, lowered to the IR: prototypes, definitions, constructors and conversions."""

from __future__ import annotations

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.classes import Classes

_STORAGE = frozenset(
    {
        "storage_class_specifier",
        "type_qualifier",
        "virtual",
        "explicit_function_specifier",
        "constexpr",
        "virtual_function_specifier",
    }
)


class Functions(Classes):
    """Lowers functions, wherever they are declared."""

    def _storage(self, node: Node, end: int) -> tuple[frozenset[str], bool]:
        """The words around a declaration that say where it lives, and whether it is const."""
        words = set(self.blanked.before(node.start_byte + self.shift))
        words.update(self.blanked.inside(node.start_byte + self.shift, end))
        for child in node.children:
            if child.type in _STORAGE:
                words.add(self.source(child))
        return frozenset(words), "const" in words or "constexpr" in words

    def _function_inside(self, declarator: Node | None) -> Node | None:
        """The function_declarator of a declared function; None for a variable, also one that points to a function."""
        while declarator is not None:
            if declarator.type == "function_declarator":
                inner = declarator.child_by_field_name("declarator")
                pointed = inner is not None and inner.type == "parenthesized_declarator"
                return None if pointed else declarator
            if not declarator.type.endswith(("pointer_declarator", "reference_declarator")):
                return None
            declarator = self.inner(declarator)
        return None

    def _kind(self, words: frozenset[str]) -> str:
        if "__global__" in words:
            return "global"
        if self.class_names:
            return "method"
        return "device" if "__device__" in words else "host"

    def _returns(self, target: Node | None, function: Node, base: ir.TypeRef) -> ir.TypeRef:
        full = ir.TypeRef(base.name, base.args, base.loc, base.member, base.pointers, base.reference, base.const)
        current = target
        while current is not None and current.id != function.id:
            if current.type.endswith("pointer_declarator"):
                full.pointers += 1
            elif current.type.endswith("reference_declarator"):
                full.reference = True
            current = self.inner(current)
        for child in function.named_children:
            if child.type == "trailing_return_type" and child.named_children:
                return self.type_of(child.named_children[0])
        return full

    def _named(self, name: Node | None) -> tuple[str, tuple[ir.Expr, ...]]:
        """A function's name and the arguments of its specialisation."""
        if name is None:
            return "", ()
        if name.type == "template_function":
            return self._named(name.child_by_field_name("name"))[0], self._arguments(name)
        if name.type == "qualified_identifier":
            parts = self.parts(name)
            last = parts[-1]
            return "::".join(part[0] for part in parts if part[0]), last[1] or ()
        if name.type in ("operator_name", "operator_cast"):
            text = "".join(self.source(name).split())
            rest = text.removeprefix("operator")
            return (f"operator {rest}" if rest[:1].isalpha() else text), ()
        return self.compact(name), ()

    def _prototype(
        self,
        node: Node,
        target: Node | None,
        function: Node,
        base: ir.TypeRef,
        storage: frozenset[str],
        template: tuple[ir.TemplateParam, ...],
    ) -> ir.FuncDef:
        name, special = self._named(function.child_by_field_name("declarator"))
        return ir.FuncDef(
            name,
            self.parameters(function.child_by_field_name("parameters")),
            None,
            self.loc(node),
            kind=self._kind(storage),
            returns=self._returns(target, function, base),
            template=template,
            attributes=tuple(sorted(storage)),
            specialization=special,
            explicit=self.take_explicit(),
        )

    def _conversion(self, node: Node, cast: Node, body: Node | None, storage: frozenset[str]) -> ir.FuncDef:
        """`operator float() const {...}`."""
        returns, loose = self.type_of(cast.child_by_field_name("type")), cast.child_by_field_name("declarator")
        while loose is not None and "function" not in loose.type:
            returns.pointers += loose.type.endswith("pointer_declarator")
            returns.reference = returns.reference or loose.type.endswith("reference_declarator")
            loose = self.inner(loose)
        return ir.FuncDef(
            f"operator {returns.name}{'*' * returns.pointers}",
            (),
            None if body is None else self._body(body),
            self.loc(node),
            kind=self._kind(storage),
            returns=returns,
            template=self.take_template(),
            attributes=tuple(sorted(storage)),
        )

    def _function(self, node: Node) -> list[ir.Stmt]:
        template, explicit = self.take_template(), self.take_explicit()
        target = node.child_by_field_name("declarator")
        body = node.child_by_field_name("body")
        stop = (body.start_byte if body is not None else node.end_byte) + self.shift
        storage, _ = self._storage(node, stop)
        if target is not None and target.type == "operator_cast":
            self.template = template
            return [self._conversion(node, target, body, storage)]
        function = self._function_inside(target)
        if function is None:
            return [self.opaque(node)]
        name, special = self._named(function.child_by_field_name("declarator"))
        statements = None if body is None else self._body(body)
        first = self._initializers(node)
        if body is not None and body.type == "try_statement":
            statements = tuple(self.statement(body))
        return [
            ir.FuncDef(
                name,
                self.parameters(function.child_by_field_name("parameters")),
                statements if statements is None else (*first, *statements),
                self.loc(node),
                kind=self._kind(storage),
                returns=self._returns(target, function, self.type_of(node.child_by_field_name("type"))),
                template=template,
                attributes=tuple(sorted(storage)),
                specialization=special,
                explicit=explicit,
            )
        ]

    def _body(self, node: Node) -> tuple[ir.Stmt, ...]:
        outer_classes, self.class_names = self.class_names, ()
        self.in_function += 1
        try:
            return self.structured(self.block(node))
        finally:
            self.in_function -= 1
            self.class_names = outer_classes

    def _initializers(self, node: Node) -> tuple[ir.Stmt, ...]:
        """`: a(x), Base(y)` as assignments to `this->a` and calls of `this->Base`, a constructor of a base."""
        listed = next((child for child in node.children if child.type == "field_initializer_list"), None)
        if listed is None:
            return ()
        found: list[ir.Stmt] = []
        for item in listed.named_children:
            if item.type != "field_initializer" or len(item.named_children) < 2:
                continue
            name_node, value_node = item.named_children[0], item.named_children[-1]
            where = self.loc(item)
            items = self.exprs(value_node.named_children)
            name = self.compact(name_node)
            if name_node.type != "field_identifier" or name in self.class_names:
                base = self.parts(name_node)[-1][0]
                found.append(ir.ExprS(ir.Call(ir.Attr(ir.Name("this", where), base, where), items, (), where), where))
                continue
            target = ir.Attr(ir.Name("this", where), name, where)
            value = items[0] if len(items) == 1 else ir.Seq("init", items, where)
            found.append(ir.Assign((target,), value, where))
        return tuple(found)
