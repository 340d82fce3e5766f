"""Where code stands: methods as functions, a split class, another order, helpers put in and taken out."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.names import Renamer
from kbh_lint.rewrite.nodes import code, functions, is_pure, is_still, names_in, plain_arguments, simple, statements
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import (
    INTERFACE,
    BodyTransformer,
    HostTransformer,
    Source,
    after_imports,
    framed_source,
    source_of,
)


def models(source: Source) -> list[cst.ClassDef]:
    """The classes that a grader takes by name."""
    return [c for c in source.module.body if isinstance(c, cst.ClassDef) and c.name.value in INTERFACE]


def replace_statement(module: cst.Module, old: cst.CSTNode, new: list[cst.BaseStatement]) -> cst.Module:
    """The module with other statements in place of one at the top."""
    body: list[cst.CSTNode] = []
    for statement in module.body:
        if statement is old:
            body += new
        else:
            body.append(statement)
    return module.with_changes(body=body)


def _arguments(node: cst.FunctionDef) -> str | None:
    """The arguments that hand on all of a method's own; None when it takes starred or keyword-only ones."""
    params = node.params
    if params.kwonly_params or params.star_kwarg or params.posonly_params or isinstance(params.star_arg, cst.Param):
        return None
    return ", ".join(p.name.value for p in params.params)


def _bare(node: cst.FunctionDef) -> cst.FunctionDef:
    """A function without annotations, which may name what is not defined yet where it is put."""
    params = [p.with_changes(annotation=None) for p in node.params.params]
    return node.with_changes(params=node.params.with_changes(params=params), returns=None)


def outline_forward(program: Program, rng: Random) -> Program:
    """The bodies of `forward` become functions of the module, which the methods call."""
    source = framed_source(program)
    module, count = source.module, 0
    for model in models(source):
        for method in functions(model.body.body):
            given = _arguments(method)
            mangled = {name for name in names_in(method.body) if name.startswith("__")} | {"super", "__class__"}
            text = code(method.body)
            if method.name.value != "forward" or method.decorators or given is None:
                continue
            if names_in(method.body) & mangled or ".__" in text or "nonlocal" in text:
                continue
            name = source.fresh(rng)
            outer = _bare(method).with_changes(name=cst.Name(name), leading_lines=[cst.EmptyLine(), cst.EmptyLine()])
            params = [p.with_changes(default=None, equal=cst.MaybeSentinel.DEFAULT) for p in outer.params.params]
            outer = outer.with_changes(params=outer.params.with_changes(params=params))
            body = cst.IndentedBlock(statements(f"return {name}({given})\n"))
            inner = method.with_changes(body=body)
            new = model.with_deep_changes(model.body, body=[inner if s is method else s for s in model.body.body])
            module = replace_statement(module, model, [outer, new])
            count += 1
    if not count:
        raise NotApplicable("no forward can be a function of the module")
    return program.with_main(module.code)


def split_class(program: Program, rng: Random) -> Program:
    """The methods of a model move to a base class; the model inherits all of them."""
    source = source_of(program)
    module, count = source.module, 0
    for model in models(source):
        if model.decorators or f"super({model.name.value}" in source.text or model.keywords:
            continue
        base = source.fresh(rng)
        below = model.with_changes(name=cst.Name(base))
        head = f"\n\nclass {model.name.value}({base}):\n    pass\n"
        module = replace_statement(module, model, [below, *statements(head)])
        count += 1
    asked = ("__subclasses__", "__mro__", "__bases__", "__name__", "__qualname__", "__dict__")
    if not count or any(source.attributes[name] for name in asked):
        raise NotApplicable("no model can be split")
    if any(model.name.value + ".__" in source.text for model in models(source)):
        raise NotApplicable("the model's class is asked for its own attributes")
    return program.with_main(module.code)


def rename_forward(program: Program, rng: Random) -> Program:
    """`forward` is written under another name and bound to its own right after."""
    source = source_of(program)
    module, count = source.module, 0
    for model in models(source):
        method = next((f for f in functions(model.body.body) if f.name.value == "forward"), None)
        if method is None or not isinstance(model.body, cst.IndentedBlock) or source.attributes["__name__"]:
            continue
        name = source.fresh(rng)
        body: list[cst.CSTNode] = []
        for item in model.body.body:
            # What follows in the class may read `forward`, so it is bound at once.
            body += (
                [method.with_changes(name=cst.Name(name)), *statements(f"forward = {name}\n")]
                if item is method
                else [item]
            )
        new = model.with_deep_changes(model.body, body=body)
        module = replace_statement(module, model, [new])
        count += 1
    if not count:
        raise NotApplicable("no model defines forward")
    return program.with_main(module.code)


def reorder(program: Program, rng: Random) -> Program:
    """Neighbouring functions and kernels change places where none needs the other to be defined."""
    source = source_of(program)
    body = list(source.module.body)
    moved = 0
    for _ in range(3):
        for at in range(len(body) - 1):
            if _independent(source, body[at], body[at + 1]) and rng.random() < 0.7:
                body[at], body[at + 1] = body[at + 1], body[at]
                moved += 1
    if not moved or [id(s) for s in body] == [id(s) for s in source.module.body]:
        raise NotApplicable("no two definitions can change places")
    return program.with_main(source.module.with_changes(body=body).code)


def _independent(source: Source, one: cst.CSTNode, two: cst.CSTNode) -> bool:
    if not isinstance(one, (cst.FunctionDef, cst.ClassDef)) or not isinstance(two, (cst.FunctionDef, cst.ClassDef)):
        return False
    if any(
        item.decorators and not (isinstance(item, cst.FunctionDef) and source.is_device(item)) for item in (one, two)
    ):
        return False  # a decorator may count or register what it is given
    if one.name.value == two.name.value:
        return False
    return one.name.value not in _needs(two) and two.name.value not in _needs(one)


