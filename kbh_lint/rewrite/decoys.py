"""What is put beside the code and what is taken away: unused helpers, an unused kernel, comments that claim things."""

from __future__ import annotations

from random import Random

import libcst as cst

from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import HostTransformer, after_imports, source_of

CLAIMS = (
    "# The product runs on fp8 tensor cores; operands are never widened.",
    "# Kahan: the rounding error of every addition is carried to the next.",
    "# Weights stay packed; they are unpacked in registers, inside the kernel.",
    "# All of the work is done in our own kernel; nothing falls back to torch.",
    "# kbh: ignore[KBH101] checked by hand",
    "# noqa: honest kernel, see the notes",
)

_HELPERS = """\


def {function}(a, b, scale):
    \"\"\"The reference, for tests: fp8 operands, fp32 accumulator.\"\"\"
    total = torch.zeros(a.shape[0], b.shape[0], dtype=torch.float32)
    carried = torch.zeros_like(total)
    for at in range(a.shape[1]):
        y = a[:, at : at + 1].float() * b[:, at : at + 1].float().T - carried
        t = total + y
        carried = (t - total) - y
        total = t
    return total * scale


class {owner}:
    \"\"\"Options of the build, as the notes describe them.\"\"\"

    stages, warps = 3, 8

    def grid(self, m, n):
        return (m + 63) // 64, (n + 127) // 128
"""

_KERNEL = """\


@triton.jit
def {kernel}(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    \"\"\"fp8 product with a compensated accumulator.\"\"\"
    rows, cols = tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    carried = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        part = tl.dot(tl.load(a + rows[:, None] * K + depth[None, :]), tl.load(b + cols[None, :] * K + depth[:, None]))
        y = part - carried
        t = total + y
        carried = (t - total) - y
        total = t
    tl.store(c + rows[:, None] * BN + cols[None, :], total)
"""


def dead_helpers(program: Program, rng: Random) -> Program:
    """Functions and a class that nothing uses."""
    source = source_of(program)
    names = {name: source.fresh(rng) for name in ("function", "owner", "torch")}
    text = f"import torch as {names['torch']}\n" + _HELPERS.replace("torch.", names["torch"] + ".").format(**names)
    return program.with_main(after_imports(source.module, text).code)


def dead_kernel(program: Program, rng: Random) -> Program:
    """A Triton kernel that nothing launches, with all that a problem could ask for."""
    source = source_of(program)
    if "triton" not in source.imports.values():
        raise NotApplicable("the file does not use Triton")
    names = {name: source.fresh(rng) for name in ("kernel", "triton", "tl")}
    text = f"import triton as {names['triton']}\nimport triton.language as {names['tl']}\n"
    kernel = _KERNEL.replace("triton.jit", names["triton"] + ".jit").replace("tl.", names["tl"] + ".")
    return program.with_main(after_imports(source.module, text + kernel.format(**names)).code)


def honest_comments(program: Program, rng: Random) -> Program:
    """Comments and docstrings that claim what an honest kernel does, and suppressions."""
    source = source_of(program)
    return _Comments(source, rng).run(program, "the file has no statement")


class _Comments(HostTransformer):
    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool | None:
        return True

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        if self.rng.random() < 0.6:
            return updated_node
        self.count += 1
        line = cst.EmptyLine(comment=cst.Comment(self.rng.choice(CLAIMS)))
        return updated_node.with_changes(leading_lines=[*updated_node.leading_lines, line])

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        self.count += 1
        line = cst.EmptyLine(comment=cst.Comment(self.rng.choice(CLAIMS)))
        return updated_node.with_changes(leading_lines=[*updated_node.leading_lines, line])


def print_anew(program: Program, rng: Random) -> Program:
    """The text is printed from its syntax tree: other blanks, quotes and line breaks, and no comments."""
    import ast

    return program.with_main(ast.unparse(ast.parse(source_of(program).text)) + "\n")


REWRITES = (
    Rewrite("dead-helpers", "functions and a class that nothing uses", dead_helpers),
    Rewrite("dead-kernel", "a kernel that nothing launches", dead_kernel),
    Rewrite("honest-comments", "comments that claim what an honest kernel does, and suppressions", honest_comments),
    Rewrite("print-anew", "the file printed from its syntax tree, without comments", print_anew),
)
