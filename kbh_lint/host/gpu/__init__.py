"""Kernels on the host: launches and their arguments, device memory, what analyses of kernels are kept, L2, graphs."""
