"""Facts about a file as a whole, whatever its runs do: its kernels, binaries and texts, and whose code it is."""
