"""How gradings share a machine: whose processors, when a turn is lent, and several submissions at once.

The turn itself is `grader.turns`.
"""
