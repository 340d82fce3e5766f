"""Python's language: statements, expressions, calls, classes, attributes, coroutines, contexts, built-ins."""
