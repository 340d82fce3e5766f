"""Of what a value of a kernel is told: the parameters that it comes of, and what was done to them on the way."""

from __future__ import annotations

from kbh_lint.kernels.core.facts import Origins


def params(origins: Origins, *, index: bool = False) -> set[str]:
    """The parameters whose data a value holds, or those that say which."""
    return {o.param for o in origins if ("index" in o.flags) == index}


def flags(origins: Origins, param: str) -> set[str]:
    """What was done to the data of a parameter."""
    return {flag for o in origins if o.param == param for flag in o.flags}
