"""CUDA C++."""

READ = (
    ("CUDA C++, PTX inside", "read, with the C++ host code", "read", "evaluated"),
    ("CUTLASS C++ templates", "read", "element types, architecture", "not evaluated"),
)
