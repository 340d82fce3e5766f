"""Other ways to get hold of a library: aliases, `from` imports, imports by name."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.names import Renamer
from kbh_lint.rewrite.nodes import code
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import HostTransformer, Source, after_imports, patches, source_of

# Functions that every supported torch has, by module; an import of one at the top cannot fail.
_EXISTING = {
    "torch": """abs add addmm argsort baddbmm bmm cat clamp compile cumsum einsum empty empty_like exp full gather log
    logsumexp matmul max mm mul ones ones_like outer relu reshape rsqrt sigmoid softmax sort stack sum tensor topk where
    zeros zeros_like""",
    "torch.nn.functional": """conv2d conv3d gelu linear pad relu scaled_dot_product_attention silu softmax""",
    "triton": "cdiv next_power_of_2",
}


def alias_imports(program: Program, rng: Random) -> Program:
    """`import x` becomes `import x as y`, `from x import y` gets another name too, with all their uses."""
    source = source_of(program)
    if source.dynamic or any(name.endswith(".py") for name in program.sidecars):
        raise NotApplicable("the file looks names up at run time")
    names = {
        name: source.fresh(rng)
        for name, path in sorted(source.imports.items())
        if not path.startswith("__future__") and name not in source.strings
    }
    work = _AliasImports(names, source)
    module = source.module.visit(work)
    if not work.renamed:
        raise NotApplicable("nothing is imported at the top")
    return program.with_main(module.code)


class _AliasImports(Renamer):
    def __init__(self, names: dict[str, str], source: Source) -> None:
        super().__init__(names)
        for item in _dotted(source.module):
            self.names = {name: new for name, new in self.names.items() if name != item}
        self.renamed = 0

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        return updated_node.with_changes(names=[self._alias(alias) for alias in original_node.names])

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        if isinstance(original_node.names, cst.ImportStar):
            return updated_node
        return updated_node.with_changes(names=[self._alias(alias) for alias in original_node.names])

    def _alias(self, alias: cst.ImportAlias) -> cst.ImportAlias:
        name = code(alias.asname.name) if alias.asname is not None else code(alias.name)
        if name not in self.names:
            return alias
        self.renamed += 1
        space = cst.SimpleWhitespace(" ")
        asname = cst.AsName(cst.Name(self.names[name]), whitespace_before_as=space, whitespace_after_as=space)
        return alias.with_changes(asname=asname)


def _dotted(module: cst.Module) -> set[str]:
    """First names of `import a.b` without `as`: an alias would bind something else."""
    found: set[str] = set()

    class Collect(cst.CSTVisitor):
        def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
            if node.asname is None and isinstance(node.name, cst.Attribute):
                found.add(code(node.name).split(".")[0])

    module.visit(Collect())
    return found


def from_imports(program: Program, rng: Random) -> Program:
    """`torch.matmul` is imported by itself, under another name, and called by that."""
    source = source_of(program)
    if patches(source):
        raise NotApplicable("the program changes attributes of modules")
    work = _FromImports(source, rng)
    module = source.module.visit(work)
    if not work.made:
        raise NotApplicable("no known library function is called by its path")
    lines = [
        f"from {path.rpartition('.')[0]} import {path.rpartition('.')[2]} as {name}\n"
        for path, name in work.made.items()
    ]
    return program.with_main(after_imports(module, "".join(lines)).code)


class _FromImports(HostTransformer):
    def __init__(self, source: Source, rng: Random) -> None:
        super().__init__(source, rng)
        self.made: dict[str, str] = {}

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        path = self.source.path(original_node.func)
        if path is None or not isinstance(original_node.func, cst.Attribute):
            return updated_node
        home, _, name = path.rpartition(".")
        if name not in _EXISTING.get(home, "").split():
            return updated_node
        new = self.made.setdefault(path, self.made.get(path) or self.source.fresh(self.rng))
        return updated_node.with_changes(func=cst.Name(new))


def import_by_name(program: Program, rng: Random) -> Program:
    """torch is imported through importlib, by a name put together from pieces."""
    source = source_of(program)
    new, tool = source.fresh(rng), source.fresh(rng)
    work = _ByName(source, new)
    module = source.module.visit(work)
    if not work.count:
        raise NotApplicable("torch is not used by its name")
    text = f'import importlib as {tool}\n{new} = {tool}.import_module("to" + "rch")\n'
    return program.with_main(after_imports(module, text).code)


class _ByName(HostTransformer):
    def __init__(self, source: Source, new: str) -> None:
        super().__init__(source)
        self.new = new

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = original_node.value
        if isinstance(value, cst.Name) and self.source.imports.get(value.value) == "torch":
            self.count += 1
            return updated_node.with_changes(value=cst.Name(self.new))
        return updated_node


REWRITES = (
    Rewrite("alias-imports", "imported modules and functions get other names", alias_imports),
    Rewrite("from-imports", "library functions are imported singly, under other names", from_imports),
    Rewrite("import-by-name", "torch comes from importlib, its name from two pieces", import_by_name),
)
