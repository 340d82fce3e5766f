"""TileLang: what is read of it.

`@tilelang.jit` functions run on the host and give kernels for the sizes they are called with; `out_idx` and
`tilelang.compile` are followed, and the outputs that a call allocates. Of `@tilelang.autotune` every configuration is
built and counts. `T.copy` converts to the type of its target, `T.gemm` is a product on the types of its buffers,
`T.reduce_*`, elementwise loops, casts and atomics are read. A function that is called with tensors (the eager form:
annotations in its body, `T.const`, `T.empty`, one `T.Kernel`, what it returns) is the kernel of that call. Not read:
such functions with other statements after the kernel, `T.call_extern` and raw intrinsics.
"""

READ = (("TileLang", "read", "read", "evaluated"),)
