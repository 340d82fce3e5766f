"""Triton and Gluon."""

READ = (
    ("Triton", "read", "read", "evaluated"),
    ("Gluon", "read, as Triton", "read: shared and tensor memory, warpgroup and tcgen05 instructions", "as Triton's"),
)
