"""What all pages of this project share: the template engine's settings, the style, and text that cannot hide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kbh_lint.report.text import clean

__all__ = ["STYLE", "PageError", "environment", "shown"]

STYLE = Path(__file__).resolve().parent / "style.css"


class PageError(Exception):
    """The page cannot be written; the text is one sentence."""


def environment(templates: Path, finalize: Callable[[Any], Any]) -> Any:
    """A jinja2 environment that escapes whatever is put in. Raises PageError where jinja2 is missing."""
    try:
        import jinja2
    except ImportError:
        raise PageError("a page needs jinja2; in a checkout of kbh: pip install '.[grade]'") from None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=finalize, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def shown(value: object) -> Any:
    """Text of a submission without characters that hide or turn what is around them."""
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return "\n".join(clean(line) for line in value.split("\n"))
