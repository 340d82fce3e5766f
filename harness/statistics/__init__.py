"""What trials allow to say about models: scores and rates with intervals, order only where it is sure.

`rows` reads plain data and needs nothing; `board.summarise` does the rest, with numpy and scipy, which only it imports
(`pip install '.[stats]'`). docs/statistics.md has the formulas and how often each interval holds the truth.
"""
