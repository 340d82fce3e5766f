"""Runs along several paths, with further calls where something outlives a call."""
