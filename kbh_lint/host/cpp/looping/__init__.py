"""Loops of C++ host code that are not followed to their end."""
