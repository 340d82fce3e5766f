"""Types and declarators."""

from __future__ import annotations

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.base import MAX_DEPTH, Base

_POINTERS = ("pointer_declarator", "abstract_pointer_declarator", "pointer_type_declarator")
_REFERENCES = ("reference_declarator", "abstract_reference_declarator")
_ARRAYS = ("array_declarator", "abstract_array_declarator")
_FUNCTIONS = ("function_declarator", "abstract_function_declarator")
_CLASSES = ("struct_specifier", "class_specifier", "union_specifier", "enum_specifier")
_PLAIN = ("primitive_type", "type_identifier", "identifier", "sized_type_specifier", "namespace_identifier", "auto")
_TEMPLATE_IDS = ("template_type", "template_function", "template_method")
_PARAMETER = "parameter_declaration"

Part = tuple[str, tuple[ir.Expr, ...] | None, Node]


class Types(Base):
    """Lowers type nodes and the declarators around a declared name."""

    def type_of(self, node: Node | None) -> ir.TypeRef:
        """Lowers a type; None, as for a constructor, gives a type with an empty name."""
        if node is None:
            return ir.TypeRef("", (), (self.unit, 0, 0))
        if node.type in _PLAIN:
            return ir.TypeRef(self.compact(node), (), self.loc(node))
        if self.depth >= MAX_DEPTH:
            self.too_deep(node)
            return ir.TypeRef("", (), self.loc(node))
        self.depth += 1
        try:
            return self._composite(node)
        finally:
            self.depth -= 1

    def _composite(self, node: Node) -> ir.TypeRef:
        kind = node.type
        if kind == "type_descriptor":
            return self._descriptor(node)
        if kind in ("template_type", "template_function", "qualified_identifier", "dependent_name"):
            return self.template_id(node)
        if kind == "dependent_type":
            inner = node.named_children
            return self.type_of(inner[0]) if inner else ir.TypeRef("", (), self.loc(node))
        if kind in _CLASSES:
            return self._class_type(node)
        if kind == "placeholder_type_specifier":
            return ir.TypeRef("auto", (), self.loc(node))
        if kind == "decltype":
            return ir.TypeRef("decltype", self.exprs(node.named_children), self.loc(node))
        return ir.TypeRef(self.compact(node), (), self.loc(node))

    def _descriptor(self, node: Node) -> ir.TypeRef:
        base = self.type_of(node.child_by_field_name("type"))
        if node.child_count == 1:
            return base
        if any(child.type == "type_qualifier" and self.source(child) == "const" for child in node.children):
            base.const = True
        _, full = self.declared(node.child_by_field_name("declarator"), base)
        full.loc = self.loc(node)
        return full

    def _class_type(self, node: Node) -> ir.TypeRef:
        name = node.child_by_field_name("name")
        if node.child_by_field_name("body") is None:
            return self.type_of(name)
        label = self.compact(name) if name is not None else f"__anonymous_{node.start_byte + self.shift}"
        self.pending += self.class_def(node, label)
        return ir.TypeRef(label, (), self.loc(node))

    # --- names with template arguments ---

    def template_id(self, node: Node) -> ir.TypeRef:
        """Lowers a qualified template name such as `A::B<x>::C`."""
        parts = self.parts(node)
        names: list[str] = []
        args: tuple[ir.Expr, ...] = ()
        for name, found, _ in parts:
            names.append(name)
            if found is not None:
                args = found
                break
        rest = parts[len(names) :]
        member = tuple(
            [
                name if args_ is None else ir.TemplateName.made(self.compact(part), name, args_)
                for name, args_, part in rest
            ]
        )
        return ir.TypeRef("::".join(name for name in names if name), args, self.loc(node), member)

    def parts(self, node: Node) -> list[Part]:
        """The parts of a qualified name, each with its template arguments (or None) and its node."""
        parts: list[Part] = []
        current: Node | None = node
        while current is not None and current.type == "qualified_identifier":
            scope = current.child_by_field_name("scope")
            if scope is not None:
                parts.append(self._part(scope))
            current = current.child_by_field_name("name")
        if current is not None:
            parts.append(self._part(current))
        return parts

    def _part(self, node: Node) -> Part:
        if node.type == "dependent_name" and node.named_children:
            node = node.named_children[-1]
        args = node.child_by_field_name("arguments")
        if args is None or node.type not in _TEMPLATE_IDS:
            return self.compact(node), None, node
        name = node.child_by_field_name("name")
        return (self.compact(name) if name is not None else ""), self.template_args(args), node

    def template_args(self, node: Node) -> tuple[ir.Expr, ...]:
        """Lowers the template arguments in angle brackets: types to TypeRef, values to expressions, a lone unknown name
        to Name."""
        found: list[ir.Expr] = []
        for child in node.named_children:
            if child.type == "type_descriptor":
                found.append(self._type_argument(child))
            else:
                found.append(self.expr(child))
        return tuple(found)

    def _type_argument(self, node: Node) -> ir.Expr:
        if node.child_count == 1 and node.children[0].type == "type_identifier":
            name = self.source(node)
            if not self.is_type(name):
                return ir.Name(name, self.loc(node))
        return self.type_of(node)

    # --- declarators ---

    def declared(self, node: Node | None, of: ir.TypeRef) -> tuple[Node | None, ir.TypeRef]:
        """The name node inside a declarator (None if it declares no name), and the full type of what is declared, `of`
        being the type in front of the declarator."""
        full = ir.TypeRef(of.name, of.args, of.loc, of.member, of.pointers, of.reference, of.const, of.dims)
        while node is not None:
            kind = node.type
            if kind in _POINTERS and full.dims:  # `T (*p)[N]` steps over rows, as `T p[][N]` does
                full.dims = (ir.Const(None, self.loc(node)), *full.dims)
            elif kind in _POINTERS:
                full.pointers += 1
            elif kind in _REFERENCES:
                full.reference = True
            elif kind in _ARRAYS:
                size = node.child_by_field_name("size")
                first: ir.Expr = ir.Const(None, self.loc(node)) if size is None else self.expr(size)
                full.dims = (first, *full.dims)
            elif kind in _FUNCTIONS:
                params = self.parameters(node.child_by_field_name("parameters"))
                args = (full, *(param.type for param in params if param.type is not None))
                full = ir.TypeRef("function", args, of.loc)
            elif not kind.startswith(("parenthesized_", "abstract_parenthesized", "attributed_", "variadic_", "init_")):
                return node, full
            node = self.inner(node)
        return None, full

    def inner(self, node: Node) -> Node | None:
        """The declarator inside a declarator; None for the innermost."""
        found = node.child_by_field_name("declarator")
        if found is not None or node.type in _ARRAYS or node.type in _FUNCTIONS:
            return found
        named = [child for child in node.named_children if not child.type.endswith(("qualifier", "modifier"))]
        return named[-1] if named else None

    # --- parameters ---

    def parameters(self, node: Node | None) -> tuple[ir.Param, ...]:
        """Lowers a parameter list."""
        if node is None:
            return ()
        found: list[ir.Param] = []
        for child in node.children:
            kind = child.type
            if kind.endswith("parameter_declaration"):
                found.append(self._parameter(child))
            elif kind == "..." or kind == "variadic_parameter":
                found.append(ir.Param("", None, None, "star", self.loc(child)))
            elif kind == "ERROR":
                found.append(ir.Param("", self.opaque(child), None, "positional", self.loc(child)))
        if len(found) == 1 and not found[0].name and isinstance(found[0].type, ir.TypeRef):
            only = found[0].type
            if only.name == "void" and not only.pointers:
                return ()
        return tuple(found)

    def _parameter(self, node: Node) -> ir.Param:
        base = self.type_of(node.child_by_field_name("type"))
        for child in node.children:
            if child.type == "type_qualifier" and self.source(child) == "const":
                base.const = True
        declarator = node.child_by_field_name("declarator")
        name, full = self.declared(declarator, base)
        full.loc = (self.unit, base.loc[1], (declarator.end_byte + self.shift) if declarator else base.loc[2])
        default = node.child_by_field_name("default_value")
        pack = node.type.startswith("variadic")
        return ir.Param(
            "" if name is None else self.compact(name).removeprefix("...").strip(),
            full,
            self.maybe(default),
            "star" if pack else "positional",
            self.loc(node),
        )

    def template_params(self, node: Node | None) -> tuple[ir.TemplateParam, ...]:
        """Lowers a list of template parameters."""
        if node is None:
            return ()
        return tuple([self._template_param(child) for child in node.named_children if child.type.endswith(_PARAMETER)])

    def _template_param(self, node: Node) -> ir.TemplateParam:
        kind = node.type
        pack = kind.startswith("variadic")
        if kind == "template_template_parameter_declaration":
            inner = node.named_children[-1] if node.named_children else node
            name = inner.named_children[0] if inner.named_children else inner
            return ir.TemplateParam("template", self.compact(name), None, inner.type.startswith("variadic"))
        if kind.endswith("type_parameter_declaration"):
            name_node = node.child_by_field_name("name")
            default = node.child_by_field_name("default_type")
            if name_node is None:
                name_node = next(iter(node.named_children), None)
                if name_node is default:
                    name_node = None
            text = "" if name_node is None else self.compact(name_node)
            return ir.TemplateParam("type", text, None if default is None else self.type_of(default), pack)
        param = self._parameter(node)
        return ir.TemplateParam("value", param.name, param.default, pack)
