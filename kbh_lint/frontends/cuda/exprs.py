"""Expressions of C++, lowered to the IR: a method a kind of node of the grammar, so as many as there are kinds."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from kbh_lint.base import ir
from kbh_lint.frontends.cuda import ambiguous, jumps, lambdas, literals
from kbh_lint.frontends.cuda.base import MAX_DEPTH
from kbh_lint.frontends.cuda.types import Types

_CASTS = {
    "static_cast": "static",
    "reinterpret_cast": "reinterpret",
    "const_cast": "const",
    "dynamic_cast": "dynamic",
}
_COMPARE = frozenset({"==", "!=", "<", "<=", ">", ">="})
_BOOL = {"&&": "and", "||": "or", "and": "and", "or": "or"}
_ARITHMETIC = {"bitand": "&", "bitor": "|", "xor": "^"}
_UNARY = {"!": "not", "not": "not", "-": "-", "+": "+", "~": "~", "compl": "~"}


class Exprs(Types):
    """Lowers expression nodes."""

    in_function = 0
    gotos = False  # whether the text has labels or gotos

    def structured(self, body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
        """The body of a function with its labels and gotos replaced by structured statements, as far as possible."""
        return jumps.structured(body) if self.gotos else body

    def expr(self, node: Node) -> ir.Expr:
        """Lowers an expression; one that is not understood becomes an Opaque."""
        kind = node.type
        if kind == "identifier":  # two of five nodes
            start, end = node.start_byte + self.shift, node.end_byte + self.shift
            if start < end:
                return ir.Name(self.text[start:end], (self.unit, start, end))
        lower = _EXPRESSIONS.get(kind)
        if self.depth >= MAX_DEPTH:
            return self.too_deep(node)
        self.depth += 1
        try:
            return self.opaque(node) if lower is None else lower(self, node)
        finally:
            self.depth -= 1

    def field(self, node: Node, name: str) -> ir.Expr:
        """Lowers the expression in the field `name` of a node; a missing one becomes an Opaque."""
        child = node.child_by_field_name(name)
        return ir.Opaque(f"missing {name}", (), self.loc(node)) if child is None else self.expr(child)

    # --- names and literals ---

    def _name(self, node: Node) -> ir.Expr:
        if node.is_missing:
            return ir.Opaque("missing name", (), self.loc(node))
        return ir.Name(self.source(node), self.loc(node))

    def _type_name(self, node: Node) -> ir.Expr:
        return self.type_of(node)

    def _qualified(self, node: Node) -> ir.Expr:
        text = self.source(node)
        if "<" not in text:
            words = "".join(text.split())
            name = ir.Name(words.removeprefix("::"), self.loc(node))
            if words.startswith("::") and "::" not in name.id:
                self.outermost.append(name)
            return name
        parts = self.parts(node)
        with_args = [index for index, part in enumerate(parts) if part[1] is not None]
        if len(with_args) > 1 and with_args[-1] == len(parts) - 1:
            owner = self.template_id(node)
            owner.member = owner.member[:-1]
            return ir.Attr(owner, parts[-1][0], self.loc(node), parts[-1][1])
        reference: ir.TypeRef = self.template_id(node)
        return reference

    def _number(self, node: Node) -> ir.Expr:
        text = self.source(node)
        value = literals.number(text)
        if value is None:
            return ir.Opaque(f"number {text[:40]!r}", (), self.loc(node))
        dt = literals.integer_type(text, value) if isinstance(value, int) else "i32"
        return ir.Const(value, self.loc(node), "" if dt == "i32" else dt)

    def _string(self, node: Node) -> ir.Expr:
        start, end = node.start_byte + self.shift, node.end_byte + self.shift
        return ir.Const(literals.strings(self.unit.prepared[start:end]), self.loc(node))

    def _char(self, node: Node) -> ir.Expr:
        return ir.Const(literals.character(self.source(node)), self.loc(node))

    def _constant(self, node: Node) -> ir.Expr:
        return ir.Const({"true": True, "false": False}.get(node.type), self.loc(node))

    def _user_literal(self, node: Node) -> ir.Expr:
        text = self.source(node)
        suffix = next((child for child in node.children if child.type == "literal_suffix"), None)
        inner = next((child for child in node.named_children if child.type != "literal_suffix"), None)
        if inner is None:
            return ir.Opaque(f"literal {text[:40]!r}", (), self.loc(node))
        name = "" if suffix is None else self.source(suffix)
        return ir.Call(ir.Name(f'operator""{name}', self.loc(node)), (self.expr(inner),), (), self.loc(node))

    # --- operators ---

    def _binary(self, node: Node) -> ir.Expr:
        """A chain `a + b + c` is nested to the left; it is read without recursion."""
        chain: list[Node] = []
        current = node
        while current.type == "binary_expression":
            chain.append(current)
            left_node = current.child_by_field_name("left")
            if left_node is None:
                break
            current = left_node
        if len(chain) > self.chain_room():
            return self.too_deep(node)
        self.depth += len(chain)
        try:
            left = self.field(chain[-1], "left") if current.type == "binary_expression" else self.expr(current)
            for link in reversed(chain):
                left = self._binary_link(link, left)
        finally:
            self.depth -= len(chain)
        return left

    def _binary_link(self, node: Node, left: ir.Expr) -> ir.Expr:
        operator = node.child_by_field_name("operator")
        op = "" if operator is None else operator.type
        right = self.field(node, "right")
        where = self.loc(node)
        if op in _BOOL:
            word = _BOOL[op]
            if isinstance(left, ir.Bool) and left.op == word and node.children[0].type == "binary_expression":
                return ir.Bool(word, (*left.values, right), where)
            return ir.Bool(word, (left, right), where)
        if op in _COMPARE:
            called = ambiguous.template_call(self, node, left) if op == ">" else None
            return ir.Compare(left, (op,), (right,), where) if called is None else called
        if op == "not_eq":
            return ir.Compare(left, ("!=",), (right,), where)
        if node.has_error and any(child.type == "ERROR" and self.source(child) == "=" for child in node.children):
            return ir.AssignE(left, _ARITHMETIC.get(op, op), right, where)  # `T{a} += b`, an error to the grammar
        if op == "<=>" or not op:
            return ir.Opaque(f"operator {op!r}", (left, right), where)
        return ir.Binary(_ARITHMETIC.get(op, op), left, right, where)

    def _unary(self, node: Node) -> ir.Expr:
        operator = node.child_by_field_name("operator")
        op = "" if operator is None else operator.type
        value = self.field(node, "argument")
        if op not in _UNARY:
            return ir.Opaque(f"operator {op!r}", (value,), self.loc(node))
        if op in "-+" and isinstance(value, ir.Const) and isinstance(value.value, (int, float)):
            return ir.Const(-value.value if op == "-" else value.value, self.loc(node))
        return ir.Unary(_UNARY[op], value, self.loc(node))

    def _pointer(self, node: Node) -> ir.Expr:
        return ir.Unary(node.children[0].type, self.field(node, "argument"), self.loc(node))

    def _update(self, node: Node) -> ir.Expr:
        first = node.children[0]
        post = first.type not in ("++", "--")
        op = self.source(node.children[-1] if post else first)[:1]
        where, target = self.loc(node), self.field(node, "argument")
        signs: list[ir.Unary] = []  # `!count++`, which the grammar takes for `(!count)++`
        part = node.child_by_field_name("argument")
        while post and part is not None and part.type == "unary_expression" and isinstance(target, ir.Unary):
            signs.append(target)
            part, target = part.child_by_field_name("argument"), target.value
        made: ir.Expr = ir.AssignE(target, op, ir.Const(1, where), where, post)
        for sign in reversed(signs):
            made = ir.Unary(sign.op, made, sign.loc)
        return made

    def _assignment(self, node: Node) -> ir.Expr:
        operator = node.child_by_field_name("operator")
        op = "=" if operator is None else operator.type
        cut = next((child for child in node.children if child.type == "ERROR"), None)
        if (
            cut is not None and len(cut.children) == 2 and cut.children[1].type == ","
        ):  # `(a = 4, b)`: an error to the grammar
            first = ir.AssignE(self.field(node, "left"), op[:-1], self.expr(cut.children[0]), self.loc(node))
            return ir.Binary(",", first, self.field(node, "right"), self.loc(node))
        return ir.AssignE(self.field(node, "left"), op[:-1], self.field(node, "right"), self.loc(node))

    def _conditional(self, node: Node) -> ir.Expr:
        """A chain of `?:` nests to the right; it is read without recursion."""
        chain: list[tuple[Node, ir.Expr, ir.Expr]] = []
        current: Node | None = node
        room = self.chain_room()
        last: ir.Expr
        while current is not None and current.type == "conditional_expression" and len(chain) < room:
            chain.append((current, self.field(current, "condition"), self.field(current, "consequence")))
            current = current.child_by_field_name("alternative")
        if current is None:
            last = ir.Opaque("missing alternative", (), self.loc(node))
        else:
            last = self.too_deep(current) if len(chain) >= room else self.expr(current)
        for link, test, yes in reversed(chain):
            last = ir.Cond(test, yes, last, self.loc(link))
        return last

    def _comma(self, node: Node) -> ir.Expr:
        return ir.Binary(",", self.field(node, "left"), self.field(node, "right"), self.loc(node))

    def _parenthesized(self, node: Node) -> ir.Expr:
        inner = [child for child in node.named_children if child.type != "comment"]
        return self.expr(inner[0]) if len(inner) == 1 else self.opaque(node)

    def _attribute(self, node: Node) -> ir.Expr:
        value = self.field(node, "argument")
        field = node.child_by_field_name("field")
        if field is None:
            return ir.Opaque("missing field", (value,), self.loc(node))
        if field.type in ("field_identifier", "identifier"):
            return ir.Attr(value, self.source(field), self.loc(node))
        name, args, _ = self.parts(field)[-1]
        return ir.Attr(value, name, self.loc(node), args)

    def _subscript(self, node: Node) -> ir.Expr:
        value = self.field(node, "argument")
        indices = node.child_by_field_name("indices") or node.child_by_field_name("index")
        if indices is None:
            return ir.Opaque("missing index", (value,), self.loc(node))
        items = self.exprs(indices.named_children if indices.type == "subscript_argument_list" else [indices])
        index = items[0] if len(items) == 1 else ir.Seq("tuple", items, self.loc(indices))
        return ir.Index(value, index, self.loc(node))

    # --- casts and types ---

    def _cast(self, node: Node) -> ir.Expr:
        described = node.child_by_field_name("type")
        value_node = node.child_by_field_name("value")
        if value_node is not None and described is not None and ambiguous.is_value(self, described):
            mixed = ambiguous.no_cast(self, node, described, value_node)
            if mixed is not None:
                return mixed
        return ir.Cast("c", self.type_of(described), self.field(node, "value"), self.loc(node))

    def _sizeof(self, node: Node) -> ir.Expr:
        where = self.loc(node)
        word = node.children[0].type
        described = node.child_by_field_name("type")
        value = node.child_by_field_name("value")
        operand: ir.Expr
        if described is not None:
            operand = self.type_of(described)
        elif value is not None:
            operand = self.expr(value)
            if isinstance(operand, ir.Name) and self.is_type(operand.id):
                operand = ir.TypeRef(operand.id, (), operand.loc)
        else:
            operand = ir.Opaque("missing operand", (), where)
        if any(child.type == "..." for child in node.children):
            word += "..."
        return ir.Call(ir.Name(word, where), (operand,), (), where)

    def _compound_literal(self, node: Node) -> ir.Expr:
        func: ir.Expr = self.type_of(node.child_by_field_name("type"))
        value = node.child_by_field_name("value")
        return ir.Call(func, () if value is None else self.exprs(value.named_children), (), self.loc(node), True)

    def _initializer(self, node: Node) -> ir.Expr:
        return ir.Seq("init", self.exprs(node.named_children), self.loc(node))

    def _designated(self, node: Node) -> ir.Expr:
        """`.x = 1` in braces: an AssignE of the field's name."""
        value = self.field(node, "value")
        designator = node.child_by_field_name("designator")
        name = "" if designator is None else self.source(designator).strip(". ")
        return ir.AssignE(ir.Name(name, self.loc(node)), "", value, self.loc(node))

    def _new(self, node: Node) -> ir.Expr:
        """`new T(a)`: a call of `new` on the type, the length of an array and the arguments."""
        args = node.child_by_field_name("arguments")
        length = node.child_by_field_name("declarator")
        items = () if length is None else self.exprs(length.children_by_field_name("length"))
        items += () if args is None else self.exprs(args.named_children)
        return ir.Call(
            ir.Name("new", self.loc(node)), (self.type_of(node.child_by_field_name("type")), *items), (), self.loc(node)
        )

    def _delete(self, node: Node) -> ir.Expr:
        return ir.Call(ir.Name("delete", self.loc(node)), self.exprs(node.named_children[-1:]), (), self.loc(node))

    def _pack(self, node: Node) -> ir.Expr:
        return ir.Star(self.field(node, "pattern"), self.loc(node))

    def _fold(self, node: Node) -> ir.Expr:
        """`(args + ...)`: a call of `...` on the operator and the operands."""
        operator = node.child_by_field_name("operator")
        op = "" if operator is None else operator.type
        operands = self.exprs(child for child in node.named_children if child.type not in ("...", "comment"))
        return ir.Call(ir.Name("...", self.loc(node)), (ir.Const(op, self.loc(node)), *operands), (), self.loc(node))

    # --- calls ---

    def _call(self, node: Node) -> ir.Expr:
        func = node.child_by_field_name("function")
        args_node = node.child_by_field_name("arguments")
        if func is None or args_node is None:
            return self.opaque(node)
        where = self.loc(node)
        if func.type == "call_expression":
            config = func.child_by_field_name("arguments")
            if config is not None and config.start_byte + self.shift in self.blanked.launches:
                return self._launch(func, config, args_node, where)
        if func.start_byte + self.shift in self.blanked.asms:
            return ir.Opaque("asm inside an expression", tuple(self.anything([args_node])), where)
        args = self.exprs(child for child in args_node.named_children if child.type != "comment")
        if func.type == "template_function":
            compared = ambiguous.less_than_a_template(self, func, args, where)
            if compared is not None:
                return compared
        cast = self._cast_as_call(func, args, where) if len(args) == 1 else None
        if cast is not None:
            return cast
        if any(child.type == "ERROR" for child in node.children):  # `x = f(a), (g())`, which the grammar cannot read
            return ir.Opaque("a call that does not parse", (self.expr(func), *args), where)
        if func.type == "qualified_identifier" and self.source(func) == "std::addressof" and len(args) == 1:
            return ir.Unary("&", args[0], where)
        return ir.Call(self.expr(func), args, (), where)

    def _cast_as_call(self, func: Node, args: tuple[ir.Expr, ...], where: ir.Loc) -> ir.Cast | None:
        """`static_cast<float>(x)` and `(float)(x)`, which the grammar takes for calls."""
        if func.type == "template_function":
            name, described = func.child_by_field_name("name"), func.child_by_field_name("arguments")
            kind = _CASTS.get(self.source(name)) if name is not None else None
            if kind is not None and described is not None and described.named_children:
                return ir.Cast(kind, self.type_of(described.named_children[0]), args[0], where)
        elif func.type == "parenthesized_expression":
            name = func.named_children[0] if func.named_children else func
            if name.type in ("identifier", "qualified_identifier") and self.is_type(self.compact(name)):
                return ir.Cast("c", self.type_of(name), args[0], where)
        return None

    def _launch(self, func: Node, config: Node, args: Node, where: ir.Loc) -> ir.Expr:
        items: list[ir.Expr | None] = list(self.exprs(config.named_children))
        items += [None] * (4 - len(items))
        return ir.Launch(
            self.field(func, "function"), items[0], items[1], items[2], items[3], self.exprs(args.named_children), where
        )


