"""axe-core for tests of pages: one screen with the package of the dev extra, all of them with KBH_AXE (axe.min.js)."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

__all__ = ["TAGS", "faults", "held_by_axe"]

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_PACKAGE = importlib.util.find_spec("axe_playwright_python")
_BESIDE = Path(_PACKAGE.origin).parent / "axe.min.js" if _PACKAGE is not None and _PACKAGE.origin else None
FILE = Path(os.environ["KBH_AXE"]) if os.environ.get("KBH_AXE") else _BESIDE


def held_by_axe(wide: int) -> Any:
    """Gives a test `width` and `dark`; skips it without axe-core."""
    screens = [(360, True), (wide, False), (wide, True), (360, False)]
    chosen = screens if os.environ.get("KBH_AXE") else screens[:1]
    lacks = pytest.mark.skipif(FILE is None, reason="axe-core is not installed (pip install '.[dev]')")
    return lambda test: lacks(pytest.mark.parametrize(("width", "dark"), chosen)(test))


def faults(page: Any, **options: Any) -> list[tuple[str, list[str]]]:
    """What axe finds on a page as it stands: rules, each with the first elements that break it."""
    assert FILE is not None
    page.evaluate(FILE.read_text(encoding="utf-8"))
    found = page.evaluate("options => axe.run(document, options)", {"runOnly": TAGS, **options})
    return [(fault["id"], [node["html"] for node in fault["nodes"]][:3]) for fault in found["violations"]]
