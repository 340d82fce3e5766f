"""Rewrites that change the meaning of an honest submission: leaks in kernels, and around models."""
