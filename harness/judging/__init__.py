"""The judge that agents may ask while they work: the check and a practice benchmark, on public keys."""
