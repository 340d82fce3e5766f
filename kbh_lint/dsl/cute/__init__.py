"""CUTLASS's Python DSL, CuTe."""
