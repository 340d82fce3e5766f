"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# Tests run beside one another on few cores: how long one example takes says nothing there.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
