"""The audit on one page that needs nothing else: no address but its own anchors, one script and one style by hash."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from grader.report.page.base import STYLE, PageError, environment, shown
from harness.audit.cells import Audit
from harness.audit.compare import CLASSES, KINDS, TITLES
from kbh_lint.verdict import FLAGGED

__all__ = ["PageError", "render"]

HERE = Path(__file__).resolve().parent / "templates"
OPENED = 60  # an audit of no more disagreements is shown with all of them open
MOST_SHOWN = 12


def render(audit: Audit) -> str:
    """The page as HTML. Raises PageError where jinja2 is missing."""
    style = STYLE.read_text(encoding="utf-8") + (HERE / "style.css").read_text(encoding="utf-8")
    script = (HERE / "script.js").read_text(encoding="utf-8")
    template = environment(HERE, shown).get_template("audit.html.j2")
    apart = sum(cell.disagrees for cell in audit.cells)
    return str(template.render(
        audit=audit, counts=audit.counts(), groups=audit.by_problem(), kinds=KINDS, titles=TITLES, apart=apart,
        opened=apart <= OPENED, most=MOST_SHOWN, flagged=FLAGGED, classes=CLASSES, style=style, script=script,
        policy=_policy(style, script),
    ))  # fmt: skip


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded from anywhere, and only this style and this script run."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; base-uri 'none'; "
        "form-action 'none'"
    )
