"""Renaming arguments: of functions and kernels, at calls, launches and configurations too."""

from __future__ import annotations

import symtable
from collections.abc import Mapping
from random import Random

import libcst as cst

from kbh_lint.rewrite.names import Renamer, tables, uses_debug_fields
from kbh_lint.rewrite.nodes import code, names_in
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import Source, source_of


def rename_arguments(program: Program, rng: Random) -> Program:
    """Every argument of every function and kernel gets another name, at the launches and configurations too."""
    source = source_of(program)
    if source.dynamic or uses_debug_fields(source.module):
        raise NotApplicable("the file looks names up at run time")
    uses = _KeywordUses(source)
    source.module.visit(uses)
    names = {
        name
        for name in uses.parameters
        if name not in uses.elsewhere and name not in ("self", "cls") and not name.startswith("__")
    }
    if not names:
        raise NotApplicable("no argument can be renamed")
    renaming = {name: source.fresh(rng) for name in sorted(names)}
    return program.with_main(source.module.visit(_RenameArguments(source, renaming)).code)


class _KeywordUses(cst.CSTVisitor):
    """Parameters of functions, and names that are also something else: a keyword of a foreign call, a string."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parameters: set[str] = set()
        self.elsewhere: set[str] = set()
        self.handed_on = _handed_on(source)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        names = {p.name.value for p in _params(node)}
        if node.name.value in ("__init__", "forward") or node.name.value in self.handed_on:
            self.elsewhere |= names
        self.elsewhere |= names & _outside(node) | {node.name.value}
        try:
            table = symtable.symtable(code(node), "function", "exec")
        except (SyntaxError, ValueError):
            self.elsewhere |= names
            return
        for inner in tables(table):
            for symbol in inner.get_symbols():
                if symbol.get_name() in names and (
                    symbol.is_imported() or symbol.is_namespace() or symbol.is_declared_global()
                ):
                    self.elsewhere.add(symbol.get_name())
        self.parameters |= names

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.elsewhere |= {p.name.value for p in node.params.params}

    def visit_Call(self, node: cst.Call) -> None:
        if not _calls_kernel(self.source, node):
            self.elsewhere |= {arg.keyword.value for arg in node.args if arg.keyword is not None}

    def visit_Decorator(self, node: cst.Decorator) -> bool:
        # The names that autotune and heuristics are given follow the kernel; keywords of theirs stay.
        for call in _calls(node):
            self.elsewhere |= {arg.keyword.value for arg in call.args if arg.keyword is not None}
        return False

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        value = node.evaluated_value
        if isinstance(value, str) and value.isidentifier():
            self.elsewhere.add(value)

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        return _meta_key(node) is None


def _handed_on(source: Source) -> set[str]:
    """Host functions that are values somewhere: others may call them, and by the names of their arguments."""
    found: set[str] = set()

    class Values(cst.CSTVisitor):
        def visit_Call(self, node: cst.Call) -> bool:
            if not isinstance(node.func, cst.Name):
                node.func.visit(self)
            for arg in node.args:
                arg.value.visit(self)
            return False

        def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
            node.body.visit(self)
            return False

        def visit_Name(self, node: cst.Name) -> None:
            found.add(node.value)

    source.module.visit(Values())
    return found - source.device


def _params(node: cst.FunctionDef) -> list[cst.Param]:
    return [*node.params.params, *node.params.kwonly_params, *node.params.posonly_params]


def _outside(node: cst.FunctionDef) -> set[str]:
    """Names in the head of a function: defaults, annotations and decorators belong to the scope around it."""
    parts: list[cst.CSTNode] = [decorator.decorator for decorator in node.decorators]
    for param in _params(node):
        parts += [part for part in (param.default, param.annotation) if part is not None]
    return set[str]().union(*(names_in(part) for part in parts))


def _calls(node: cst.CSTNode) -> list[cst.Call]:
    found: list[cst.Call] = []

    class Collect(cst.CSTVisitor):
        def visit_Call(self, node: cst.Call) -> None:
            found.append(node)

    node.visit(Collect())
    return found


def _calls_kernel(source: Source, node: cst.Call) -> bool:
    if isinstance(node.func, cst.Subscript):
        return names_in(node.func.value) <= source.device and isinstance(node.func.value, cst.Name)
    return isinstance(node.func, cst.Name) and node.func.value in source.device


def _meta_key(node: cst.Subscript) -> str | None:
    """The key of `META["BLOCK"]`, where META is a name that grids use for what a kernel is launched with."""
    if not (isinstance(node.value, cst.Name) and node.value.value.lower() in ("meta", "args", "cfg", "config", "opt")):
        return None
    index = node.slice[0].slice if len(node.slice) == 1 else None
    if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
        return str(index.value.evaluated_value)
    return None


class _RenameArguments(Renamer):
    def __init__(self, source: Source, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.source = source
        self.inside: list[set[str]] = []
        self.decorators = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.inside.append({p.name.value for p in _params(node) if p.name.value in self.names})

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.inside.pop()
        return updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if any(original_node.value in names for names in self.inside):
            return updated_node.with_changes(value=self.names[original_node.value])
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if not _calls_kernel(self.source, original_node):
            return updated_node
        args = [
            arg.with_changes(keyword=cst.Name(self.names[arg.keyword.value]))
            if arg.keyword is not None and arg.keyword.value in self.names
            else arg
            for arg in updated_node.args
        ]
        return updated_node.with_changes(args=args)

    def visit_Decorator(self, node: cst.Decorator) -> None:
        self.decorators += 1

    def leave_Decorator(self, original_node: cst.Decorator, updated_node: cst.Decorator) -> cst.Decorator:
        self.decorators -= 1
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        value = original_node.evaluated_value
        if self.decorators and isinstance(value, str) and value in self.names:
            return updated_node.with_changes(value=repr(self.names[value]))
        return updated_node

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        key = _meta_key(original_node)
        if key is not None and key in self.names and isinstance(updated_node.slice[0].slice, cst.Index):
            index = updated_node.slice[0].with_changes(slice=cst.Index(cst.SimpleString(repr(self.names[key]))))
            return updated_node.with_changes(slice=[index])
        return updated_node


REWRITES = (Rewrite("rename-arguments", "other names for arguments, at calls and launches too", rename_arguments),)
