"""Classes and enumerations."""

from __future__ import annotations

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.statements import Statements


class Classes(Statements):
    """Lowers class and enum specifiers with a body."""

    class_names: tuple[str, ...] = ()
    template: tuple[ir.TemplateParam, ...] = ()
    explicit = False  # whether a `template <>` is around the declaration being lowered

    def take_template(self) -> tuple[ir.TemplateParam, ...]:
        """Takes the template parameters that wait for the declaration being lowered: those of the `template <...>`
        around it."""
        params, self.template = self.template, ()
        return params

    def take_explicit(self) -> bool:
        """Takes the mark that the declaration being lowered is an explicit specialisation; declarations inside it are
        none."""
        explicit, self.explicit = self.explicit, False
        return explicit

    def _arguments(self, node: Node) -> tuple[ir.Expr, ...]:
        args = node.child_by_field_name("arguments")
        return () if args is None else self.template_args(args)

    def class_def(self, node: Node, name: str | None = None) -> list[ir.Stmt]:
        """Lowers a class with a body to a ClassDef, and an enumeration to its constants and an alias of its integer
        type.

        A union has the keyword `union`, an alignment is the keyword `aligned`.
        """
        if node.type == "enum_specifier":
            return self._enum(node, name)
        template = self.take_template()
        explicit = self.take_explicit()
        name_node = node.child_by_field_name("name")
        special: tuple[ir.Expr, ...] = ()
        if name_node is not None and name_node.type == "template_type":
            special = self._arguments(name_node)
            inner = name_node.child_by_field_name("name")
            name = self.compact(inner) if inner is not None else name
        elif name is None and name_node is not None:
            name = self.compact(name_node)
        bases = self._bases(node)
        base_names = tuple(base.name.rsplit("::", 1)[-1] for base in bases if isinstance(base, ir.TypeRef))
        outer = self.class_names, self.in_function
        self.class_names, self.in_function = (name or "", *base_names), 0
        try:
            body = node.child_by_field_name("body")
            members = self.statements(body.named_children) if body is not None else ()
        finally:
            self.class_names, self.in_function = outer
        where = self.loc(node)
        keywords: tuple[tuple[str | None, ir.Expr], ...] = ()
        if node.type == "union_specifier":
            keywords = (("union", ir.Const(True, where)),)
        start = node.start_byte + self.shift
        words = self.blanked.inside(start, start if body is None else body.start_byte + self.shift)
        keywords += tuple([("aligned", ir.Const(word, where)) for word in words if "align" in word])
        return [ir.ClassDef(name or "", bases, members, where, (), keywords, template, special, explicit)]

    def class_declared(self, node: Node) -> list[ir.Stmt]:
        """Lowers `template <class T> struct S;`: a template that is defined by its specialisations, or later in the
        text."""
        template = self.take_template()
        name = node.child_by_field_name("name")
        if not template or name is None or name.type != "type_identifier" or self.in_function:
            return []
        return [ir.ClassDef(self.compact(name), (), (), self.loc(node), (), (), template)]

    def _bases(self, node: Node) -> tuple[ir.Expr, ...]:
        clause = next((child for child in node.children if child.type == "base_class_clause"), None)
        if clause is None:
            return ()
        found: list[ir.Expr] = []
        for child in clause.named_children:
            if child.type in ("type_identifier", "qualified_identifier", "template_type", "dependent_type"):
                found.append(self.type_of(child))
        return tuple(found)

    def _enum(self, node: Node, name: str | None) -> list[ir.Stmt]:
        name_node = node.child_by_field_name("name")
        label = name or ("" if name_node is None else self.compact(name_node))
        scoped = any(child.type in ("class", "struct") for child in node.children)
        base = node.child_by_field_name("base")
        integer = ir.TypeRef("int", (), self.loc(node)) if base is None else self.type_of(base)
        found: list[ir.Stmt] = []
        if label:
            found.append(ir.Using(label, integer, self.loc(node)))
        before: ir.Expr | None = None
        body = node.child_by_field_name("body")
        for child in () if body is None else body.named_children:
            if child.type != "enumerator":
                continue
            where = self.loc(child)
            constant = self.compact(child.child_by_field_name("name") or child)
            constant = f"{label}::{constant}" if scoped else constant
            value = self.maybe(child.child_by_field_name("value"))
            if value is None:
                value = _next(before, where)
            found.append(ir.Decl(constant, integer, value, frozenset({"const", "enum"}), where))
            before = value if isinstance(value, ir.Const) else ir.Name(constant, where)
        return found


def _next(before: ir.Expr | None, where: ir.Loc) -> ir.Expr:
    """The value of an enumerator without one."""
    if before is None:
        return ir.Const(0, where)
    if isinstance(before, ir.Const) and isinstance(before.value, int):
        return ir.Const(before.value + 1, where)
    return ir.Binary("+", before, ir.Const(1, where), where)
