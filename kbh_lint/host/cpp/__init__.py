"""C++ host code: statements, expressions, calls, libraries, launches."""
