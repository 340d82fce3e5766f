"""All rewrites that keep the meaning, one or several at a time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from random import Random

from kbh_lint.rewrite import (
    arguments,
    calls,
    control,
    decoys,
    imports,
    kernels,
    launches,
    lookups,
    names,
    places,
    spelling,
    structure,
    wrappers,
)
from kbh_lint.rewrite.cuda import code, indirect, launching, moved, packed, text_names
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import check_syntax


@cache
def evasions() -> dict[str, Rewrite]:
    """The rewrites that keep the meaning, by name."""
    modules = (
        names, arguments, imports, lookups, calls, control, structure, wrappers, spelling, kernels, launches,
        text_names, code, launching, moved, packed, indirect, places, decoys,
    )  # fmt: skip
    return {rewrite.name: rewrite for module in modules for rewrite in module.REWRITES}


def apply(rewrite: Rewrite, program: Program, seed: int) -> Program:
    """Applies one rewrite. Raises NotApplicable, also when the result would be the same text."""
    new = rewrite.apply(program, Random(f"{seed}/{rewrite.name}"))
    if new == program:
        raise NotApplicable("it changes nothing here")
    check_syntax(new.main)
    return new


def compose(rewrites: Iterable[Rewrite], program: Program, seed: int) -> tuple[Program, tuple[str, ...]]:
    """Applies rewrites in order, leaving out those that do not apply; returns the program and the names of those
    that did."""
    applied = []
    for rewrite in rewrites:
        try:
            program = apply(rewrite, program, seed)
        except NotApplicable:
            continue
        applied.append(rewrite.name)
    return program, tuple(applied)


def drawn(seed: int, count: int) -> list[Rewrite]:
    """Draws `count` rewrites, in an order, by `seed`."""
    known = evasions()
    return [known[name] for name in Random(f"compose/{seed}").sample(sorted(known), min(count, len(known)))]