_EXPRESSIONS: dict[str, Callable[[Exprs, Node], ir.Expr]] = {
    "identifier": Exprs._name,
    "field_identifier": Exprs._name,
    "this": Exprs._name,
    "namespace_identifier": Exprs._name,
    "operator_name": Exprs._name,
    "type_identifier": Exprs._type_name,
    "primitive_type": Exprs._type_name,
    "sized_type_specifier": Exprs._type_name,
    "type_descriptor": Exprs._type_name,
    "template_type": Exprs._type_name,
    "template_function": Exprs._type_name,
    "dependent_type": Exprs._type_name,
    "decltype": Exprs._type_name,
    "placeholder_type_specifier": Exprs._type_name,
    "qualified_identifier": Exprs._qualified,
    "number_literal": Exprs._number,
    "string_literal": Exprs._string,
    "raw_string_literal": Exprs._string,
    "concatenated_string": Exprs._string,
    "char_literal": Exprs._char,
    "true": Exprs._constant,
    "false": Exprs._constant,
    "null": Exprs._constant,
    "user_defined_literal": Exprs._user_literal,
    "binary_expression": Exprs._binary,
    "unary_expression": Exprs._unary,
    "pointer_expression": Exprs._pointer,
    "update_expression": Exprs._update,
    "assignment_expression": Exprs._assignment,
    "conditional_expression": Exprs._conditional,
    "comma_expression": Exprs._comma,
    "parenthesized_expression": Exprs._parenthesized,
    "field_expression": Exprs._attribute,
    "subscript_expression": Exprs._subscript,
    "cast_expression": Exprs._cast,
    "sizeof_expression": Exprs._sizeof,
    "alignof_expression": Exprs._sizeof,
    "compound_literal_expression": Exprs._compound_literal,
    "initializer_list": Exprs._initializer,
    "initializer_pair": Exprs._designated,
    "new_expression": Exprs._new,
    "delete_expression": Exprs._delete,
    "parameter_pack_expansion": Exprs._pack,
    "fold_expression": Exprs._fold,
    "call_expression": Exprs._call,
    "lambda_expression": lambdas.lowered,
}
