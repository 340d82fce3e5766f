"""Kernels evaluated on numbers, exact and as fp32 rounds them: what is a compensation.

`residuals` says what counts as one, `compensation` is what others ask.
"""
