"""What a row says is said nowhere else: a further sandbox, architecture or element type opens its row, and no list."""

from __future__ import annotations

import ast
from functools import cache

import code_measures

from grader.record.sandboxes import TRAITS
from kbh_lint.base.architectures import ARCHITECTURES
from kbh_lint.base.dtypes import ROWS


def compared(package: str, words: frozenset[object]) -> set[str]:
    """The modules that compare something with one of these words, alone or in a list."""
    found = set()
    for path in code_measures.files(package):
        for node in (node for node in ast.walk(code_measures.tree_of(path)) if isinstance(node, ast.Compare)):
            sides = [one for side in (node.left, *node.comparators) for one in ast.walk(side)]
            if any(isinstance(one, ast.Constant) and one.value in words for one in sides):
                found.add(code_measures.module_name(path))
    return found


@cache
def words_of(package: str) -> list[tuple[str, set[object]]]:
    """The words in each set, list or table of a package that holds several, with its module."""
    found = []
    for path in code_measures.files(package):
        for node in ast.walk(code_measures.tree_of(path)):
            parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
            held: set[object] = {one.value for one in parts if isinstance(one, ast.Constant) and type(one.value) is str}
            if len(held) > 1:
                found.append((code_measures.module_name(path), held))
    return found


def listed(package: str, words: frozenset[object], several: int) -> set[str]:
    """The modules that hold a set, list or table with so many of these words; two at least."""
    return {module for module, held in words_of(package) if len(held & words) >= several}


def test_no_module_of_the_grader_asks_which_kind_a_sandbox_is() -> None:
    assert compared("grader", frozenset({*TRAITS} - {"plain"})) == set()


def test_what_follows_from_a_type_or_an_architecture_stands_in_no_list_elsewhere() -> None:
    groups = frozenset(row.name for row in ROWS if row.group == "fp8")
    capabilities = frozenset(f"{major}.{minor}" for major, minor in ARCHITECTURES)
    families = frozenset(row.family for row in ARCHITECTURES.values())
    allowed = {
        "kbh_lint.ops.conversions",  # names of CUDA's conversions
    }
    for package in code_measures.PACKAGES:
        assert listed(package, groups, 2) <= allowed
        assert listed(package, capabilities, 2) | listed(package, families, 3) <= allowed
