"""Rewrites of submissions: those that keep the meaning (`evade`) and those that change it (`leakify`).

A module a theme; each has its rewrites as rows of `REWRITES`, of which `compose` (and `leaks.all_leaks`) is the list.
"""
