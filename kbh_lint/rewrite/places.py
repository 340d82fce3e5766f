"""Where texts and kernels are kept: joined, formatted, replaced, in files beside the solution, built later."""

from __future__ import annotations

import re
from random import Random

import libcst as cst

from kbh_lint.rewrite.cuda.text import cuda_strings, literal
from kbh_lint.rewrite.nodes import code, expression, names_in, simple, statements, string_value
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import Source, prepend, source_of

_NO_TEXT = "the file holds no CUDA text as a constant"


class _Texts(cst.CSTTransformer):
    """Puts other expressions in place of CUDA strings."""

    def __init__(self, new: dict[int, str]) -> None:
        super().__init__()
        self.new = new

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        new = self.new.get(id(original_node))
        return expression(new) if new is not None else updated_node

    def leave_ConcatenatedString(
        self, original_node: cst.ConcatenatedString, updated_node: cst.ConcatenatedString
    ) -> cst.BaseExpression:
        new = self.new.get(id(original_node))
        return expression(new) if new is not None else updated_node


def _values(source: Source) -> dict[int, str]:
    found = {id(node): string_value(node) or "" for node in cuda_strings(source)}
    if not found:
        raise NotApplicable(_NO_TEXT)
    return found


def join_text(program: Program, rng: Random) -> Program:
    r"""CUDA text is `"\n".join([...])` of its lines."""
    source = source_of(program)
    new = {}
    for key, text in _values(source).items():
        lines = "".join(f"    {line!r},\n" for line in text.split("\n"))
        new[key] = f'"\\n".join([\n{lines}])'
    return program.with_main(source.module.visit(_Texts(new)).code)


def format_text(program: Program, rng: Random) -> Program:
    """Makes an f-string of a CUDA text: some of its words, such as `float`, become names that are put into it."""
    source = source_of(program)
    words = ("float", "int", "void", "__nv_bfloat16")
    names = {word: source.fresh(rng) for word in words}
    new = {}
    for key, text in _values(source).items():
        pieces = re.split(rf"\b({'|'.join(words)})\b", text)
        if len(pieces) == 1 or '"""' in text:
            continue
        body = "".join(
            f"{{{names[piece]}}}" if at % 2 else piece.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}")
            for at, piece in enumerate(pieces)
        )
        new[key] = f'f"""{body}"""' if not body.endswith('"') else f'f"""{body[:-1]}\\""""'
    if not new:
        raise NotApplicable("the CUDA text has no word to put in")
    made = "".join(f"{name} = {word!r}\n" for word, name in names.items())
    return program.with_main(prepend(source.module.visit(_Texts(new)), made).code)


def replace_text(program: Program, rng: Random) -> Program:
    """CUDA text holds place holders that `.replace` fills in."""
    source = source_of(program)
    new = {}
    for key, text in _values(source).items():
        holder = f"@{source.fresh(rng)}@"
        changed = re.sub(r"\bfloat\b", holder, text)
        if changed != text:
            new[key] = f"{literal(changed)}.replace({holder!r}, 'float')"
    if not new:
        raise NotApplicable("the CUDA text has no word to put in")
    return program.with_main(source.module.visit(_Texts(new)).code)


def concatenate_text(program: Program, rng: Random) -> Program:
    """CUDA text is the sum of two parts that the module keeps by name."""
    source = source_of(program)
    new, made = {}, []
    for key, text in _values(source).items():
        lines = text.split("\n")
        cut = rng.randint(1, len(lines) - 1)
        one, two = source.fresh(rng), source.fresh(rng)
        made.append(f"{one} = {literal(chr(10).join(lines[:cut]) + chr(10))}\n")
        made.append(f"{two} = {literal(chr(10).join(lines[cut:]))}\n")
        new[key] = f"({one} + {two})"
    return program.with_main(prepend(source.module.visit(_Texts(new)), "".join(made)).code)


def text_file(program: Program, rng: Random) -> Program:
    """CUDA text moves to files beside the solution, which are read where it was."""
    source = source_of(program)
    tool, new, result = source.fresh(rng), {}, program
    for key, text in _values(source).items():
        if text != text.replace("\r", ""):
            raise NotApplicable("the CUDA text has line ends that a file would not keep")
        name = f"{source.fresh(rng)}.cu"
        result = result.with_sidecar(name, text)
        new[key] = f"({tool}.Path(__file__).resolve().parent / {name!r}).read_text()"
    module = source.module.visit(_Texts(new))
    return result.with_main(prepend(module, f"import pathlib as {tool}\n").code)


def module_file(program: Program, rng: Random) -> Program:
    """Functions and kernels that need nothing but imports and one another move to a module beside the solution."""
    source = source_of(program)
    if source.dynamic or "__file__" in source.words:
        raise NotApplicable("the file looks names up at run time")
    constants = {name: s for s in source.module.body if (name := _constant(s)) and source.bindings[name] == 1}
    moved = _movable(source, set(constants))
    if not moved:
        raise NotApplicable("every function needs what stays in the module")
    name = source.fresh(rng)
    wanted = set[str]().union(*(_free_names(f) for f in moved.values())) & set(constants)
    imports = [s for s in source.module.body if _is_kept_import(s)]
    text = cst.Module([*imports, *(constants[n] for n in sorted(wanted)), *moved.values()]).code
    # The import stands where the first of them stood: what the module sets up before, it sets up before.
    first = next(iter(moved.values()))
    body: list[cst.CSTNode] = []
    for statement in source.module.body:
        if statement is first:
            body += statements(f"from {name} import {', '.join(moved)}\n")
        if statement not in moved.values():
            body.append(statement)
    return program.with_main(source.module.with_changes(body=body).code).with_sidecar(f"{name}.py", text)


