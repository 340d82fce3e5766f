"""Kernels evaluated on numbers, exact and as fp32 rounds them: what is a compensation."""
