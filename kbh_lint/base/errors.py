"""What the linter raises for its callers; `marked.DataError` is about a data file, with its place."""

from __future__ import annotations


class UsageError(Exception):
    """The caller asked for something that does not exist or makes no sense; the text is one sentence."""


class SetupError(Exception):
    """The linter cannot work as it is set up (in a worker: a part is missing, a data file is malformed)."""
