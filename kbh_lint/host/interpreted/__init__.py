"""What of the standard library, and of torch.func, is plain Python: a file a module, which the host interprets and
nobody imports."""
