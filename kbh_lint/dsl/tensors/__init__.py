"""What languages share whose kernels work on tensors over memory: CuTe DSL and TileLang."""
