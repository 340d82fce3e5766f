"""What values are: objects, tensors, what is not known, and the state that runs and paths are made of."""
