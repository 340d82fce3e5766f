"""CuTe DSL."""
