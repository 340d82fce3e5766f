"""A tree-sitter that crashes on the first text is named before it does."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from kbh_lint.frontends.cuda.base import LEAST_TREE_SITTER, check_version

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("found", ["0.25.0", "0.25.2", "0.26.0"])
def test_a_version_that_crashes_is_refused_by_name(found: str) -> None:
    with pytest.raises(ImportError, match=rf"tree-sitter {found} crashes on CUDA text; kbh-lint needs 0\.26\.1"):
        check_version(found)


def test_the_declared_range_begins_with_the_first_version_that_does_not_crash() -> None:
    least = ".".join(map(str, LEAST_TREE_SITTER))
    check_version(least)
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"tree-sitter>={least},<0.27" in declared
