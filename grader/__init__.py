"""Runs and judges submissions. Needs the `grade` extra.

The files of a problem import `grader.structure`, `grader.precision` and `grader.mutation`; those names stay.
"""
