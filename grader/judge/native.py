"""Whether this machine can run a submission, by what it imports; nothing of it is imported or run for that."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from grader.sandbox.snapshot import Snapshot
from kbh_lint import registry

__all__ = ["cannot_run"]

# What compiles for a GPU: kernel languages, by their rows, and others.
NATIVE = (
    *(package for row in registry.rows() if not row.on_a_cpu for package in row.packages),
    "cupy", "numba", "pycuda", "torch.utils.cpp_extension",
)  # fmt: skip


def cannot_run(taken: Snapshot, device: str) -> str:
    """Why this machine cannot run the submission, by what it imports; empty when nothing says so."""
    tree = _tree(taken.text)
    if tree is None:
        return ""
    if device.startswith("cpu") and (reason := _needs_a_gpu(tree)):
        return reason
    missing = ", ".join(sorted(_missing(taken.file, tree, set())))
    return f"it cannot be graded here: it imports {missing}, which is not installed" if missing else ""


def _tree(text: str) -> ast.Module | None:
    """The syntax of a text; None where it has none, which its import tells better."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _missing(file: Path, tree: ast.Module, seen: set[Path]) -> Iterator[str]:
    """Packages that a file imports in any case and that are not there, those of files beside it too.

    Imports in a function, under a condition or where an error is handled are left to the submission.
    """
    seen.add(file)
    for name in _imported(tree):
        beside = [place for place in (file.parent / f"{name}.py", file.parent / name) if place.exists()]
        if beside:
            inner = _tree(beside[0].read_text("utf-8", "replace")) if beside[0].is_file() else None
            if inner is not None and beside[0] not in seen:
                yield from _missing(beside[0], inner, seen)
        elif name not in sys.stdlib_module_names and not _there(name):
            yield name


def _imported(tree: ast.Module) -> Iterator[str]:
    """The first names of what the statements of a module import."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _there(name: str) -> bool:
    """Whether a package of this name could be imported. A submission's process finds the same ones."""
    try:
        return name in sys.modules or find_spec(name) is not None
    except (ImportError, ValueError):
        return True


def _needs_a_gpu(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if any(name == native or name.startswith(native + ".") for native in NATIVE):
                return f"it cannot be checked on a CPU: it uses {name}, which compiles for a GPU"
    return ""
