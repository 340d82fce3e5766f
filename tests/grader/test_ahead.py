"""Processes of the evidence pass that start while the trial runs: each once, apart, and none is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.grading import ahead as module
from grader.grading.ahead import PLACES, Ahead
from grader.judge import judging
from grader.sandbox import SandboxError
from grader.silicon.ncu import Unavailable
from grader.silicon.passes import Begun


class _Session:
    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, tuple[Any, Path, _Session]]]:
    """A machine with a GPU and processors to spare: what was started, with its sandbox and folder."""
    found: dict[str, tuple[Any, Path, _Session]] = {}

    def session(name: str, sandbox: object, scratch: Path) -> Any:
        scratch.mkdir(parents=True)
        found[name] = sandbox, scratch, _Session()
        return found[name][2]

    def replay(snapshot: object, device: str, options: object, sandbox: object, scratch: Path, caches: object) -> Any:
        return session("replay", sandbox, scratch)

    def profiled(instrument: str, snapshot: object, *, sandbox: object, scratch: Path, **more: object) -> Begun:
        return Begun(session(instrument, sandbox, scratch), scratch, None, bool(more["own"]))

    monkeypatch.setattr(module, "enough", lambda: True)
    monkeypatch.setattr(module, "second", lambda sandbox, place: (sandbox, place))
    monkeypatch.setattr(judging, "begin", replay)
    monkeypatch.setattr(module, "begin", profiled)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    yield found


def job(folder: Path, device: str = "cuda") -> Any:
    return SimpleNamespace(device=device, scratch=folder, snapshot=None, options=None, problem=None)


def test_each_process_has_a_user_and_a_folder_of_its_own_and_is_taken_once(started: Any, tmp_path: Path) -> None:
    sandbox: Any = object()
    with Ahead(job(tmp_path), sandbox) as ahead:
        ahead.start(None)
        assert {name: place for name, ((_, place), _, _) in started.items()} == PLACES
        assert len({folder for _, folder, _ in started.values()}) == 3
        taken: Any = ahead.profiled("counters")
        assert taken.own and taken.session is started["counters"][2]
        assert ahead.profiled("counters") is None
        replay: Any = ahead.replay()
        assert replay is started["replay"][2] and ahead.replay() is None
    assert not started["counters"][2].closed, "who takes a process ends it"
    assert started["trace"][2].closed, "what nobody took is ended"
    assert not (tmp_path / "ahead").exists()


def test_nothing_starts_on_a_cpu_with_too_few_processors_or_where_processes_are_not_kept_apart(
    started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox: Any = object()
    with Ahead(job(tmp_path, "cpu"), sandbox) as ahead:
        ahead.start(None)
    monkeypatch.setattr(module, "second", lambda sandbox, place: None)
    with Ahead(job(tmp_path), sandbox) as ahead:
        ahead.start(None)
        assert ahead.replay() is None and ahead.profiled("trace") is None
    monkeypatch.setattr(module, "enough", lambda: False)
    with Ahead(job(tmp_path), sandbox) as ahead:
        ahead.start(None)
    assert started == {}


@pytest.mark.parametrize("fault", [Unavailable("no Nsight Compute"), SandboxError("no user"), OSError(28, "full")])
def test_what_cannot_be_started_ahead_is_left_for_its_turn(
    fault: Exception, started: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> Begun:
        raise fault

    sandbox: Any = object()
    monkeypatch.setattr(module, "begin", fails)
    with Ahead(job(tmp_path), sandbox) as ahead:
        ahead.start(None)
        assert ahead.profiled("counters") is None and ahead.replay() is not None
