"""What all pages share: the template engine with its filters, the head of a page, and how numbers are written."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from grader.record.words import STATES, fraction, launch, spread
from grader.record.words import seconds as clock
from grader.report.page.base import PageError, environment
from harness.board.trials import MARKS
from harness.site.model import SIGNS, SiteError, slug
from harness.statistics.words import score, signed
from harness.view.charts import money
from harness.view.entries import seconds
from harness.view.text import short, shown, visible

__all__ = ["HERE", "NAV", "POLICY", "amount", "breakable", "day", "percent", "render", "score", "sentence", "signed"]

HERE = Path(__file__).resolve().parent / "templates"
VIEW = Path(__file__).resolve().parents[1] / "view" / "templates"
# From the disk a page has no origin of its own in every browser; "file:" is nothing where the site is served.
POLICY = "default-src 'none'; style-src 'self' file:; script-src 'self' file:; base-uri 'none'; form-action 'none'"
PREFIXES = ("", "k", "M", "G", "T", "P", "E")
LAYER_WORDS = {
    "source": "the linter on what was handed in", "ptx": "the linter on compiled text",
    "sass": "the machine code that was built", "counters": "what the GPU counted while it ran",
    "run": "a second run under watch",
}  # fmt: skip
NAV = (
    ("index.html", "Board"), ("runs.html", "Runs"), ("problems.html", "Problems"), ("method.html", "Method"),
    ("audit.html", "Audit"), ("data.html", "Data"),
)  # fmt: skip


def render(template: str, **given: object) -> str:
    """Fills a template, that of a page or of a part of one. Raises SiteError where jinja2 is missing."""
    return str(_environment().get_template(template).render(**given))


@cache
def _environment() -> Any:
    try:
        found = environment(HERE, shown)
    except PageError as error:
        raise SiteError(str(error)) from None
    found.loader.searchpath.append(str(VIEW))
    found.filters.update(
        clock=clock, seconds=seconds, fraction=fraction, spread=spread, launch=launch, money=money, brief=short,
        score=score, percent=percent, day=day, slug=slug, sentence=sentence, signed=signed, amount=amount,
        breakable=breakable, grouped=lambda value: f"{value:,}",
    )  # fmt: skip
    found.globals.update(LAYER_WORDS=LAYER_WORDS, STATES=STATES, MARKS=MARKS, SIGNS=SIGNS, NAV=NAV, POLICY=POLICY)
    return found


def amount(value: float) -> str:
    """A large number with three digits and the SI prefix of its unit."""
    value = float(f"{value:.3g}")
    power = min(max(math.floor(math.log10(value) / 3), 0), len(PREFIXES) - 1) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {PREFIXES[power]}"


def breakable(text: str) -> str:
    """A name as HTML in which lines may break after slashes."""
    from markupsafe import Markup, escape  # comes with jinja2, which may be missing

    return Markup("/<wbr>").join(escape(part) for part in visible(text).split("/"))


def percent(value: float | None) -> str:
    """A share as a whole percentage; a dash for None."""
    return "–" if value is None else f"{value:.0%}"


def day(started: float) -> str:
    """A date in UTC; empty where it is none."""
    try:
        return datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M") if started > 0 else ""
    except (OverflowError, ValueError, OSError):
        return ""


def sentence(text: str) -> str:
    """A text with a capital at the start and one full stop at the end."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
