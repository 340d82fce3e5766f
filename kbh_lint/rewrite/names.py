"""Renaming: locals, what a module defines, arguments, attributes."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterable, Mapping
from random import Random

import libcst as cst

from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import INTERFACE, Source, code, functions, names_in, source_of

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


def _tables(table: symtable.SymbolTable) -> Iterable[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


class _DebugFields(cst.CSTVisitor):
    any = False

    def visit_FormattedStringExpression(self, node: cst.FormattedStringExpression) -> None:
        self.any = self.any or node.equal is not None


def _uses_debug_fields(node: cst.CSTNode) -> bool:
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
    for inner in list(_tables(top))[1:]:
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
        names = set() if _uses_debug_fields(original_node) else _local_names(original_node)
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
    if _uses_debug_fields(source.module):
        raise NotApplicable("an f-string prints a name")
    module = symtable.symtable(source.text, "solution.py", "exec")
    found = {
        s.get_name() for s in module.get_symbols() if (s.is_assigned() or s.is_namespace()) and not s.is_imported()
    }
    for inner in list(_tables(module))[1:]:
        for symbol in inner.get_symbols():
            if symbol.get_name() in found and not symbol.is_global():
                found.discard(symbol.get_name())
    taken = INTERFACE | set(source.strings) | set(dir(builtins))
    return {name for name in found if name not in taken and not name.startswith("__")}


def rename_arguments(program: Program, rng: Random) -> Program:
    """Every argument of every function and kernel gets another name, at the launches and configurations too."""
    source = source_of(program)
    if source.dynamic or _uses_debug_fields(source.module):
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
        self.own_call = 0
        self.config = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        names = {p.name.value for p in _params(node)}
        if node.name.value in ("__init__", "forward"):
            self.elsewhere |= names
        self.elsewhere |= names & _outside(node) | {node.name.value}
        try:
            table = symtable.symtable(code(node), "function", "exec")
        except (SyntaxError, ValueError):
            self.elsewhere |= names
            return
        for inner in _tables(table):
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
        and not name.startswith("__")
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
        self.depth = 0

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for method in functions(node.body.body):
            name = method.name.value
            (self.other if method.decorators else self.methods).add(name)
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
    Rewrite("rename-locals", "other names for local variables of functions and kernels", rename_locals),
    Rewrite("rename-globals", "other names for the module's functions, kernels, classes and variables", rename_globals),
    Rewrite("rename-arguments", "other names for arguments, at calls and launches too", rename_arguments),
    Rewrite("rename-attributes", "other names for methods and plain attributes of classes", rename_attributes),
)
