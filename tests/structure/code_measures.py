"""What the code is measured by: `python tests/structure/code_measures.py` prints today's figures, and with a commit its
figures beside them.

Imports are read with `ast`, nothing is imported. What stands under `if TYPE_CHECKING` is for annotations and does not
run, so it makes no circle.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("kbh_lint", "grader", "harness")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module of ours. `inside`: in a function; `typing`: only for annotations."""

    importer: str
    imported: str
    line: int
    inside: bool
    typing: bool


def files(package: str) -> list[Path]:
    """The modules of a package (a name with dots or slashes), in order."""
    return sorted((ROOT / package.replace(".", "/")).rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name of a module; of a package, that of its `__init__`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """A module as a tree."""
    return ast.parse(path.read_text())


def source_of(module: str) -> str:
    """The text of a module, by its dotted name."""
    plain = ROOT / (module.replace(".", "/") + ".py")
    return (plain if plain.exists() else ROOT / module.replace(".", "/") / "__init__.py").read_text()


@cache
def known() -> frozenset[str]:
    """The names of all modules of ours."""
    return frozenset(module_name(path) for package in PACKAGES for path in files(package))


@cache
def imports(package: str) -> tuple[Import, ...]:
    """The imports of modules of ours that a package's modules make; a name taken from a module counts as the module."""
    return tuple(
        found
        for path in files(package)
        for found in _in(tree_of(path), module_name(path), path.name == "__init__.py", False, False)
    )


def _in(node: ast.AST, importer: str, is_package: bool, inside: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            for name in _named(child, importer, is_package):
                yield Import(importer, name, child.lineno, inside, typing)
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            yield from _in(child, importer, is_package, inside, True)
        else:
            within = inside or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _in(child, importer, is_package, within, typing)


def _named(node: ast.Import | ast.ImportFrom, importer: str, is_package: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known())
        return
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        kept = parts[: len(parts) - node.level + is_package]
        base = ".".join([*kept, base] if base else kept)
    for alias in node.names:
        if f"{base}.{alias.name}" in known():
            yield f"{base}.{alias.name}"
        elif base in known():
            yield base


def circles(package: str) -> list[list[str]]:
    """Groups of modules that need each other to run, imports in functions included; the largest first."""
    graph: dict[str, set[str]] = {module_name(path): set() for path in files(package)}
    for found in imports(package):
        if not found.typing and found.imported in graph and found.imported != found.importer:
            graph[found.importer].add(found.imported)
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        if start not in seen:
            _visit(start, graph, seen, order)
    back: dict[str, set[str]] = {name: set() for name in graph}
    for name, wanted in graph.items():
        for other in wanted:
            back[other].add(name)
    groups: list[list[str]] = []
    seen = set()
    for start in reversed(order):
        if start not in seen:
            group: list[str] = []
            _visit(start, back, seen, group)
            groups.append(sorted(group))
    return sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _visit(start: str, graph: dict[str, set[str]], seen: set[str], order: list[str]) -> None:
    """Depth first; a node is appended once all it leads to are."""
    seen.add(start)
    stack = [(start, iter(sorted(graph[start])))]
    while stack:
        name, rest = stack[-1]
        after = next((other for other in rest if other not in seen), None)
        if after is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(sorted(graph[after]))))


def untyped_parameters(package: str) -> int:
    """Parameters that are annotated as `Any`."""
    count = 0
    for path in files(package):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                count += sum(a is not None and isinstance(a.annotation, ast.Name) and a.annotation.id == "Any"
                             for a in every)  # fmt: skip
    return count


def untyped_runs(package: str) -> int:
    """Parameters and fields called `interp` or `run` whose type is `Any`."""
    return sum(
        isinstance(node, (ast.arg, ast.AnnAssign))
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id == "Any"
        and (node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)) in ("interp", "run", "runner")
        for path in files(package)
        for node in ast.walk(tree_of(path))
    )


def imports_in_functions(package: str) -> int:
    """Statements inside functions that import modules of ours."""
    return len({(found.importer, found.line) for found in imports(package) if found.inside})


def path_comparisons(package: str) -> int:
    """Comparisons of an attribute `path` with texts."""
    return sum(
        isinstance(node, ast.Compare)
        and any(isinstance(side, ast.Attribute) and side.attr == "path" for side in (node.left, *node.comparators))
        and any(_texts(side) for side in (node.left, *node.comparators))
        for path in files(package)
        for node in ast.walk(tree_of(path))
    )


def path_questions(package: str) -> int:
    """Comparisons of an attribute `path` with whatever, a named constant too, and questions how it begins or ends:
    where an object is told from others by its name, and not by its class. `site.path` is that of a function that is
    called, and does not count."""
    return sum(
        isinstance(node, ast.Compare)
        and any(_is_path(side) for side in (node.left, *node.comparators))
        or isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("startswith", "endswith")
        and _is_path(node.func.value)
        for path in files(package)
        for node in ast.walk(tree_of(path))
    )


