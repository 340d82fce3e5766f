"""The audit as JSON, with its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.audit.cells import Audit, Cell
from harness.audit.compare import KINDS, class_of

__all__ = ["VERSION", "as_json", "schema"]

VERSION = "kbh-audit/1"


def as_json(audit: Audit) -> dict[str, Any]:
    """The audit as JSON values; `schema` describes them."""
    return {
        "schema": VERSION,
        "made_by": dict(audit.versions),
        "archive": {
            "name": audit.archive, "form": audit.form, "revision": audit.revision, "layout": audit.layout,
            "only": audit.only,
        },
        "seconds": {name: round(value, 3) for name, value in audit.seconds.items()},
        "solutions": audit.solutions,
        "counts": dict(audit.counts()),
        "flagged_without_annotation": audit.flagged_unannotated,
        "by_problem": [
            {"problem": problem, "board": board, "counts": dict(counts)}
            for problem, board, counts in audit.by_problem()
        ],
        "cells": [_cell(cell, audit.sources) for cell in audit.cells],
        "troubles": list(audit.troubles),
    }  # fmt: skip


def _cell(cell: Cell, sources: bool) -> dict[str, Any]:
    place = cell.place
    return {
        "run": cell.run, "problem": cell.problem, "board": cell.board, "kind": cell.kind, "why": cell.why,
        "model": cell.theirs.model, "published_score": cell.theirs.score,
        "theirs": {
            "verdict": cell.theirs.word, "class": class_of(cell.theirs.word), "lines": list(cell.theirs.lines),
            "at": cell.theirs.at, **({"said": cell.theirs.said} if sources else {}),
        },
        "ours": {
            "verdict": cell.ours, "contract": cell.contract, "classes": list(cell.classes),
            "promises": dict(cell.promises),
        },
        "evidence": [
            {
                "path": one.path, "line": one.line, "end_line": one.end_line, "by": one.by, "class": one.leak_class,
                "verdict": one.verdict, "message": one.message, **({"code": one.code} if sources else {}),
            }
            for one in cell.evidence
        ],
        "solution": {
            "path": place.path if place else "", "commit": place.commit if place else "",
            "form": place.form if place else "", "sha256": cell.sha256, "bytes": cell.size,
        },
        "grade": None if cell.grade is None else {
            "outcome": cell.grade.outcome, "text": cell.grade.text, "target": cell.grade.target,
            "label": cell.grade.label,
        },
        "remarks": list(cell.remarks),
    }  # fmt: skip


_TEXT: Mapping[str, Any] = {"type": "string"}
_COUNT: Mapping[str, Any] = {"type": "integer", "minimum": 0}


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of audit.json."""
    counts = _object(dict.fromkeys(KINDS, _COUNT))
    place = {"path": _TEXT, "commit": _TEXT, "form": {"enum": ["", "text", "html"]}}
    evidence = _object(
        {
            "path": _TEXT, "line": _COUNT, "end_line": _COUNT, "by": _TEXT, "class": _TEXT, "verdict": _TEXT,
            "message": _TEXT, "code": _TEXT,
        },
        optional=("code",),
    )  # fmt: skip
    theirs = _object(
        {
            "verdict": _TEXT, "class": {"enum": ["sound", "leak", "beside", "none"]}, "lines": _list(_COUNT),
            "at": _TEXT, "said": _TEXT,
        },
        optional=("said",),
    )  # fmt: skip
    cell = _object({
        "run": _TEXT, "problem": _TEXT, "board": _TEXT, "kind": {"enum": list(KINDS)}, "why": _TEXT, "model": _TEXT,
        "published_score": {"type": ["number", "null"]}, "theirs": theirs,
        "ours": _object({
            "verdict": _TEXT, "contract": _TEXT, "classes": _list(_TEXT),
            "promises": {"type": "object", "additionalProperties": _TEXT},
        }),
        "evidence": _list(evidence), "solution": _object({**place, "sha256": _TEXT, "bytes": _COUNT}),
        "grade": {"anyOf": [
            {"type": "null"}, _object({"outcome": _TEXT, "text": _TEXT, "target": _TEXT, "label": _TEXT}),
        ]},
        "remarks": _list(_TEXT),
    })  # fmt: skip
    whole = _object({
        "schema": {"const": VERSION}, "made_by": {"type": "object", "additionalProperties": _TEXT},
        "archive": _object({
            "name": _TEXT, "form": {"enum": ["folder", "git"]}, "revision": _TEXT, "layout": _TEXT,
            "only": {"type": ["integer", "null"]},
        }),
        "seconds": {"type": "object", "additionalProperties": {"type": "number"}}, "solutions": _COUNT,
        "counts": counts, "flagged_without_annotation": _COUNT,
        "by_problem": _list(_object({"problem": _TEXT, "board": _TEXT, "counts": counts})),
        "cells": _list(cell), "troubles": _list(_TEXT),
    })  # fmt: skip
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "An audit by kbh audit", **whole}


def _object(properties: Mapping[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": dict(items)}
