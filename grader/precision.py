# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""For `legal.py` of a problem: see `grader.deck.precision`."""

from grader.deck.precision import matmul, round_to

__all__ = ["matmul", "round_to"]
