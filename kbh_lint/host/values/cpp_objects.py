"""Objects of C++ host code, by what they are; see `named_objects`."""

from __future__ import annotations

from kbh_lint.host.values.objects import LibObject, of_paths


@of_paths("cpp.template")
class Template(LibObject):
    """A function template with some of its arguments: `f<int>`."""


@of_paths("cpp.method")
class OwnMethod(LibObject):
    """A method of a class of the text, of an object: `object.f`."""


@of_paths("cpp.bound")
class LibraryMethod(LibObject):
    """A method of a library value: `tensor.f`."""


@of_paths("cpp:python")
class PythonObject(LibObject):
    """`py::object`: a module, function or other object of Python, its `value`."""


@of_paths("cpp:field")
class LibraryField(LibObject):
    """A field of a struct of a library; it comes to be when it is named."""


@of_paths("cpp.schema")
class Schema(LibObject):
    """An operator that torch's dispatcher was asked for by its name."""


@of_paths("TensorOptions", *(f"cpp:{space}TensorOptions" for space in ("", "at::", "c10::", "torch::")))
class TensorOptions(LibObject):
    """`TensorOptions` of any of torch's namespaces."""


@of_paths("dim3")
class Dim3(LibObject):
    """`dim3`."""


@of_paths("cpp.future")
class Future(LibObject):
    """`std::future`, of work that was done at once."""


@of_paths("cpp.event")
class Event(LibObject):
    """`cudaEvent_t`."""


@of_paths("cutlass")
class CutlassOperator(LibObject):
    """An object of a CUTLASS device type."""


@of_paths("cpp:at::IntArrayRef")
class IntArrayRef(LibObject):
    """`at::IntArrayRef`."""
