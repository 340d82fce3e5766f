"""The files beside a Python text that its import statements would find, if such files are there."""

from __future__ import annotations

import re

# Whole texts of others go through it: no part of it can match in two ways.
_STATEMENT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>\.*[\w.]*)[ \t]+import[ \t]*(?P<names>\([^()]{0,4000}\)|[^\n#;(]*)"
    r"|import[ \t]+(?P<paths>[\w., \t]+))",
    re.M,
)
_NAME = re.compile(r"(\w+)(?:[ \t]+as[ \t]+\w+)?")
_COMMENT = re.compile(r"#[^\n]*")


def own_modules(text: str, of: str) -> set[str]:
    """The files, by their names from the solution's folder, that the text of the file `of` may import.

    `a.b` is `a/b.py` or `a/b/__init__.py`, after `a/__init__.py`; a name taken from it may be a module in it. Dots in
    front count folders up from that of `of`.
    """
    here = of.split("/")[:-1]
    found: set[str] = set()
    for statement in _STATEMENT.finditer(text):
        if statement["paths"] is not None:
            for path in statement["paths"].split(","):
                parts = path.split()
                if parts:
                    found |= _files(parts[0].split("."))
            continue
        base = statement["base"]
        level = len(base) - len(base.lstrip("."))
        if level > max(len(here), 1):
            continue
        parts = [*here[: len(here) - level + 1], *filter(None, base.split("."))] if level else base.split(".")
        found |= _files(parts)
        for name in _NAME.findall(_COMMENT.sub("", statement["names"])):
            found |= _files([*parts, name])
    return found


def _files(parts: list[str]) -> set[str]:
    """The files that a module's path may mean, with those of the packages above it."""
    found: set[str] = set()
    for end in range(1, len(parts) + 1):
        path = "/".join(parts[:end])
        found |= {f"{path}.py", f"{path}/__init__.py"}
    return found
