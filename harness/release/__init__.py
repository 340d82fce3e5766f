"""Publication: an archive as a few files that a stranger can check without a GPU, and the check."""

from __future__ import annotations

from harness.release.check import verify_release
from harness.release.entries import Verified
from harness.release.pack import is_release
from harness.release.write import write_release

__all__ = ["Verified", "is_release", "verify_release", "write_release"]