def _needs(node: cst.FunctionDef | cst.ClassDef) -> set[str]:
    """Names that defining a function or a class reads."""
    if isinstance(node, cst.ClassDef):
        return names_in(node)
    head = node.with_changes(body=cst.IndentedBlock(statements("pass\n")))
    return names_in(head) - {node.name.value}


def inline_helpers(program: Program, rng: Random) -> Program:
    """Calls of functions that only return an expression become that expression."""
    source = source_of(program)
    helpers = {f.name.value: f for f in functions(source.module.body) if _is_helper(source, f)}
    if not helpers:
        raise NotApplicable("no function only returns an expression")
    return _Inline(source, helpers).run(program, "no such function is called with names and constants")


def _is_helper(source: Source, node: cst.FunctionDef) -> bool:
    body = [s for s in node.body.body if not _is_text(s)]
    only = simple(body[0]) if len(body) == 1 else None
    if node.decorators or source.is_device(node) or source.bindings[node.name.value] != 1 or _arguments(node) is None:
        return False
    if not isinstance(only, cst.Return) or only.value is None or any(p.default for p in node.params.params):
        return False
    params = {p.name.value for p in node.params.params}
    others = names_in(only.value) - params
    # What the expression names besides must mean the same at every call.
    return not _binds(only.value) and all(source.bindings[n] <= 1 for n in others) and "super" not in others


def _is_text(statement: cst.CSTNode) -> bool:
    item = simple(statement)
    return isinstance(item, cst.Expr) and isinstance(item.value, (cst.SimpleString, cst.ConcatenatedString))


def _binds(node: cst.CSTNode) -> bool:
    found: list[cst.CSTNode] = []

    class Scopes(cst.CSTVisitor):
        def on_visit(self, node: cst.CSTNode) -> bool:
            if isinstance(node, (cst.Lambda, cst.CompFor, cst.NamedExpr, cst.FormattedString, cst.Yield, cst.Await)):
                found.append(node)
            return True

    node.visit(Scopes())
    return bool(found)


class _Inline(HostTransformer):
    def __init__(self, source: Source, helpers: dict[str, cst.FunctionDef]) -> None:
        super().__init__(source)
        self.helpers = helpers

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        helper = self.helpers.get(func.value) if isinstance(func, cst.Name) else None
        if helper is None or not plain_arguments(updated_node.args):
            return updated_node
        params = [p.name.value for p in helper.params.params]
        if len(params) != len(updated_node.args) or not all(is_pure(arg.value) for arg in updated_node.args):
            return updated_node
        result = next(item for item in map(simple, helper.body.body) if isinstance(item, cst.Return))
        assert result.value is not None
        self.count += 1
        given = {p: arg.value for p, arg in zip(params, updated_node.args, strict=True)}
        value = result.value.deep_clone().visit(_Substitute(given))
        assert isinstance(value, cst.BaseExpression)
        return cst.parse_expression(f"({code(value)})")


class _Substitute(Renamer):
    def __init__(self, given: dict[str, cst.BaseExpression]) -> None:
        super().__init__({})
        self.given = given

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        value = self.given.get(original_node.value)
        return cst.parse_expression(f"({code(value)})") if value is not None else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


def outline_expressions(program: Program, rng: Random) -> Program:
    """The values that host functions return are computed by small helpers of the module."""
    source = framed_source(program)
    work = _Outline(source, rng)
    module = source.module.visit(work)
    if not work.helpers:
        raise NotApplicable("no function returns a call of something on names")
    return program.with_main(after_imports(module, "".join(work.helpers)).code)


class _Outline(BodyTransformer):
    """Takes `f(a, b.c, 1)` out of functions when all names in it are arguments, locals or imports."""

    def __init__(self, source: Source, rng: Random) -> None:
        super().__init__(source, rng)
        self.helpers: list[str] = []

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        path = self.source.path(original_node.func)
        shallow = all(is_still(arg.value) and not arg.star for arg in updated_node.args)
        if self.depth != 1 or path is None or not shallow or not updated_node.args or len(self.helpers) >= 20:
            return updated_node
        if not isinstance(original_node.func, cst.Attribute) or path.split(".")[0] not in ("torch", "math", "triton"):
            return updated_node
        if path.rpartition(".")[2][0].isupper() or "jit" in path or "autotune" in path:
            return updated_node
        name = self.source.fresh(self.rng)
        values = {f"p{at}": arg for at, arg in enumerate(updated_node.args)}
        inner = ", ".join(f"{arg.keyword.value}={p}" if arg.keyword else p for p, arg in values.items())
        given = ", ".join(code(arg.value) for arg in values.values())
        self.helpers.append(f"\n\ndef {name}({', '.join(values)}):\n    return {code(updated_node.func)}({inner})\n")
        return cst.parse_expression(f"{name}({given})")


REWRITES = (
    Rewrite("outline-forward", "the body of forward is a function of the module", outline_forward),
    Rewrite("outline-calls", "library calls are made by small helpers at the end of the module", outline_expressions),
    Rewrite("inline-helpers", "functions that only return an expression are put in at their calls", inline_helpers),
    Rewrite("split-class", "the model's methods stand in a base class", split_class),
    Rewrite("rename-forward", "forward is written under another name and then bound", rename_forward),
    Rewrite("reorder", "functions, kernels and classes in another order", reorder),
)
