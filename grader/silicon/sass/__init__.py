"""Machine code read from text: opcodes by architecture, products, rounding errors, digests, and a census of all."""
