"""Numba, the package `numba.cuda`, whose kernels are what one thread does: what is read of it.

A call of `kernel[grid, block, stream, shared]`, of a `@cuda.jit` function, is the launch, `forall` and `configure` are;
tensors of torch are given as they are or by `cuda.as_cuda_array`, numbers as the signature says or as 64 bits. In the
kernel `a[i, j]` is an element and `a[i]` may be a row; shared and local arrays, atomics, shuffles, `math`, libdevice,
casts by the types of numba and numpy, and functions under `@cuda.jit(device=True)` are read. Types are those that numba
infers: a constant with a point is fp64, so `s = 0.0` sums in fp64 and `s = float32(0)` in fp32. `fastmath` flushes
subnormals, fuses, and approximates divisions and roots, as nvcc's flag does: no compensation is lost by it. Not read:
ufuncs for the GPU, `cuda.reduce`, linked files, tables of the host that hold more than numbers.
"""

READ = (("Numba", "read", "read: scalar multiply-adds, there are no others", "evaluated"),)
