"""Sweeps: every cell of a matrix of agents, models, problems and targets, run so many times, each counted once."""

from __future__ import annotations
