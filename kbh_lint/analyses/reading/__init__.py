"""Which inputs and weights a result was computed from, and which it was not."""
