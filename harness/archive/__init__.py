"""An archive of runs and gradings: content-addressed files that are only added to, and an index made from them."""

from __future__ import annotations

from harness.archive.facts import Facts, facts_of
from harness.archive.index import all_facts, rebuild
from harness.archive.layout import Manifest, Stored, StoreError
from harness.archive.select import find
from harness.archive.store import Archive, Merged

__all__ = ["Archive", "Facts", "Manifest", "Merged", "StoreError", "Stored", "all_facts", "facts_of", "find", "rebuild"]
