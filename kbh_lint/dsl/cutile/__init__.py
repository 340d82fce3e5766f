"""cuTile Python, the package `cuda.tile`, whose kernels work on tiles of arrays: what is read of it.

`ct.launch` of a `@ct.kernel` function is the launch; its arguments are bound by their places. In the kernel, `ct.load`,
`ct.gather` and views of tiles read arrays of the host at an index, `ct.store` and `ct.scatter` write them, `ct.mma`,
`ct.matmul` and `@` are products on the types of their tiles, `astype` converts; reductions, scans with a function of
the submission's own, atomics and functions of numbers are read. Sizes of arrays and `ct.num_tiles` are numbers that
only the running kernel knows. Not read: `ct.tune` and other searches of the fastest configuration, `insert`, packing of
bytes, and what is not in the tables; C++ with tiles.
"""

READ = (("cuTile", "read; not the search of the fastest tiles", "read", "evaluated"),)
