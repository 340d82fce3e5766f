"""Inputs of which one element says whether others are read: what is followed for it, and what names hold meanwhile."""
