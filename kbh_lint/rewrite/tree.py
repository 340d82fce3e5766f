"""The Python of a program as a libcst tree: parsing, what is device code, which names are free to use."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from functools import lru_cache
from random import Random

import libcst as cst

from kbh_lint.rewrite.nodes import code, simple, statements, string_value
from kbh_lint.rewrite.program import NotApplicable, Program

# What a caller outside the file knows by name.
INTERFACE = frozenset({"Model", "ModelNew", "get_inputs", "get_init_inputs"})

_DEVICE = re.compile(r"(^|[._])(jit|autotune|heuristics|kernel|script|custom_op|triton_op)\b")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SYLLABLES = ("ba", "do", "fi", "ge", "ku", "la", "mo", "ne", "pi", "ru", "sa", "te", "vo", "wi", "ya", "zu")


class Source:
    """One Python text with what most rewrites ask of it.

    `module` is its tree; `device` the names of functions that a compiler other than Python's reads; `imports` the path
    of each name that nothing but top-level imports binds; `words` all identifier-like words, strings included;
    `fragments` the constant parts of f-strings; `asks_frames` whether it may look at its callers; `dynamic` whether it
    looks names up at run time.
    Raises NotApplicable when the text does not parse.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.module, facts = _parsed(text)
        self.device = frozenset(facts.device)
        self.words = set(facts.words)
        self.strings = facts.strings
        self.keywords = facts.keywords
        self.attributes = facts.attributes
        self.bindings = facts.bindings
        self.imports = facts.imports
        self.fragments = facts.fragments
        self.asks_frames = bool(self.words & {"_getframe", "inspect", "traceback", "currentframe", "f_back"})
        self.dynamic = bool(facts.calls & {"globals", "locals", "vars", "eval", "exec", "compile", "__import__"})

    def fresh(self, rng: Random) -> str:
        """A name that occurs nowhere in the text."""
        while True:
            name = "".join(rng.choice(_SYLLABLES) for _ in range(4))
            if name not in self.words:
                self.words.add(name)
                return name

    def is_device(self, node: cst.FunctionDef) -> bool:
        """Whether a function is read by a kernel compiler."""
        return node.name.value in self.device

    def path(self, node: cst.CSTNode) -> str | None:
        """The dotted path of a name or attribute that comes from an import; None when it does not."""
        if isinstance(node, cst.Name):
            return self.imports.get(node.value)
        if isinstance(node, cst.Attribute):
            root = self.path(node.value)
            return f"{root}.{node.attr.value}" if root else None
        return None


def check_syntax(text: str) -> None:
    """Compiles a text, without warnings of what it is. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compile(text, "solution.py", "exec", dont_inherit=True)


@lru_cache(maxsize=4)
def _parsed(text: str) -> tuple[cst.Module, _Facts]:
    """Tree and facts of a text; kept, since many rewrites begin with the same one."""
    try:
        module = cst.parse_module(text)
        check_syntax(text)
    except (cst.ParserSyntaxError, SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotApplicable("the file is not Python that parses") from None
    facts = _Facts()
    module.visit(facts)
    facts.words = frozenset(_WORD.findall(text))
    bound, imported = facts.bindings, facts.imported
    facts.imports = {name: path for name, path in _imports(module).items() if bound[name] == imported[name]}
    return module, facts


def source_of(program: Program) -> Source:
    """The solution's text parsed to a libcst tree."""
    return Source(program.main)


def framed_source(program: Program) -> Source:
    """As `source_of`, for rewrites that put a call between caller and callee; raises NotApplicable where the program
    could notice."""
    source = source_of(program)
    if source.asks_frames:
        raise NotApplicable("the file may look at its callers, of which there would be one more")
    return source


def patches(source: Source) -> bool:
    """Whether the program assigns attributes of imported modules, so that two spellings may differ later on."""
    found = _Patches(source)
    source.module.visit(found)
    return found.any


class Transformer(cst.CSTTransformer):
    """A rewrite of a tree. `count` is how many changes were made; `rng` makes the choices of rewrites that have any."""

    def __init__(self, source: Source, rng: Random | None = None) -> None:
        super().__init__()
        self.source = source
        self.rng = rng or Random(0)
        self.count = 0

    def run(self, program: Program, why: str, helper: str = "") -> Program:
        """The program with the tree changed, and `helper` put in. `why` says what was not found."""
        module = self.source.module.visit(self)
        if not self.count:
            raise NotApplicable(why)
        return program.with_main((self.put(module, helper) if helper else module).code)

    def put(self, module: cst.Module, helper: str) -> cst.Module:
        """The module with statements that the changed code needs."""
        return prepend(module, helper)


