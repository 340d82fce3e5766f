"""How calls are marked for an instrument: what the judge and a submission's process say alike. Needs no torch."""

from __future__ import annotations

from typing import Literal

__all__ = ["MARK", "UNSEEN_CALLS", "Instrument"]

Instrument = Literal["counters", "trace"]
UNSEEN_CALLS = 2  # of each model, in which it may compile and tune
MARK = "kbh"  # the name of a marked range is MARK/model/call