def _movable(source: Source, constants: set[str]) -> dict[str, cst.FunctionDef]:
    """The functions that need nothing but imports, constants and one another."""
    found = [s for s in source.module.body if isinstance(s, cst.FunctionDef)]
    if any(source.bindings[f.name.value] != 1 for f in found):
        raise NotApplicable("a function is bound twice")
    moved = {f.name.value: f for f in found}
    known = set(source.imports) | _builtins() | constants
    while True:
        usable = known | set(moved)
        bad = {n for n, f in moved.items() if not _free_names(f) <= usable or _patched(source, n)}
        if not bad:
            return moved
        moved = {n: f for n, f in moved.items() if n not in bad}


def _constant(statement: cst.CSTNode) -> str | None:
    """The name of a module constant: a number or a string, or tl.constexpr of one."""
    item = simple(statement)
    if isinstance(item, cst.Assign) and len(item.targets) == 1:
        target, value = item.targets[0].target, item.value
    elif isinstance(item, cst.AnnAssign) and item.value is not None:
        target, value = item.target, item.value
    else:
        return None
    if isinstance(value, cst.Call) and code(value.func).endswith("constexpr") and len(value.args) == 1:
        value = value.args[0].value
    plain = isinstance(value, (cst.Integer, cst.Float, cst.UnaryOperation)) and not names_in(value)
    return target.value if isinstance(target, cst.Name) and plain else None


def _is_kept_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(item, (cst.Import, cst.ImportFrom)) for item in statement.body
    )


def _patched(source: Source, name: str) -> bool:
    """Whether something is assigned to an attribute of the function."""
    return re.search(rf"\b{re.escape(name)}\.\w+\s*=[^=]", source.text) is not None


def _builtins() -> set[str]:
    import builtins

    return set(dir(builtins))


def _free_names(node: cst.FunctionDef) -> set[str]:
    """Names that a function takes from the module around it; all names when that cannot be told."""
    import symtable

    try:
        table = symtable.symtable(code(node), "function", "exec")
    except (SyntaxError, ValueError):
        return names_in(node)
    found = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    pending = list(table.get_children())
    while pending:
        inner = pending.pop()
        pending += inner.get_children()
        for symbol in inner.get_symbols():
            if symbol.is_global():
                found.add(symbol.get_name())
            if symbol.is_declared_global() and symbol.is_assigned():
                found.add("?")
    return found - {node.name.value}


def lazy_build(program: Program, rng: Random) -> Program:
    """An extension that the module builds at import is built at its first use."""
    source = source_of(program)
    work = None
    for statement in source.module.body:
        item = simple(statement)
        if isinstance(item, cst.Assign) and len(item.targets) == 1 and isinstance(item.targets[0].target, cst.Name):
            if isinstance(item.value, cst.Call) and re.search(r"(^|\.)(load_inline|load)$", code(item.value.func)):
                work = statement, item.targets[0].target.value, item.value
    if work is None:
        raise NotApplicable("the module builds no extension at import")
    statement, name, value = work
    if source.bindings[name] != 1 or f"global {name}" in source.text or name in source.strings:
        raise NotApplicable("the extension is bound more than once")
    if not any(name in names_in(s) for s in source.module.body if isinstance(s, (cst.FunctionDef, cst.ClassDef))):
        raise NotApplicable("nothing uses the extension, so that it would never be built")
    function, tool = source.fresh(rng), source.fresh(rng)
    uses = _LazyUses(name, function)
    body: list[cst.CSTNode] = []
    for other in source.module.body:
        if other is statement:
            text = f"@{tool}.cache\ndef {function}():\n    return {code(value)}\n"
            body += statements(text)
        else:
            if not isinstance(other, (cst.FunctionDef, cst.ClassDef)) and name in names_in(other):
                raise NotApplicable("the extension is used at import")
            changed = other.visit(uses)
            assert isinstance(changed, cst.CSTNode)
            body.append(changed)
    module = source.module.with_changes(body=body)
    return program.with_main(prepend(module, f"import functools as {tool}\n").code)


class _LazyUses(cst.CSTTransformer):
    def __init__(self, name: str, function: str) -> None:
        super().__init__()
        self.name, self.function = name, function

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return expression(f"{self.function}()") if updated_node.value == self.name else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


REWRITES = (
    Rewrite("join-text", "CUDA text is a join of its lines", join_text),
    Rewrite("format-text", "CUDA text is an f-string", format_text),
    Rewrite("replace-text", "CUDA text is made by .replace", replace_text),
    Rewrite("concatenate-text", "CUDA text is the sum of two parts", concatenate_text),
    Rewrite("text-file", "CUDA text is read from a file beside the solution", text_file),
    Rewrite("module-file", "functions and kernels come from a module beside the solution", module_file),
    Rewrite("lazy-build", "an extension is built at its first use, not at import", lazy_build),
)
