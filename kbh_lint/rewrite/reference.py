"""A problem's reference, grafted onto a submission's model: its forward and helpers under names of their own."""

from __future__ import annotations

from functools import lru_cache
from random import Random

import libcst as cst

from kbh_lint.base.paths import problems_dir
from kbh_lint.base.records import dataclass
from kbh_lint.problems import Contract, Problem, load_problem
from kbh_lint.rewrite.names import Renamer
from kbh_lint.rewrite.nodes import code, functions, names_in, simple, statements
from kbh_lint.rewrite.program import NotApplicable, Program
from kbh_lint.rewrite.structure import models
from kbh_lint.rewrite.tree import Source, source_of


@lru_cache(maxsize=16)
def _problem(name: str) -> Problem:
    return load_problem(problems_dir() / name / "problem.yaml")


def problem_of(program: Program) -> Problem:
    """The problem that a program solves. Raises NotApplicable when it is not known."""
    if program.problem is None:
        raise NotApplicable("the program's problem is not known; give --problem")
    return _problem(program.problem)


def contract_of(program: Program) -> Contract:
    """The contract that a program was written for, the first when nothing says."""
    problem = problem_of(program)
    if not problem.contracts:
        raise NotApplicable("the problem has no contract")
    return problem.contracts.get(program.contract or "") or next(iter(problem.contracts.values()))


def _reference_text(program: Program) -> str:
    folder = problems_dir() / problem_of(program).id
    special = folder / f"reference_{program.contract}.py"
    path = special if special.is_file() else folder / "reference.py"
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise NotApplicable("the problem has no reference") from None


@dataclass(frozen=True, slots=True)
class Model:
    """A submission's model, taken apart. `params` are forward's arguments without self, `init` those of __init__."""

    source: Source
    node: cst.ClassDef
    forward: cst.FunctionDef
    params: tuple[str, ...]
    init: tuple[str, ...]


def model_of(program: Program) -> Model:
    """The model with its `forward`; NotApplicable when there is none or its arguments are not plain."""
    source = source_of(program)
    node = next((c for c in models(source) if c.name.value == "Model"), None)
    if node is None or not isinstance(node.body, cst.IndentedBlock):
        raise NotApplicable("there is no class Model")
    methods = {f.name.value: f for f in functions(node.body.body)}
    forward, start = methods.get("forward"), methods.get("__init__")
    if forward is None or forward.decorators or _starred(forward) or (start is not None and _starred(start)):
        raise NotApplicable("the model's forward has no plain arguments")
    init = tuple(p.name.value for p in start.params.params[1:]) if start is not None else ()
    return Model(source, node, forward, tuple(p.name.value for p in forward.params.params[1:]), init)


def _starred(node: cst.FunctionDef) -> bool:
    return bool(node.params.kwonly_params or node.params.star_kwarg or isinstance(node.params.star_arg, cst.Param))


def wrap_forward(
    program: Program, rng: Random, body: str, *, head: str = "", start: str = "", more: str = ""
) -> Program:
    """The program whose `forward` is `body`, in which `{old}` is the name of the original and `{args}` its arguments.

    `head` is put at the end of the imports, `start` at the end of `__init__`, `more` into the class.
    """
    model = model_of(program)
    old, kept = model.source.fresh(rng), model.source.fresh(rng)
    args = ", ".join(model.params)
    first = model.params[0] if model.params else "self"
    words = {"old": old, "args": args, "first": first, "kept": kept}
    text = f"\ndef forward(self, {args}):\n" + _indented(body.format(**words))
    members: list[cst.BaseStatement] = []
    for item in model.node.body.body:
        assert isinstance(item, cst.BaseStatement)
        if item is model.forward:
            members.append(model.forward.with_changes(name=cst.Name(old)))
            # What follows in the class may read the name: `__call__ = forward`.
            members += statements(text + more.format(**words))
            continue
        if isinstance(item, cst.FunctionDef) and item.name.value == "__init__" and start:
            new = statements(start.format(**words))
            item = item.with_deep_changes(item.body, body=[*item.body.body, *new])
        members.append(item)
    new_class = model.node.with_deep_changes(model.node.body, body=members)
    top: list[cst.CSTNode] = []
    for statement in model.source.module.body:
        if statement is model.node:
            top += statements(head.format(**words)) if head else []
            top.append(new_class)
        else:
            top.append(statement)
    return program.with_main(model.source.module.with_changes(body=top).code)


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.strip("\n").split("\n"))


