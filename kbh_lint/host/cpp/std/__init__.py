"""C++'s standard library in host code: its containers, and functions that call or change what they are given."""
