"""The facts of C++ that `facts.yaml` lists."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Row:
    """Declarations at the level of the file, statements of a function, and what `r` is after them."""

    name: str
    code: str
    r: int
    file: str = ""
    only: tuple[str, ...] = ("host", "abstract", "numeric", "extents")
    unknown: tuple[str, ...] = ()
    gap: tuple[str, ...] = ()


def _row(entry: dict[str, object]) -> Row:
    return Row(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})  # type: ignore[arg-type]


ROWS = [_row(entry) for entry in yaml.safe_load(Path(__file__).with_name("facts.yaml").read_text(encoding="utf-8"))]
