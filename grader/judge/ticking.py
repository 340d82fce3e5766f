"""What is told while a submission is built: a compiler may take minutes, and says nothing meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["BUILDING", "Ticking"]

BUILDING = "building"  # what is said of a build begins so
EVERY_SECONDS = 5.0


class Ticking:
    """Hands on what is said; of a build it says again every few seconds how long that takes. A context manager."""

    def __init__(self, say: Callable[[str], None], every: float = EVERY_SECONDS) -> None:
        self._say, self._every = say, every
        self._lock, self._over = threading.Lock(), threading.Event()
        self._text, self._since = "", 0.0
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Ticking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def __call__(self, text: str) -> None:
        """Says a text."""
        with self._lock:
            self._text, self._since = text, time.monotonic()
            self._say(text)

    def _tick(self) -> None:
        while not self._over.wait(self._every):
            with self._lock:
                if self._text.startswith(BUILDING):
                    self._say(f"{self._text}, {time.monotonic() - self._since:.0f} s")
