"""Kinds of objects that host code makes for a kernel of a tensor language: what `base.values.Made.path` may be."""

from __future__ import annotations

MMA = "cute.mma"
COPY = "cute.copy"
LAYOUT = "cute.layout"
STRUCT = "cute.struct"
COORDINATES = "cute.coordinates"
OBJECT = "object"
CLASS = "class"
STATIC = "static"
CLASSMETHOD = "classmethod"
PROPERTY = "property"
TABLE = "dict"
NAMESPACE = "namespace"
