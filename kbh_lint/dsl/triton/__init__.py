"""Triton and Gluon."""
