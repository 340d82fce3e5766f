"""Scores from times: what hardware can do at most, and which share of it a time means."""
