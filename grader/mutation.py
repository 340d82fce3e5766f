# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""For `mutants.py` of a problem: see `grader.deck.mutants`."""

from grader.deck.mutants import Mutant, generic

__all__ = ["Mutant", "generic"]
