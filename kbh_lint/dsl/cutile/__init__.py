"""cuTile Python, the package `cuda.tile`: kernels on tiles of arrays, queued by `ct.launch`."""
