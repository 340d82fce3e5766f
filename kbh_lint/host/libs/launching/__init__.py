"""Packages of Python that compile texts of CUDA C++ at run time, launch what comes of it, and hold arrays."""
