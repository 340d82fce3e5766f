"""The page of a run, and its trajectory in forms that other programs read."""