def _is_path(node: ast.expr) -> bool:
    called = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "site"
    return isinstance(node, ast.Attribute) and node.attr == "path" and not called


def vague_annotations(package: str) -> int:
    """Parameters and results of functions whose type is `Any`, or has one in it (`list[Any]`)."""
    count = 0
    for path in files(package):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                given = node.args
                every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                types = [node.returns, *(one.annotation for one in every if one is not None)]
                count += sum(
                    any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(kind))
                    for kind in types
                    if kind is not None
                )
    return count


COMPLEX = 20  # more ways through a function are hard to keep in one's head


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """McCabe's number of ways through a function: branches, loops, handlers, cases, and what `and` and `or` add. What
    is defined inside it counts for itself."""
    ways, left = 1, list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.ExceptHandler() | ast.IfExp() | ast.Assert():
                ways += 1
            case ast.comprehension():
                ways += 1 + len(node.ifs)
            case ast.BoolOp():
                ways += len(node.values) - 1
            case ast.match_case():
                other = isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None and node.guard is None
                ways += not other
        left += ast.iter_child_nodes(node)
    return ways


def complex_functions(package: str) -> dict[str, int]:
    """The functions of more than `COMPLEX` ways, as `file:name`."""
    return {
        f"{path.relative_to(ROOT)}:{node.name}": ways
        for path in files(package)
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (ways := complexity(node)) > COMPLEX
    }


def decisions_on_reasons(package: str) -> list[str]:
    """Where the reason that a reader is told, `why` or what ended a run, is compared, searched or cut: `file:line`."""
    found = []
    for path in files(package):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare):
                there = isinstance(node.ops[0], (ast.Is, ast.IsNot))  # whether there is one may be asked
                asked: list[ast.expr] = [] if there else [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                asked = [node.func.value]
            else:
                continue
            if any(map(_is_reason, asked)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def _is_reason(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("why", "stopped", "failed")
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and any(isinstance(given, ast.Constant) and given.value == "why" for given in node.args)
        )
    )


def _texts(node: ast.expr) -> bool:
    if isinstance(node, (ast.Tuple, ast.Set, ast.List)):
        return bool(node.elts) and all(map(_texts, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def modules_a_folder(package: str) -> Counter[str]:
    """How many modules stand directly in each folder; `__init__` does not count."""
    return Counter(
        str(path.parent.relative_to(ROOT)) for path in files(package) if path.name not in ("__init__.py", "__main__.py")
    )


def inheritance(*packages: str) -> dict[str, int]:
    """Of each class of some packages, by its full name, how many of their classes stand in its longest line of
    inheritance, itself counted."""
    bases: dict[str, list[str]] = {}
    for path in (path for package in packages for path in files(package)):
        module, tree = module_name(path), tree_of(path)
        meant = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            names = [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
            bases[f"{module}.{node.name}"] = [meant.get(name, f"{module}.{name}") for name in names]

    def depth(name: str) -> int:
        return 1 + max((depth(base) for base in bases[name] if base in bases), default=0)

    return {name: depth(name) for name in sorted(bases)}


def long_modules(package: str) -> int:
    """Modules of more than 400 lines: a table or a closed set, or two ideas."""
    return sum(len(path.read_text().splitlines()) > 400 for path in files(package))


@cache
def figures(package: str) -> dict[str, int]:
    """All figures of one package, by name."""
    every = circles(package)
    return {
        "untyped parameters": untyped_parameters(package),
        "untyped runs": untyped_runs(package),
        "imports in functions": imports_in_functions(package),
        "modules in circles": sum(map(len, every)),
        "largest circle": len(every[0]) if every else 0,
        "modules in the fullest folder": max(modules_a_folder(package).values()),
        "comparisons of .path with texts": path_comparisons(package),
        "questions about .path": path_questions(package),
        "modules of more than 400 lines": long_modules(package),
        "annotations with Any": vague_annotations(package),
        "functions of more than 20 ways": len(complex_functions(package)),
    }


def lines(package: str) -> int:
    """Lines of text in all modules."""
    return sum(len(path.read_text().splitlines()) for path in files(package))


def figures_of(commit: str) -> dict[str, dict[str, int]]:
    """The figures of the tree of a commit, by package."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        script = Path(folder, "tests/structure", Path(__file__).name)
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(Path(__file__).read_text())
        done = subprocess.run([sys.executable, str(script), "--json"], check=True, capture_output=True, text=True)
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found


def main(argv: list[str]) -> None:
    """Prints the figures of all packages; with `--json` as data, with a commit those of its tree before them."""
    now = {part: {**figures(part), "lines": lines(part)} for part in PACKAGES if files(part)}
    if argv == ["--json"]:
        print(json.dumps(now))
        return
    before = figures_of(argv[0]) if argv else {}
    for part, found in now.items():
        print(part)
        for name, number in found.items():
            was = f"{before.get(part, {}).get(name, '-'):>9}" if argv else ""
            print(f"{was}{number:9}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
