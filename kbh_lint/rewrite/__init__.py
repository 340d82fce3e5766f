"""Rewrites of submissions: those that keep the meaning (`evade`) and those that change it (`leakify`)."""
