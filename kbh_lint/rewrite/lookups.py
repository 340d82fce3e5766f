"""Saying a name as data: getattr and setattr, globals(), dictionaries, strings in pieces."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import expression, functions, statements
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import HostTransformer, Source, prepend, source_of


def _pieces(text: str, rng: Random) -> tuple[str, str]:
    at = rng.randint(1, len(text) - 1)
    return text[:at], text[at:]


def getattr_strings(program: Program, rng: Random) -> Program:
    """`torch.matmul(...)` becomes `getattr(torch, "mat" + "mul")(...)`."""
    source = source_of(program)
    if source.bindings["getattr"]:
        raise NotApplicable("the file defines getattr")
    return _Getattr(source, rng).run(program, "no function of an imported module is called")


class _Getattr(HostTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if (
            not isinstance(func, cst.Attribute)
            or len(func.attr.value) < 2
            or self.source.path(original_node.func) is None
        ):
            return updated_node
        self.count += 1
        one, two = _pieces(func.attr.value, self.rng)
        spelled = self.rng.choice((f"'{one}' + '{two}'", f"'{one}{{}}'.format('{two}')", f"f\"{one}{{'{two}'}}\""))
        owner = cst.Module([]).code_for_node(func.value)
        return updated_node.with_changes(func=expression(f"getattr({owner}, {spelled})"))


def method_getattr(program: Program, rng: Random) -> Program:
    """`x.view(...)` becomes `getattr(x, "view")(...)`, for every method but those of `super()`."""
    source = source_of(program)
    if source.bindings["getattr"]:
        raise NotApplicable("the file defines getattr")
    return _MethodGetattr(source).run(program, "no method is called")


class _MethodGetattr(HostTransformer):
    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if not isinstance(func, cst.Attribute) or not isinstance(func.value, (cst.Name, cst.Attribute)):
            return updated_node
        if self.source.path(original_node.func) is not None or func.attr.value.startswith("__"):
            return updated_node
        self.count += 1
        owner = cst.Module([]).code_for_node(func.value)
        return updated_node.with_changes(func=expression(f"getattr({owner}, '{func.attr.value}')"))


def setattr_strings(program: Program, rng: Random) -> Program:
    """`self.x = v` becomes `setattr(self, "x", v)`."""
    source = source_of(program)
    if source.bindings["setattr"]:
        raise NotApplicable("the file defines setattr")
    return _Setattr(source).run(program, "nothing is assigned to an attribute of self")


class _Setattr(HostTransformer):
    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        return updated_node.with_changes(body=[self._changed(item) for item in updated_node.body])

    def _changed(self, item: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
        if not isinstance(item, cst.Assign) or len(item.targets) != 1:
            return item
        target = item.targets[0].target
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Name):
            return item
        if target.value.value != "self" or target.attr.value.startswith("__"):
            return item
        self.count += 1
        value = cst.Module([]).code_for_node(item.value)
        if isinstance(item.value, cst.Tuple) and not item.value.lpar:
            value = f"({value})"
        call = expression(f'setattr(self, "{target.attr.value}", {value})')
        return cst.Expr(call, semicolon=item.semicolon)


def _called_functions(source: Source) -> dict[str, cst.FunctionDef]:
    """Functions and kernels of the module, bound once, by name."""
    return {f.name.value: f for f in functions(source.module.body) if source.bindings[f.name.value] == 1}


def dict_dispatch(program: Program, rng: Random) -> Program:
    """Functions and kernels are called through a dictionary."""
    source = source_of(program)
    names = _called_functions(source)
    if not names:
        raise NotApplicable("the module defines no function")
    table = source.fresh(rng)
    work = _Dispatch(source, {name: f'{table}["{key}"]' for key, name in enumerate(names)})
    module = source.module.visit(work)
    if not work.count:
        raise NotApplicable("no function of the module is called")
    body: list[cst.CSTNode] = []
    keys = {name: key for key, name in enumerate(names)}
    for statement in module.body:
        body.append(statement)
        if isinstance(statement, cst.FunctionDef) and statement.name.value in keys:
            name = statement.name.value
            body += statements(f'{table}["{keys[name]}"] = {name}\n')
    return program.with_main(prepend(module.with_changes(body=body), f"{table} = {{}}\n").code)


def globals_lookup(program: Program, rng: Random) -> Program:
    """Functions and kernels are called by `globals()["na" + "me"]`."""
    source = source_of(program)
    if source.bindings["globals"]:
        raise NotApplicable("the file defines globals")
    names = {name for name in _called_functions(source) if len(name) > 1}
    spelled = {}
    for name in sorted(names):
        one, two = _pieces(name, rng)
        spelled[name] = f'globals()["{one}" + "{two}"]'
    return _Dispatch(source, spelled).run(program, "no function of the module is called")


class _Dispatch(HostTransformer):
    """Puts another expression where a function of the module is called or launched."""

    def __init__(self, source: Source, spelled: dict[str, str]) -> None:
        super().__init__(source)
        self.spelled = spelled

    def _other(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        if isinstance(node, cst.Name) and node.value in self.spelled:
            self.count += 1
            return expression(self.spelled[node.value])
        return None

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if isinstance(func, cst.Subscript):
            other = self._other(func.value)
            return updated_node.with_changes(func=func.with_changes(value=other)) if other else updated_node
        other = self._other(func)
        return updated_node.with_changes(func=other) if other else updated_node


def split_strings(program: Program, rng: Random) -> Program:
    """Short strings are put together from two pieces."""
    source = source_of(program)
    return _SplitStrings(source, rng).run(program, "the file has no short string to split")


class _SplitStrings(HostTransformer):
    def visit_Expr(self, node: cst.Expr) -> bool | None:
        return not isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString))

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool | None:
        return False

    def visit_MatchValue(self, node: cst.MatchValue) -> bool | None:
        return False

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        value = original_node.evaluated_value
        if not isinstance(value, str) or not 3 <= len(value) <= 60:
            return updated_node
        self.count += 1
        one, two = _pieces(value, self.rng)
        spelled = self.rng.choice((f"({one!r} + {two!r})", f"''.join(({one!r}, {two!r}))", f"({one!r} '' {two!r})"))
        return expression(spelled)


def wrap_in_class(program: Program, rng: Random) -> Program:
    """Functions are called as static methods of a class, kernels as its attributes."""
    source = source_of(program)
    names = _called_functions(source)
    owner = source.fresh(rng)
    spelled = {name: f"{owner}.{name}" for name in names}
    work = _Dispatch(source, spelled)
    module = source.module.visit(work)
    if not work.count:
        raise NotApplicable("no function of the module is called")
    body: list[cst.CSTNode] = []
    for statement in module.body:
        body.append(statement)
        if isinstance(statement, cst.FunctionDef) and statement.name.value in names:
            name = statement.name.value
            value = name if source.is_device(statement) else f"staticmethod({name})"
            body += statements(f"{owner}.{name} = {value}\n")
    module = module.with_changes(body=body)
    return program.with_main(prepend(module, f"class {owner}:\n    pass\n").code)


REWRITES = (
    Rewrite("getattr-strings", "functions of modules come from getattr with a name in pieces", getattr_strings),
    Rewrite("getattr-methods", "methods come from getattr", method_getattr),
    Rewrite("setattr-strings", "attributes of self are set by setattr", setattr_strings),
    Rewrite("dict-dispatch", "functions and kernels are called through a dictionary", dict_dispatch),
    Rewrite("globals-lookup", "functions and kernels are looked up in globals() by a name in pieces", globals_lookup),
    Rewrite("split-strings", "short strings are put together from two pieces", split_strings),
    Rewrite("wrap-in-class", "functions and kernels are called as attributes of a class", wrap_in_class),
)
