"""Kernel languages written in Python, a folder each: what they mean on the host, in kernels, and for numbers.

The list of them is `kbh_lint.registry`; docs/contributing/new-dsl.md adds one.
"""
