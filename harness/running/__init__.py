"""A run from the request to the graded archive."""
