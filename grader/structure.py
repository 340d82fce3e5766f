# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""For `cases.py` of a problem: see `grader.deck.structure`."""

from grader.deck.structure import Region, Structure

__all__ = ["Region", "Structure"]
