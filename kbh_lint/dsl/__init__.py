"""Kernel languages written in Python, a folder each: what they mean on the host, in kernels, and for numbers."""
