"""Renaming: locals, what a module defines, attributes."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterable, Mapping
from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, functions, names_in
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import INTERFACE, Source, source_of

# What torch.nn.Module itself gives a model; an attribute of the same name may be meant for it.
_MODULE_MEMBERS = frozenset(
    """apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval extra_repr float
    forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia named_buffers
    named_children named_modules named_parameters parameters register_backward_hook register_buffer
    register_forward_hook register_forward_pre_hook register_full_backward_hook register_module register_parameter
    requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu
    zero_grad""".split()
)


class Renamer(cst.CSTTransformer):
    """Renames `Name` nodes; attribute names and keywords of calls stay."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        new = self.names.get(updated_node.value)
        return updated_node.with_changes(value=new) if new else updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def visit_Import(self, node: cst.Import) -> bool | None:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool | None:
        return False


def tables(table: symtable.SymbolTable) -> Iterable[symtable.SymbolTable]:
    """A symbol table and all inside it."""
    yield table
    for child in table.get_children():
        yield from tables(child)


class _DebugFields(cst.CSTVisitor):
    any = False

    def visit_FormattedStringExpression(self, node: cst.FormattedStringExpression) -> None:
        self.any = self.any or node.equal is not None


def uses_debug_fields(node: cst.CSTNode) -> bool:
    """Whether an f-string prints an expression's own text, as `f"{x=}"` does."""
    found = _DebugFields()
    node.visit(found)
    return found.any


