"""What becomes of promises: the analysis of each kind in a module of its name, and `judge`, which asks them."""