class HostTransformer(Transformer):
    """Visits what Python itself runs: no device functions, decorators, annotations, imports or f-strings."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        return not self.source.is_device(node)

    def visit_Decorator(self, node: cst.Decorator) -> bool | None:
        return False

    def visit_Annotation(self, node: cst.Annotation) -> bool | None:
        return False

    def visit_Import(self, node: cst.Import) -> bool | None:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool | None:
        return False

    def visit_FormattedString(self, node: cst.FormattedString) -> bool | None:
        return False


class BodyTransformer(HostTransformer):
    """Knows how many functions are around a node (`depth`)."""

    def __init__(self, source: Source, rng: Random | None = None) -> None:
        super().__init__(source, rng)
        self.depth = 0

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        self.depth += 1
        return super().visit_FunctionDef(node)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.depth -= 1
        return updated_node


def prepend(module: cst.Module, text: str) -> cst.Module:
    """The module with statements put after its docstring and __future__ imports."""
    if not text:
        return module
    return insert(module, _head(module), text)


def after_imports(module: cst.Module, text: str) -> cst.Module:
    """The module with statements put after its first run of imports."""
    at = _head(module)
    while at < len(module.body) and _is_import(module.body[at]):
        at += 1
    return insert(module, at, text)


def insert(module: cst.Module, at: int, text: str) -> cst.Module:
    """The module with statements put before statement `at`."""
    return module.with_changes(body=[*module.body[:at], *statements(text), *module.body[at:]])


def _head(module: cst.Module) -> int:
    at = 0
    for statement in module.body:
        small = simple(statement)
        doc = isinstance(small, cst.Expr) and string_value(small.value) is not None
        future = isinstance(small, cst.ImportFrom) and small.module is not None and code(small.module) == "__future__"
        if not (doc and at == 0) and not future:
            break
        at += 1
    return at


def _is_import(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(item, (cst.Import, cst.ImportFrom)) for item in statement.body
    )


def _imports(module: cst.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement in module.body:
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        for item in statement.body:
            if isinstance(item, cst.Import):
                for alias in item.names:
                    path = code(alias.name)
                    if alias.asname is not None:
                        found[code(alias.asname.name)] = path
                    else:
                        found[path.split(".")[0]] = path.split(".")[0]
            elif isinstance(item, cst.ImportFrom) and item.module and not item.relative:
                for alias in item.names if not isinstance(item.names, cst.ImportStar) else ():
                    name = code(alias.asname.name) if alias.asname is not None else code(alias.name)
                    found[name] = f"{code(item.module)}.{code(alias.name)}"
    return found


class _Facts(cst.CSTVisitor):
    """One walk that collects what `Source` offers."""

    def __init__(self) -> None:
        self.device: set[str] = set()
        self.strings: Counter[str] = Counter()
        self.keywords: Counter[str] = Counter()
        self.attributes: Counter[str] = Counter()
        self.bindings: Counter[str] = Counter()
        self.imported: Counter[str] = Counter()
        self.calls: set[str] = set()
        self.fragments: list[str] = []
        self.words: frozenset[str] = frozenset()
        self.imports: dict[str, str] = {}
        self.compilers: set[str] = set()  # functions that hand an argument of theirs to a kernel compiler
        self.decorated: dict[str, list[str]] = {}  # the decorators of functions, as they are called
        self._inside: list[cst.FunctionDef] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bindings[node.name.value] += 1
        self._inside.append(node)
        names = [code(decorator.decorator).split("(")[0] for decorator in node.decorators]
        self.decorated.setdefault(node.name.value, []).extend(names)
        if any(_DEVICE.search(name) for name in names):
            self.device.add(node.name.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._inside.pop()

    def leave_Module(self, original_node: cst.Module) -> None:
        """A function is device code too when a decorator of the file hands it to a kernel compiler."""
        for name, decorators in self.decorated.items():
            if self.compilers.intersection(decorators):
                self.device.add(name)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bindings[node.name.value] += 1

    def visit_Param(self, node: cst.Param) -> None:
        self.bindings[node.name.value] += 1

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._bind(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._bind(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._bind(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._bind(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        if isinstance(node.name, cst.Name):
            self.bindings[node.name.value] += 1

    def visit_Del(self, node: cst.Del) -> None:
        self._bind(node.target)

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        name = code(node.asname.name) if node.asname is not None else code(node.name).split(".")[0]
        if node.asname is None:
            self.bindings[name] += 1
        self.imported[name] += 1

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name):
            self.calls.add(node.func.value)
        if code(node.func).endswith("jit"):
            given = {arg.value.value for arg in node.args if isinstance(arg.value, cst.Name)}
            self.device |= given
            for function in self._inside:
                if given & {param.name.value for param in function.params.params}:
                    # The argument may be that of a function around the one that compiles: @register("name").
                    self.compilers |= {outer.name.value for outer in self._inside}

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.keywords[node.keyword.value] += 1

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.attributes[node.attr.value] += 1

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        value = node.evaluated_value
        if isinstance(value, str):
            self.strings[value] += 1

    def visit_FormattedStringText(self, node: cst.FormattedStringText) -> None:
        self.fragments.append(node.value)

    def _bind(self, node: cst.BaseExpression) -> None:
        if isinstance(node, cst.Name):
            self.bindings[node.value] += 1
        elif isinstance(node, (cst.Tuple, cst.List)):
            for item in node.elements:
                self._bind(item.value)


class _Patches(cst.CSTVisitor):
    def __init__(self, source: Source) -> None:
        self.source = source
        self.any = "setattr" in source.words and bool(source.imports)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Attribute) and self.source.path(node.target):
            self.any = True
