"""Lint for problem authors: facts about a problem folder, for the KBH9xx rules. Imports no problem's code."""
