"""The catalogue of operations that kernels call: how each is spelled in each language, and of which kind it is."""
