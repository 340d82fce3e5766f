"""Variables, templates and namespaces of C++, lowered to the IR: a method a kind of node of the grammar."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda.functions import Functions


class Declarations(Functions):
    """Lowers declarations, in functions, in classes and at the top."""

    def declaration(self, node: Node) -> list[ir.Stmt]:
        """Lowers a declaration, to one statement for each name that it declares."""
        lower = _DECLARATIONS.get(node.type)
        if lower is None:
            return [self.opaque(node)]
        outer, self.pending = self.pending, []
        try:
            found = lower(self, node)
            return [*self.pending, *found] if self.pending else found
        finally:
            self.pending = outer

    # --- variables ---

    def _variables(self, node: Node) -> list[ir.Stmt]:
        declarators = node.children_by_field_name("declarator")
        first_end = declarators[0].start_byte if declarators else node.end_byte
        storage, const = self._storage(node, first_end + self.shift)
        template = self.take_template()
        type_node = node.child_by_field_name("type")
        base = self.type_of(type_node)
        base.const = base.const or const
        if not declarators:
            return self._nameless(node, type_node, base, storage)
        defaults = self._member_defaults(node)
        found: list[ir.Stmt] = []
        for declarator in declarators:
            default = defaults.get(declarator.end_byte)
            found += self._declarator(node, declarator, base, storage, default, template)
        return found

    def _member_defaults(self, node: Node) -> dict[int, Node]:
        """In a class, the initialiser of each declarator, by the end of the declarator."""
        if node.type != "field_declaration":
            return {}
        defaults: dict[int, Node] = {}
        last = -1
        values = {value.start_byte for value in node.children_by_field_name("default_value")}
        ends = {declarator.end_byte for declarator in node.children_by_field_name("declarator")}
        for child in node.children:
            if child.end_byte in ends:
                last = child.end_byte
            elif child.start_byte in values:
                defaults[last] = child
        return defaults

    def _nameless(self, node: Node, type_node: Node | None, base: ir.TypeRef, storage: frozenset[str]) -> list[ir.Stmt]:
        """`struct S {...};`, or an anonymous union whose members belong to the class around it."""
        if type_node is not None and type_node.type == "union_specifier" and base.name.startswith("__anonymous"):
            return [ir.Decl("", base, None, storage, self.loc(node))]
        return []

    def _declarator(
        self,
        node: Node,
        declarator: Node,
        base: ir.TypeRef,
        storage: frozenset[str],
        default: Node | None,
        template: tuple[ir.TemplateParam, ...],
    ) -> list[ir.Stmt]:
        where = (self.unit, node.start_byte + self.shift, declarator.end_byte + self.shift)
        if default is not None:
            where = (self.unit, where[1], default.end_byte + self.shift)
        init: ir.Expr | None = self.maybe(default)
        target: Node | None = declarator
        if declarator.type == "init_declarator":
            target = declarator.child_by_field_name("declarator")
            init = self._initial(declarator.child_by_field_name("value"))
        function = self._function_inside(target)
        if function is not None:
            if not self.in_function:
                return [self._prototype(node, target, function, base, storage, template)]
            init = self._vexed(function)
            target = function.child_by_field_name("declarator")
        elif target is not None and target.type == "operator_cast":
            return [self._conversion(node, target, None, storage)]
        name, full = self.declared(target, base)
        if name is not None and name.type == "structured_binding_declarator":
            names = ir.Seq("places" if full.reference else "tuple", self.exprs(name.named_children), self.loc(name))
            value = init if init is not None else ir.Opaque("missing value", (), where)
            return [ir.Assign((names,), value, where)]
        if "constexpr" in storage and init is not None and not self.in_function:
            named, special = self._named(name)
            if (template or special) and "::" not in named:
                constant = ir.Decl(ir.VARIABLE, full, init, storage | {"static"}, where)
                return [ir.ClassDef(named, (), (constant,), where, (), (), template, special)]
        text = "" if name is None else self.compact(name).rpartition("::*")[2]  # `int S::*field` declares `field`
        return [ir.Decl(text, full, init, storage, where, bits=self._width(declarator))]

    def _width(self, declarator: Node) -> ir.Expr | None:
        """The width of a bit field: `unsigned low : 4`."""
        behind = declarator.next_sibling
        if declarator.type != "field_identifier" or behind is None or behind.type != "bitfield_clause":
            return None
        return self.maybe(behind.named_children[0] if behind.named_children else None)

    def _initial(self, value: Node | None) -> ir.Expr | None:
        if value is None:
            return None
        if value.type == "argument_list":
            return ir.Seq("ctor", self.exprs(value.named_children), self.loc(value))
        return self.expr(value)

    def _vexed(self, function: Node) -> ir.Expr:
        """`dim3 grid(a, b);` in a function reads as a prototype in the grammar; its parameters are arguments."""
        params = function.child_by_field_name("parameters")
        if params is None:
            return ir.Seq("ctor", (), self.loc(function))
        start = params.start_byte + self.shift
        end = params.end_byte + self.shift
        outer = self.shift
        try:
            call = _first(self.parse(start, end, "int _=f", ";"), "argument_list")
            items = () if call is None else self.exprs(call.named_children)
        finally:
            self.shift = outer
        return ir.Seq("ctor", items, (self.unit, start, end))

    # --- classes ---

    def _class(self, node: Node) -> list[ir.Stmt]:
        if node.child_by_field_name("body") is None:
            return self.class_declared(node)
        return self.class_def(node)

    # --- templates, names, namespaces ---

    def _template(self, node: Node) -> list[ir.Stmt]:
        outer = self.template
        own = self.template_params(node.child_by_field_name("parameters"))
        self.template, self.explicit = outer + own, not own
        found: list[ir.Stmt] = []
        for child in node.named_children:
            if child.type not in ("template_parameter_list", "requires_clause", "comment"):
                found += self.statement(child)
        self.template, self.explicit = outer, False
        return found

    def _alias(self, node: Node) -> list[ir.Stmt]:
        template = self.take_template()
        name = node.child_by_field_name("name")
        named = "" if name is None else self.compact(name)
        return [ir.Using(named, self.type_of(node.child_by_field_name("type")), self.loc(node), None, template)]

    def _typedef(self, node: Node) -> list[ir.Stmt]:
        base = self.type_of(node.child_by_field_name("type"))
        found: list[ir.Stmt] = []
        for declarator in node.children_by_field_name("declarator"):
            name, full = self.declared(declarator, base)
            found.append(ir.Using("" if name is None else self.compact(name), full, self.loc(node)))
        return found

    def _using(self, node: Node) -> list[ir.Stmt]:
        target = node.named_children[-1] if node.named_children else None
        if target is None:
            return []
        text = "".join(self.source(target).split()).removeprefix("::")
        if any(child.type == "namespace" for child in node.children):
            return [ir.Using("", None, self.loc(node), text)]
        return [ir.Using(text.rsplit("::", 1)[-1], ir.TypeRef(text, (), self.loc(target)), self.loc(node))]

    def _namespace(self, node: Node) -> list[ir.Stmt]:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        if body is None:
            return []
        start, end = body.start_byte + self.shift, body.end_byte + self.shift
        self.unit.add_namespace(start, end, "" if name is None else "".join(self.source(name).split()))
        return list(self.statements(body.named_children))

    def _namespace_alias(self, node: Node) -> list[ir.Stmt]:
        named = node.named_children
        if len(named) < 2:
            return []
        target = ir.TypeRef(self.compact(named[-1]), (), self.loc(named[-1]))
        return [ir.Using(self.compact(named[0]), target, self.loc(node))]

    def _linkage(self, node: Node) -> list[ir.Stmt]:
        body = node.child_by_field_name("body")
        if body is None:
            return []
        return list(self.statements(body.named_children)) if body.type == "declaration_list" else self.statement(body)

    def _friend(self, node: Node) -> list[ir.Stmt]:
        outer, self.class_names = self.class_names, ()
        try:
            found = self.statements(node.named_children)
        finally:
            self.class_names = outer
        return [statement for statement in found if isinstance(statement, ir.FuncDef)]

    def _inner(self, node: Node) -> list[ir.Stmt]:
        return list(self.statements(node.named_children))

    def _skip(self, node: Node) -> list[ir.Stmt]:
        return []


def _first(nodes: tuple[Node, ...], kind: str) -> Node | None:
    stack = list(reversed(nodes))
    while stack:
        current = stack.pop()
        if current.type == kind:
            return current
        stack.extend(reversed(current.named_children))
    return None


_DECLARATIONS: dict[str, Callable[[Declarations, Node], list[ir.Stmt]]] = {
    "declaration": Declarations._variables,
    "field_declaration": Declarations._variables,
    "function_definition": Declarations._function,
    "template_declaration": Declarations._template,
    "template_instantiation": Declarations._skip,
    "struct_specifier": Declarations._class,
    "class_specifier": Declarations._class,
    "union_specifier": Declarations._class,
    "enum_specifier": Declarations._class,
    "alias_declaration": Declarations._alias,
    "type_definition": Declarations._typedef,
    "using_declaration": Declarations._using,
    "namespace_definition": Declarations._namespace,
    "namespace_alias_definition": Declarations._namespace_alias,
    "linkage_specification": Declarations._linkage,
    "friend_declaration": Declarations._friend,
    "access_specifier": Declarations._skip,
    "else_clause": Declarations._inner,
    "init_statement": Declarations._inner,
    "declaration_list": Declarations._inner,
    "field_declaration_list": Declarations._inner,
    "case_statement": Declarations._inner,
}
