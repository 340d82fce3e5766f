"""The languages of kernels: what each adds to the walk."""
