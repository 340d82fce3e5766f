"""Whose code is it: functions compared with those of published libraries by hashes of their normalised text."""
