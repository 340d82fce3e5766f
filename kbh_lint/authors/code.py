"""Facts about a problem's own Python (reference, legal, cases, mutants), read as syntax; nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kbh_lint.authors.folder import Folder, read_text
from kbh_lint.base.folder_facts import Case, Count, Input, Part, Seeding
from kbh_lint.findings import Fact

_SEEDS = ("seed", "set_rng_state")
_RANDOM_MODULES = ("torch", "torch.cuda", "torch.random", "random", "numpy.random", "np.random")
_DRAWS = frozenset(
    "rand randn randint randperm normal bernoulli multinomial rand_like randn_like randint_like poisson"
    " normal_ uniform_ random_ exponential_ bernoulli_ cauchy_ geometric_".split()
)


def parsed(folder: Path, name: str) -> ast.Module | None:
    """A file's syntax tree; None when it is missing or is not Python."""
    text = read_text(folder / name)
    try:
        return None if text is None else ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def seeding(folder: Folder) -> Iterator[Fact]:
    """Yields `seeding` facts: the problem's code sets a random state of its own, or draws from one that no key
    governs. Mutants may: they are wrong on purpose."""
    for name in sorted(path.name for path in folder.path.glob("*.py") if path.name != "mutants.py"):
        tree = parsed(folder.path, name)
        for node in ast.walk(tree) if tree is not None else ():
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            owner, _, last = called.rpartition(".")
            if last.startswith("manual_seed") or (last in _SEEDS and owner in _RANDOM_MODULES):
                yield folder.fact_in(Seeding(state="reseeds", symbol=called, file=name), name, node.lineno)
            elif last in _DRAWS and not _has_generator(node) and (last.endswith("_") or owner in _RANDOM_MODULES):
                yield folder.fact_in(Seeding(state="ungoverned", symbol=called, file=name), name, node.lineno)


def _has_generator(node: ast.Call) -> bool:
    return any(keyword.arg in ("generator", None) for keyword in node.keywords)


def implemented(folder: Path) -> tuple[str, ...] | None:
    """The ids that `cases.py` implements; None when its STRUCTURES is not a literal mapping."""
    if not (folder / "cases.py").is_file():
        return ()
    value = _assigned(folder, "cases.py", "STRUCTURES")
    if not isinstance(value, ast.Dict):
        return None
    keys = [key.value for key in value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return tuple(keys) if len(keys) == len(value.keys) else None


def mutant_count(folder: Path) -> int | None:
    """How many mutants `mutants.py` lists; None when MUTANTS is not a literal tuple or list."""
    if not (folder / "mutants.py").is_file():
        return 0
    value = _assigned(folder, "mutants.py", "MUTANTS")
    if not isinstance(value, (ast.Tuple, ast.List)) or any(isinstance(item, ast.Starred) for item in value.elts):
        return None
    return len(value.elts)


def defines(folder: Path, name: str, what: str) -> bool:
    """Whether a file defines a function or class of this name at its top level."""
    tree = parsed(folder, name)
    kinds = (ast.FunctionDef, ast.ClassDef)
    return tree is not None and any(isinstance(node, kinds) and node.name == what for node in tree.body)


def _assigned(folder: Path, file: str, name: str) -> ast.expr | None:
    tree = parsed(folder, file)
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.value
    return None


def cases(folder: Folder) -> Iterator[Fact]:
    """Yields `case` facts: an id that `problem.yaml` declares and `cases.py` lacks, or the other way round."""
    known = implemented(folder.path)
    if known is None:
        return
    declared = [case.id for case in folder.problem.cases]
    for index, name in enumerate(declared):
        if name not in known:
            yield folder.fact(Case(id=name, state="no-code"), "cases", index)
    for name in known:
        if name not in declared:
            yield folder.fact_in(Case(id=name, state="not-declared"), "cases.py", 1)


def parts(folder: Folder) -> Iterator[Fact]:
    """Yields `part` facts: a function that the checker calls and the problem's code lacks."""
    for file, what in (("reference.py", "Model"), ("reference.py", "oracle"), ("legal.py", "legal")):
        if not defines(folder.path, file, what):
            yield folder.fact(Part(file=file, what=what))


def constant_inputs(folder: Folder) -> Iterator[Fact]:
    """Yields `input` facts: an input that is the same in every case, since its domain is fixed and no case changes
    it."""
    if folder.problem.cases:
        return  # a structure may change it; whether one does is seen by drawing (`execution`)
    for contract in folder.problem.contracts.values():
        for index, spec in enumerate(contract.forward):
            if spec.domain.get("kind") in ("constant", "balanced-offsets"):
                keys = ("contracts", contract.id, "forward", index)
                yield folder.fact(Input(name=spec.name, state="never-varies"), *keys)


def counts(folder: Folder) -> Iterator[Fact]:
    """Yields a `count` fact: how many mutants, decoys and honest solutions the problem has."""
    mutants = mutant_count(folder.path)
    if mutants is not None:
        yield folder.fact(Count(what="mutants", number=mutants))
    yield folder.fact(Count(what="decoys", number=len(folder.solutions.decoys)))
    yield folder.fact(Count(what="honest solutions", number=len(folder.solutions.honest)))
