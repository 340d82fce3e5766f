"""Inline PTX of an evaluated kernel: the arithmetic on f32 and f64 registers, for one lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kbh_lint import ir
from kbh_lint.kernels import compensation_ops as ops
from kbh_lint.kernels.compensation_state import Frame
from kbh_lint.values import UNKNOWN

if TYPE_CHECKING:
    from kbh_lint.kernels.compensation_builtins import Args
    from kbh_lint.kernels.compensation_machine import Machine


def run_asm(m: Machine, stmt: ir.Asm, frame: Frame) -> None:
    """An asm statement."""


def inline_asm(m: Machine, c: Args) -> Any:
    """`tl.inline_asm_elementwise`."""
    return UNKNOWN if not ops.sources(tuple(c.items)) else UNKNOWN
