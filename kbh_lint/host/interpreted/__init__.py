"""What of the standard library is plain Python: a file a module, which the host interprets and nobody imports."""
