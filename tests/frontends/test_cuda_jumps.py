"""Gotos are lowered to what they do, or stay what they are."""

from __future__ import annotations

import pytest

from kbh_lint.base import ir
from kbh_lint.frontends import cuda

TEXTS = {  # a body with gotos, and how many of them are left
    "to the end": ("if (n) goto end; n = 1; end: n = 2;", 0),
    "out of two loops": ("for (;;) while (n) { if (n > 2) goto end; --n; } end: n = 2;", 0),
    "to the next round": ("while (n) { if (n > 2) goto next; m = n; next: --n; }", 0),
    "out of a switch": ("switch (n) { case 1: goto end; default: n = 3; } end: return;", 0),
    "back to a start": ("again: ++n; if (n < 4) goto again; m = n;", 0),
    "of a lambda": ("auto f = [&] { if (n) goto end; n = 1; end:; }; f();", 0),
    "back from the middle": ("again: if (n < 4) { ++n; goto again; } m = n;", 1),
    "out of a loop into another's end": ("while (n) { while (m) { if (n) goto next; } next: --n; }", 1),
    "over a declaration that is used later": ("again: int k = ++n; if (k < 4) goto again; m = k;", 1),
    "into a branch": ("goto in; if (n) { in: n = 2; }", 1),
    "of a name": ("goto *where;", 1),
}


@pytest.mark.parametrize("how", TEXTS)
def test_a_goto_is_written_otherwise_or_stays(how: str) -> None:
    body, left = TEXTS[how]
    text = f"void f(int n, int m) {{ {body} }}"
    jumps = [n for n in cuda.walk(cuda.lower(text, cuda.lines_origin(text, "t"))) if isinstance(n, ir.Jump)]
    assert sum(jump.kind == "goto" for jump in jumps) == left
    assert not any(jump.kind == "label" for jump in jumps)


def test_many_gotos_to_a_long_end_stay_as_they_are() -> None:
    body = "if (n) goto end; " * 60 + "end:" + " n += 1;" * 30
    text = f"void f(int n) {{ {body} }}"
    jumps = [n for n in cuda.walk(cuda.lower(text, cuda.lines_origin(text, "t"))) if isinstance(n, ir.Jump)]
    assert 0 < sum(jump.kind == "goto" for jump in jumps) < 60