@dataclass(frozen=True, slots=True)
class Graft:
    """Text that adds the reference to a model: `head` for the module, `start` for __init__, `more` for the class.

    `call` is the expression that computes the reference from forward's arguments.
    """

    head: str
    start: str
    more: str
    call: str


def graft(program: Program, rng: Random) -> Graft:
    """The reference for `wrap_forward`, all its names fresh, the state's names as the contract has them."""
    model = model_of(program)
    tree = cst.parse_module(_reference_text(program))
    classes = {c.name.value: c for c in tree.body if isinstance(c, cst.ClassDef)}
    if "Model" not in classes:
        raise NotApplicable("the reference has no class Model")
    helpers = [s for s in tree.body if isinstance(s, cst.FunctionDef) and s.name.value != "oracle"]
    methods = {f.name.value: f for f in functions(classes["Model"].body.body)}
    forward, start = methods["forward"], methods.get("__init__")
    if len(forward.params.params) != len(model.params) + 1:
        raise NotApplicable("the reference takes other arguments")
    settings = _settings(start) if start is not None else []
    owned = {name for item in settings for name in _targets(item)} | set(methods) - {"__init__"}
    renaming = {h.name.value: model.source.fresh(rng) for h in helpers}
    attributes = _Attributes(renaming, {name: model.source.fresh(rng) for name in sorted(owned)})
    imports = [s for s in tree.body if _imports_library(s)]
    head = "".join(_text(node, attributes) for node in (*imports, *(_plain(h) for h in helpers)))
    begin = ""
    if start is not None and settings:
        theirs = [p.name.value for p in start.params.params[1:]]
        if len(model.init) < len(theirs):
            raise NotApplicable("the model's __init__ takes other arguments")
        given = dict(zip(theirs, model.init, strict=False))
        renamed = cst.parse_module("".join(map(code, settings))).visit(Renamer(given))
        begin = _text(renamed, attributes)
    more = "".join(_text(_plain(f), attributes) for name, f in methods.items() if name != "__init__")
    call = f"self.{attributes.attributes['forward']}({', '.join(model.params)})"
    return Graft(_escaped(head), _escaped(begin), _escaped(more), call)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _plain(node: cst.FunctionDef) -> cst.FunctionDef:
    """A function without annotations: their names are not there."""
    params = [p.with_changes(annotation=None) for p in node.params.params]
    return node.with_changes(params=node.params.with_changes(params=params), returns=None)


def _settings(start: cst.FunctionDef) -> list[cst.BaseStatement]:
    """Statements of __init__ that set plain attributes: no state, no modules."""
    found = []
    for item in start.body.body:
        small = simple(item)
        if isinstance(small, cst.Assign) and "nn" not in names_in(small.value) and isinstance(item, cst.BaseStatement):
            found.append(item)
    return found


def _targets(statement: cst.BaseStatement) -> set[str]:
    small = simple(statement)
    assert isinstance(small, cst.Assign)
    found = set()
    for target in small.targets:
        parts = target.target.elements if isinstance(target.target, cst.Tuple) else None
        nodes = [part.value for part in parts] if parts else [target.target]
        found |= {node.attr.value for node in nodes if isinstance(node, cst.Attribute)}
    return found


def _imports_library(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and "torch" in code(statement) and "import" in code(statement)


def _text(node: cst.CSTNode, attributes: _Attributes) -> str:
    changed = node.visit(attributes)
    assert isinstance(changed, cst.CSTNode)
    return cst.Module([]).code_for_node(changed)


class _Attributes(Renamer):
    """Renames functions of the module, methods, and attributes of self."""

    def __init__(self, names: dict[str, str], attributes: dict[str, str]) -> None:
        super().__init__(names)
        self.attributes = attributes

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        owner = isinstance(original_node.value, cst.Name) and original_node.value.value == "self"
        new = self.attributes.get(original_node.attr.value) if owner else None
        return updated_node.with_changes(attr=cst.Name(new) if new else original_node.attr)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        new = self.attributes.get(original_node.name.value) or self.names.get(original_node.name.value)
        return updated_node.with_changes(name=cst.Name(new)) if new else updated_node
