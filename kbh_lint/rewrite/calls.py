"""Other ways to call the same thing: partial, lambda, decorators, keyword order."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, expression, functions, is_still
from kbh_lint.rewrite.program import Program, Rewrite
from kbh_lint.rewrite.tree import HostTransformer, Source, framed_source, source_of


def partial_calls(program: Program, rng: Random) -> Program:
    """`f(a, b)` becomes `functools.partial(f, a)(b)`."""
    source = source_of(program)
    tool = source.fresh(rng)
    return _Partial(source, tool).run(
        program, "no function is called with two arguments", f"import functools as {tool}\n"
    )


class _Partial(HostTransformer):
    def __init__(self, source: Source, tool: str) -> None:
        super().__init__(source)
        self.tool = tool

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        args = updated_node.args
        if len(args) < 2 or args[0].keyword is not None or args[0].star or not _is_function(self.source, original_node):
            return updated_node
        self.count += 1
        first = expression(f"{self.tool}.partial({code(updated_node.func)}, {code(args[0].value)})")
        return updated_node.with_changes(func=first, args=args[1:])


def _is_function(source: Source, call: cst.Call) -> bool:
    """Whether what is called is a function of the module or of an import: not a class, a method or a kernel launch."""
    if isinstance(call.func, cst.Name):
        own = {f.name.value for f in functions(source.module.body)} - source.device
        return call.func.value in own and source.bindings[call.func.value] == 1
    path = source.path(call.func)
    return (
        path is not None and isinstance(call.func, cst.Attribute) and path.split(".")[0] in ("torch", "triton", "math")
    )


def lambda_calls(program: Program, rng: Random) -> Program:
    """`f(a, k=b)` becomes `(lambda *p, **k: f(*p, **k))(a, k=b)`."""
    source = framed_source(program)
    return _Lambda(source, source.fresh(rng), source.fresh(rng)).run(program, "no function is called")


class _Lambda(HostTransformer):
    def __init__(self, source: Source, args: str, keywords: str) -> None:
        super().__init__(source)
        self.names = args, keywords

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not original_node.args or not _is_function(self.source, original_node):
            return updated_node
        self.count += 1
        args, keywords = self.names
        made = f"(lambda *{args}, **{keywords}: {code(updated_node.func)}(*{args}, **{keywords}))"
        return updated_node.with_changes(func=expression(made))


def decorate(program: Program, rng: Random) -> Program:
    """Functions and methods get a decorator that calls them."""
    source = framed_source(program)
    name, tool, inner = source.fresh(rng), source.fresh(rng), source.fresh(rng)
    helper = (
        f"import functools as {tool}\n\n\n"
        f"def {name}(f):\n    @{tool}.wraps(f)\n    def {inner}(*a, **k):\n        return f(*a, **k)\n\n"
        f"    return {inner}\n"
    )
    return _Decorate(source, name).run(program, "the file has no plain function or method", helper)


class _Decorate(HostTransformer):
    def __init__(self, source: Source, name: str) -> None:
        super().__init__(source)
        self.name = name
        self.inside = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        return False

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        special = original_node.name.value.startswith("__")
        if original_node.decorators or special or self.source.is_device(original_node):
            return updated_node
        self.count += 1
        return updated_node.with_changes(decorators=[cst.Decorator(cst.Name(self.name))])


def keyword_order(program: Program, rng: Random) -> Program:
    """Keyword arguments stand in another order, where evaluating them has no effect."""
    source = source_of(program)
    return _KeywordOrder(source, rng).run(program, "no call has two keyword arguments that may change places")


class _KeywordOrder(HostTransformer):
    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        return True  # keyword order is free inside kernels too

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        named = [arg for arg in updated_node.args if arg.keyword is not None]
        rest = [arg for arg in updated_node.args if arg.keyword is None]
        if len(named) < 2 or any(arg.star == "**" for arg in rest) or not all(is_still(arg.value) for arg in named):
            return updated_node
        order = named[::-1] if len(named) == 2 else self.rng.sample(named, len(named))
        if order == named:
            order = named[::-1]
        self.count += 1
        args = [arg.with_changes(comma=cst.MaybeSentinel.DEFAULT) for arg in (*rest, *order)]
        return updated_node.with_changes(args=args)


def class_calls(program: Program, rng: Random) -> Program:
    """Calls of methods of `self` go through the class: `self.f(x)` becomes `type(self).f(self, x)`."""
    source = source_of(program)
    methods = _own_methods(source)
    return _ThroughClass(source, methods).run(program, "no plain method of self is called")


def _own_methods(source: Source) -> set[str]:
    """Undecorated methods of the module's classes that nothing is assigned over."""
    found: set[str] = set()
    assigned = _AssignedAttributes()
    source.module.visit(assigned)
    for item in source.module.body:
        if isinstance(item, cst.ClassDef):
            found |= {f.name.value for f in functions(item.body.body) if not f.decorators}
    return {name for name in found if not name.startswith("__")} - assigned.names - set(source.strings)


class _AssignedAttributes(cst.CSTVisitor):
    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Attribute):
            self.names.add(node.target.attr.value)


class _ThroughClass(HostTransformer):
    def __init__(self, source: Source, methods: set[str]) -> None:
        super().__init__(source)
        self.methods = methods

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if not (isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"):
            return updated_node
        if func.attr.value not in self.methods:
            return updated_node
        self.count += 1
        args = [cst.Arg(cst.Name("self")), *updated_node.args]
        return updated_node.with_changes(func=expression(f"type(self).{func.attr.value}"), args=args)


REWRITES = (
    Rewrite("partial-calls", "functions are called through functools.partial", partial_calls),
    Rewrite("lambda-calls", "functions are called through a lambda", lambda_calls),
    Rewrite("decorate", "functions and methods get a decorator that calls them", decorate),
    Rewrite("keyword-order", "keyword arguments in another order", keyword_order),
    Rewrite("class-calls", "methods of self are called through the class", class_calls),
)
