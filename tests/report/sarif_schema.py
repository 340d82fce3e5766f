"""The part of SARIF 2.1.0 that the reporter writes, as a JSON Schema, from the text of the standard.

The sections of the standard are named beside each object. It is stricter than the standard: a property the reporter
does not write is refused, so that a misspelt name cannot pass.
"""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 1}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_BAG = {"type": "object", "properties": {"tags": {"type": "array", "items": _TEXT, "uniqueItems": True}}}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


_MESSAGE = _object(["text"], text=_TEXT)  # 3.11
_REGION = _object(  # 3.30
    ["startLine"], startLine=_COUNT, startColumn=_COUNT, endLine=_COUNT, endColumn=_COUNT
)
_ARTIFACT = _object(["uri"], uri={"type": "string", "format": "uri-reference"})  # 3.4
_LOCATION = _object(  # 3.28
    [],
    id={"type": "integer", "minimum": -1},
    physicalLocation=_object(["artifactLocation"], artifactLocation=_ARTIFACT, region=_REGION),  # 3.29
    message=_MESSAGE,
)
_RULE = _object(  # 3.49
    ["id"],
    id=_TEXT,
    name=_TEXT,
    shortDescription=_MESSAGE,
    fullDescription=_MESSAGE,
    help=_MESSAGE,
    defaultConfiguration=_object([], level=_LEVEL),
    properties=_BAG,
)
_NOTIFICATION = _object(  # 3.58
    ["message"], message=_MESSAGE, level=_LEVEL, locations={"type": "array", "items": _LOCATION}
)
_RESULT = _object(  # 3.27
    ["message"],
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=_LEVEL,
    message=_MESSAGE,
    locations={"type": "array", "items": _LOCATION},
    relatedLocations={"type": "array", "items": _LOCATION, "uniqueItems": True},
    properties=_BAG,
)
_RUN = _object(  # 3.14
    ["tool"],
    tool=_object(  # 3.18, 3.19
        ["driver"],
        driver=_object(
            ["name"],
            name=_TEXT,
            version=_TEXT,
            rules={"type": "array", "items": _RULE, "uniqueItems": True},
        ),
    ),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations={
        "type": "array",
        "items": _object(  # 3.20
            ["executionSuccessful"],
            executionSuccessful={"type": "boolean"},
            toolExecutionNotifications={"type": "array", "items": _NOTIFICATION},
        ),
    },
    results={"type": "array", "items": _RESULT},
    properties=_BAG,
)
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(  # 3.13
        ["version", "runs"],
        version={"const": "2.1.0"},
        runs={"type": "array", "items": _RUN},
        **{"$schema": {"type": "string", "format": "uri"}},
    ),
}
