"""CuTe DSL, CUTLASS's own language in Python: what is read of it.

On the host, `@cute.jit` functions run like any other Python, called directly or through `cute.compile`, with tensors
from `from_dlpack`, with pointers, or with torch's own. `.launch(grid=, block=, ...)` of a `@cute.kernel` function or
method is the launch. Matrix instructions (`warp.Mma*Op`, `warpgroup.Mma*Op`, `tcgen05.Mma*Op`, the `make_*_tiled_mma`
helpers), copies, TMA atoms, layouts and structs of shared memory are carried into the kernel as what they were made of;
so are objects of the submission, with their attributes and methods.

In the kernel, a tensor is memory with an element type. Layouts, partitions, slices and `recast_*` are views of that
memory; an index without an open mode reads or writes an element. `cute.copy` and its kin move bits, `.to(type)` and the
types' constructors convert, `cute.gemm` is a product on the types of its instruction. Reductions, warp shuffles, packed
arithmetic, atomics, PTX in `inline_asm`, functions of numbers and functions and classes of the submission are followed.
Loops run until nothing changes; both sides of a branch that is not known are taken.

Not read, and said so: functions of the DSL that are not in the tables when they are given data, what libraries on top
of it (quack, FlashInfer) compute, reading memory that came from such a call. Cache hints of copies are not facts.
Layout algebra is not computed: which element a thread touches is not known, so two views of one tensor are never told
apart. Sizes are computed on the host as far as grids need them.

A kernel is read with what its names mean when it is launched: globals, closed-over variables, dicts, namespaces and
objects. What was compiled and finds its names changed later is not read.
"""

READ = (("CuTe DSL", "read", "read", "evaluated"),)
