"""Syntax trees of Python, as the module `ast` of the standard library has them."""
