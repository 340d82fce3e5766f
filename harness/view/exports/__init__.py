"""A run's trajectory in the formats of others. Whole texts, unlike the page; what the archive holds was redacted."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.view.exports.atif import atif
from harness.view.exports.conversation import ExportError
from harness.view.exports.inspect_log import inspect_log

__all__ = ["ExportError", "atif", "inspect_log", "write"]


def write(target: Path, data: Mapping[str, Any]) -> None:
    """Writes a document beside its place and moves it there. Raises OSError, and ExportError where it is no JSON."""
    made = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with made.open("x", encoding="ascii") as file:
            json.dump(data, file, indent=1, allow_nan=False)
        os.replace(made, target)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"the trajectory cannot be written as JSON ({str(error)[:200]})") from None
    finally:
        made.unlink(missing_ok=True)
