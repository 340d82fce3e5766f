"""The standard library, as far as submissions use it to put their kernels together: a module for each of its own."""
