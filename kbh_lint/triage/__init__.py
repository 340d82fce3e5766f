"""Findings over time: which files changed, which findings are known."""
