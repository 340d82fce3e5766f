"""No sandbox: limits, a user of its own where the judge is root, and an end to all that was started.

The process sees the file system and the network as its user does. It is meant for the CPU target alone.
"""

from __future__ import annotations

import os

from grader.record.cell import SandboxRecord
from grader.sandbox.kinds.supervised import Supervised
from grader.sandbox.launch import Restriction
from grader.sandbox.users import leased_uid

__all__ = ["plain"]


def plain(notes: tuple[str, ...] = ()) -> Supervised:
    """The sandbox that every machine has; `notes` go into its record. Raises SandboxError when root can find no user
    for it.
    """
    uid = leased_uid()
    user = "it runs as the judge's user" if uid is None else "it may read what belongs to other users"
    notes += ("the file system and the network are open to the submission", user)
    record = SandboxRecord("plain", os.getuid() if uid is None else uid, network=True, notes=notes)
    return Supervised(uid, record, lambda jail: Restriction())
