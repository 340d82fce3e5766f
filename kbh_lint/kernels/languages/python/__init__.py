"""The walk through kernels written in Python, which all such languages share."""
