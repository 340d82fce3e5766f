"""Adapters: one file a coding CLI, how it is installed, started and read."""
