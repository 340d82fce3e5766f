"""The kinds of things that the host makes for kernels on tensors: `values.Made.path`."""

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