def _local_names(function: cst.FunctionDef) -> set[str]:
    """The locals of a function that can be renamed throughout it: no parameters, imports, functions or classes."""
    try:
        module = symtable.symtable(code(function), "function", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return set()
    top = next((t for t in module.get_children() if t.get_name() == function.name.value), None)
    if not isinstance(top, symtable.Function):
        return set()
    found = {
        s.get_name()
        for s in top.get_symbols()
        if s.is_local() and s.is_assigned() and not (s.is_parameter() or s.is_imported() or s.is_namespace())
    }
    for inner in list(tables(top))[1:]:
        for symbol in inner.get_symbols():
            name = symbol.get_name()
            free = symbol.is_free() or (
                symbol.is_local() and not (symbol.is_parameter() or symbol.is_imported() or symbol.is_namespace())
            )
            if name in found and (not free or inner.get_type() == "class"):
                found.discard(name)
    return {name for name in found if not name.startswith("__")}


def rename_locals(program: Program, rng: Random) -> Program:
    """Every local variable of every function and kernel gets another name."""
    source = source_of(program)
    if source.dynamic:
        raise NotApplicable("the file looks names up at run time")
    work = _RenameLocals(source, rng)
    module = source.module.visit(work)
    if not work.count:
        raise NotApplicable("no function has a local variable")
    return program.with_main(module.code)


class _RenameLocals(cst.CSTTransformer):
    def __init__(self, source: Source, rng: Random) -> None:
        super().__init__()
        self.source, self.rng, self.count = source, rng, 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        names = set() if uses_debug_fields(original_node) else _local_names(original_node)
        if not names:
            return updated_node
        self.count += len(names)
        renamer = Renamer({name: self.source.fresh(self.rng) for name in sorted(names)})
        body = updated_node.body.visit(renamer)
        return updated_node.with_changes(body=body)


def rename_globals(program: Program, rng: Random) -> Program:
    """Every function, kernel, class and variable of the module gets another name, the interface excepted."""
    source = source_of(program)
    names = _global_names(source, program)
    if not names:
        raise NotApplicable("the module defines nothing that can be renamed")
    renamer = Renamer({name: source.fresh(rng) for name in sorted(names)})
    return program.with_main(source.module.visit(renamer).code)


def _global_names(source: Source, program: Program) -> set[str]:
    if source.dynamic or source.attributes["__name__"] or source.attributes["__qualname__"]:
        raise NotApplicable("the file looks names up at run time")
    if any(name.endswith(".py") for name in program.sidecars):
        raise NotApplicable("another module may import from this one")
    if uses_debug_fields(source.module):
        raise NotApplicable("an f-string prints a name")
    module = symtable.symtable(source.text, "solution.py", "exec")
    found = {
        s.get_name() for s in module.get_symbols() if (s.is_assigned() or s.is_namespace()) and not s.is_imported()
    }
    for inner in list(tables(module))[1:]:
        for symbol in inner.get_symbols():
            if symbol.get_name() in found and not symbol.is_global():
                found.discard(symbol.get_name())
    taken = INTERFACE | set(source.strings) | set(dir(builtins))
    return {name for name in found if name not in taken and not name.startswith("__")}


def rename_attributes(program: Program, rng: Random) -> Program:
    """Attributes that a class keeps numbers, containers and methods under get other names."""
    source = source_of(program)
    if source.dynamic or source.words & {"getattr", "setattr", "__dict__", "__getattr__", "hasattr"}:
        raise NotApplicable("the file looks attributes up at run time")
    work = _Attributes()
    source.module.visit(work)
    names = {
        name
        for name in work.plain | work.methods
        if name not in work.other
        and name not in _MODULE_MEMBERS
        and not name.startswith(("__", "_parameters", "_buffers", "_modules", "_version", "_backward", "_forward"))
        and name not in source.strings
        and name not in source.keywords
    }
    if not names:
        raise NotApplicable("no class has an attribute that can be renamed")
    renaming = {name: source.fresh(rng) for name in sorted(names)}
    return program.with_main(source.module.visit(_RenameAttributes(renaming)).code)


class _Attributes(cst.CSTVisitor):
    """Attributes by what is kept in them: `plain` values and `methods`, and `other` for what must keep its name."""

    def __init__(self) -> None:
        self.plain: set[str] = set()
        self.methods: set[str] = set()
        self.other: set[str] = set()

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        foreign = {code(base.value).rpartition(".")[2] for base in node.bases} - {"Module", "object"}
        if foreign or node.keywords:  # what a base class means by a name is not known
            self.other |= _all_attributes(node)
        for method in functions(node.body.body):
            name = method.name.value
            (self.other if method.decorators or foreign else self.methods).add(name)
        for statement in node.body.body:
            if isinstance(statement, cst.SimpleStatementLine):
                for item in statement.body:
                    if isinstance(item, (cst.Assign, cst.AnnAssign)):
                        self.other |= names_in(item)

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._target(target.target, node.value)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if not (isinstance(node.value, cst.Name) and node.value.value == "self"):
            self.other.add(node.attr.value)

    def _target(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        if isinstance(target, cst.Attribute):
            plain = isinstance(value, (cst.Integer, cst.Float, cst.SimpleString, cst.Dict, cst.List, cst.Tuple))
            empty = isinstance(value, cst.Name) and value.value in ("None", "True", "False")
            (self.plain if plain or empty else self.other).add(target.attr.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for item in target.elements:
                if isinstance(item.value, cst.Attribute):
                    self.other.add(item.value.attr.value)


def _all_attributes(node: cst.CSTNode) -> set[str]:
    found: set[str] = set()

    class Collect(cst.CSTVisitor):
        def visit_Attribute(self, node: cst.Attribute) -> None:
            found.add(node.attr.value)

    node.visit(Collect())
    return found


class _RenameAttributes(cst.CSTTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names
        self.classes = 0

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes += 1

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        self.classes -= 1
        body = [
            item.with_changes(name=cst.Name(self.names[item.name.value]))
            if isinstance(item, cst.FunctionDef) and item.name.value in self.names
            else item
            for item in updated_node.body.body
        ]
        return updated_node.with_changes(body=updated_node.body.with_changes(body=body))

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        new = self.names.get(original_node.attr.value)
        return updated_node.with_changes(attr=cst.Name(new)) if new else updated_node


REWRITES = (
    Rewrite("rename-locals", "other names for local variables, of loops too, in functions and kernels", rename_locals),
    Rewrite("rename-globals", "other names for the module's functions, kernels, classes and variables", rename_globals),
    Rewrite("rename-attributes", "other names for methods and plain attributes of classes", rename_attributes),
)
