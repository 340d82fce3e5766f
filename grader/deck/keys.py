# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Seeds from one secret: every tensor of every case has its own, and none tells anything about another."""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["derive", "new_master"]

MASTER_BYTES = 32


def new_master() -> bytes:
    """A master key of 32 bytes from the system's generator."""
    return secrets.token_bytes(MASTER_BYTES)


def derive(master: bytes, *path: str | int) -> int:
    """A seed of 63 bits for a path such as (problem, shape, case, tensor): HMAC-SHA256 of the path under the master.

    Each part is hashed with its type and length, so that no two paths run into one another.
    """
    mac = hmac.new(master, digestmod=hashlib.sha256)
    for part in path:
        text = str(part).encode()
        mac.update(b"%s%d:" % (b"i" if isinstance(part, int) else b"s", len(text)))
        mac.update(text)
    return int.from_bytes(mac.digest()[:8], "big") >> 1
