"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Tests run beside one another on few cores: how long one example takes says nothing there.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(autouse=True)
def own_turns(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside one another do not wait for each other's trials."""
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path_factory.getbasetemp()))


@pytest.fixture
def warm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has candidates forked by a process that has torch imported (see warm.py), save in tests marked cold or gpu."""
    pytest.importorskip("torch")
    from warm import Warm

    from grader import check, grade, verify

    if any(request.node.get_closest_marker(name) for name in ("cold", "gpu")):
        return
    for module in (check, grade, verify):
        chosen = module.choose
        monkeypatch.setattr(module, "choose", lambda *, _chosen=chosen, **wanted: Warm(_chosen(**wanted)))
