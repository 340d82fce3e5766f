"""`kbh_lint.base.regexes.regex` does what `re.compile` does, once a pattern is used."""

from __future__ import annotations

import re

import pytest

from kbh_lint.base.regexes import regex


def test_a_pattern_does_what_a_compiled_one_does() -> None:
    made, like = regex(r"(?P<word>[a-z]+)|\d", re.I), re.compile(r"(?P<word>[a-z]+)|\d", re.I)
    text = "One 2 three"
    assert [(m.lastgroup, m[0], m.start()) for m in made.finditer(text)] == [
        (m.lastgroup, m[0], m.start()) for m in like.finditer(text)
    ]
    assert made.sub("-", text) == like.sub("-", text) == "- - -"
    assert made.fullmatch("One") and not made.match(" One")
    assert (made.pattern, made.flags) == (like.pattern, like.flags)


def test_a_pattern_is_compiled_when_it_is_used_first() -> None:
    broken = regex("(")
    with pytest.raises(re.error):
        broken.match("")
