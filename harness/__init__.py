"""Runs coding agents on problems in sealed rooms, keeps what happened, and hands the result to the grader."""
