"""All rewrites that change the meaning of an honest submission, by name."""

from __future__ import annotations

from functools import cache

from kbh_lint.rewrite.leaks import around_models, in_kernels
from kbh_lint.rewrite.program import Rewrite


@cache
def leaks() -> dict[str, Rewrite]:
    """The rewrites that change the meaning, by name."""
    return {rewrite.name: rewrite for module in (in_kernels, around_models) for rewrite in module.REWRITES}
