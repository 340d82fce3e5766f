"""From an archive to a board: trials that count, what is said of them, and the statistics of each target.

`trials` makes one `Trial` of each entry that counts; what tables, pages and releases show is read from these.
"""

from __future__ import annotations

from harness.board.trials import MARKS, Mark, Trial, Trials, mark_of, trials_of

__all__ = ["MARKS", "Mark", "Trial", "Trials", "mark_of", "trials_of"]
