"""Kernel languages written in Python, a folder each: what they mean on the host, in kernels, and for numbers.

The list of them is `kbh_lint.registry`; docs/contributing/new-dsl.md adds one. The head of each says how much of it is
read, for docs/languages.md (`make docs`): in rows `READ` (its name; launches, caches, graphs; products, types, copies;
compensated sums), and in its text, after the first paragraph.
"""
