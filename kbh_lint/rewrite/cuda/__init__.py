"""Rewrites of CUDA C++ in a program: its texts as tokens, names and helpers, statements and expressions."""
