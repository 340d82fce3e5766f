"""Reading `hardware.yaml`, the GPUs that cells are scored on, into targets."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kbh_lint import marked
from kbh_lint.base.paths import hardware_file
from kbh_lint.marked import DataError, Fields, Map
from kbh_lint.problems.checks import number, plain_number, read_text
from kbh_lint.problems.model import Target

PUBLISHED = "published_2026_04"
OFFERED_WITH = "offered_with"


def read_targets(path: Path) -> dict[str, Target]:
    """The GPUs by id. Raises DataError naming file and line."""
    return {found.id: found for found, _ in _targets(read_text(path), path)}


def joined(targets: tuple[str, ...], deck: Path) -> tuple[str, ...]:
    """The `targets` that a problem of the folder `deck` names, and the GPUs that hardware.yaml offers with one of
    them."""
    file = hardware_file(deck)
    try:
        text = read_text(file)
        if not any(OFFERED_WITH in line.partition("#")[0] for line in text.splitlines()):
            return targets  # to parse it takes longer than to parse a problem
        known = [found for found, _ in _targets(text, file)]
    except DataError:  # whoever names a GPU of that file is told of it
        return targets
    return (*targets, *(one.id for one in known if one.offered_with in targets and one.id not in targets))


def read_published(path: Path) -> dict[str, Target]:
    """The GPUs that have peaks of the protocol of 2026-04, by id and with those. Raises DataError."""
    return {found.id: found for _, found in _targets(read_text(path), path) if found is not None}


@lru_cache(maxsize=16)
def _targets(text: str, path: Path) -> list[tuple[Target, Target | None]]:
    """Each GPU with its datasheet's numbers and, where they are given, with the published ones."""
    found: list[tuple[Target, Target | None]] = []
    data = marked.load(text, str(path))
    for target_id, entry in data.items():
        if not isinstance(entry, Map):
            raise DataError(str(path), data.lines[target_id], f"the target `{target_id}` must be a mapping")
        fields = Fields(entry, str(path), f"the target `{target_id}`")
        target = Target(
            id=target_id,
            sm=fields.text("sm"),
            product=fields.text("product"),
            names=tuple(name.lower() for name in fields.texts("names")),
            memory_gib=number(fields, "memory_gib") if "memory_gib" in entry else None,
            sms=int(number(fields, "sms")) if "sms" in entry else None,
            offered_with=fields.text(OFFERED_WITH, ""),
            **_numbers(fields),
        )
        published = None
        if PUBLISHED in entry:
            part = Fields(fields.mapping(PUBLISHED), str(path), f"`{PUBLISHED}` of the target `{target_id}`")
            published = replace(target, **_numbers(part))
            part.done()
        fields.done()
        found.append((target, published))
    return found


def _numbers(fields: Fields) -> dict[str, Any]:
    """Bandwidth, peaks and L2 of a target, as arguments of Target."""
    l2, peaks = fields.take("l2_mib"), fields.mapping("peaks")
    return {
        "dram_gbps": number(fields, "dram_gbps"),
        "peaks": {name: plain_number(peaks, name, fields.path) for name in peaks},
        "l2_mib": None if l2 is None else number(fields, "l2_mib"),
    }
