"""Whether a machine without a GPU can run a submission, by what it imports."""

from __future__ import annotations

import ast

from grader.supervise import Snapshot

__all__ = ["cannot_run"]

NATIVE = ("cupy", "cutlass", "numba", "pycuda", "tilelang", "torch.utils.cpp_extension")


def cannot_run(taken: Snapshot, device: str) -> str:
    """Why a CPU cannot run the submission, by what it imports; empty when nothing says so."""
    if not device.startswith("cpu"):
        return ""
    try:
        tree = ast.parse(taken.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            if any(name == native or name.startswith(native + ".") for native in NATIVE):
                return f"it cannot be checked on a CPU: it uses {name}, which compiles for a GPU"
    return ""
