"""Where a grading is kept: a folder that is only added to, in which every cut and every change shows."""

from __future__ import annotations

from grader.record.bundle.codec import (
    CodecError,
    cell_from_json,
    cell_to_json,
    from_json,
    to_json,
    trial_from_json,
    trial_to_json,
)
from grader.record.bundle.read import BundleBusy, BundleError, Entry
from grader.record.bundle.redact import redact
from grader.record.bundle.store import Bundle
from grader.record.bundle.verify import verify

__all__ = [
    "Bundle", "BundleBusy", "BundleError", "CodecError", "Entry", "cell_from_json", "cell_to_json", "from_json",
    "redact", "to_json",
    "trial_from_json", "trial_to_json", "verify",
]  # fmt: skip
