"""Runs and judges submissions: cases, correctness, tolerances, mutants, evidence. Needs the `grade` extra."""
