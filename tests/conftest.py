"""What holds for all tests."""

from __future__ import annotations

import fcntl
import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from shares import CPU, TURN, drawn, part_of

# Tests run beside one another on few cores: how long one example takes says nothing there.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


def pytest_configure() -> None:
    """Thousands of tests are made, and none goes: looking for garbage among them takes a quarter of that time."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on what was collected is left out when garbage is looked for, and that is done rarely, as the linter
    has it while it works: an eighth of what the tests of the code's structure take."""
    gc.enable()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def pytest_report_header() -> str:
    """Says where tests are left out."""
    turn = os.environ.get(TURN, "")
    return f"of dear tests, the share of {turn} runs; make test-full runs all" if turn else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the share of this turn, and deals it out."""
    turn = os.environ.get(TURN, "")
    if turn:
        left = drawn([(item.nodeid, part_of(item)) for item in items], turn)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in left])
        items[:] = [item for item in items if item.nodeid in left]
    _slow_first(config, items)


def _slow_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Has each worker begin with its share of the slow tests, so that none waits for another's last one at the end.

    xdist deals out the list in stretches of one length. Tests of one file that share what `once` makes stay together.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    groups: dict[str, list[pytest.Item]] = {}
    other = []
    for item in items:
        if item.get_closest_marker("slow") is None:
            other.append(item)
        else:
            shares = "once" in getattr(item, "fixturenames", ())
            groups.setdefault(str(item.path) if shares else item.nodeid, []).append(item)
    slow, length = list(groups.values()), -(-len(other) // workers)
    items[:] = [
        item
        for at in range(workers)
        for item in (*(one for group in slow[at::workers] for one in group), *other[at * length : (at + 1) * length])
    ]


def _cpu_seconds() -> float:
    """What this process and those that it waited for have taken."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Notes what a test takes, with its fixtures, for `--junitxml` (see shares.py)."""
    item.user_properties.append((CPU, -_cpu_seconds()))
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Its end but for what is torn down."""
    name, before = item.user_properties[0]
    item.user_properties[0] = (name, round(_cpu_seconds() + float(str(before)), 2))


@pytest.fixture(autouse=True)
def own_turns(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside one another do not wait for each other's trials."""
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path_factory.getbasetemp()))


@pytest.fixture(scope="session")
def of_all_workers(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The folder of this run that all of its workers share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if hasattr(request.config, "workerinput") else folder


@pytest.fixture(autouse=True)
def own_gpu(request: pytest.FixtureRequest, of_all_workers: Path) -> Iterator[None]:
    """A test marked `gpu(alone=True)` runs while no other one marked `gpu` does: what it looks at is theirs too."""
    mark = request.node.get_closest_marker("gpu")
    if mark is None:
        yield
        return
    with (of_all_workers / "gpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if mark.kwargs.get("alone") else fcntl.LOCK_SH)
        yield


@pytest.fixture(scope="session")
def once(of_all_workers: Path) -> Callable[..., Any]:
    """`once(name, make)` is what `make()` gave to the worker that came first, as JSON; the others wait for it."""

    def found(name: str, make: Callable[[], Any]) -> Any:
        kept = of_all_workers / f"{name}.json"
        with (of_all_workers / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_text(json.dumps(make()))
            return json.loads(kept.read_text())

    return found


@pytest.fixture(scope="session")
def few_experts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deck of 06_sonic_moe_swiglu alone, with eight experts in place of 64 or 128: what loops over them is followed
    in a tenth of the time. Each has as many rows as in the deck."""
    import yaml

    from kbh_lint.base import paths

    folder = tmp_path_factory.mktemp("few-experts") / "06_sonic_moe_swiglu"
    folder.mkdir()
    problem = yaml.safe_load((paths.problems_dir() / folder.name / "problem.yaml").read_text())
    problem["shapes"] = [shape | {"T_total": shape["T_total"] * 8 // shape["E"], "E": 8} for shape in problem["shapes"]]
    (folder / "problem.yaml").write_text(yaml.safe_dump(problem, sort_keys=False))
    return folder.parent


@pytest.fixture
def warm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has candidates forked by a process that has torch imported (see warm.py), save in tests marked cold or gpu."""
    pytest.importorskip("torch")
    from warm import Warm

    from grader.authoring import verify
    from grader.grading import check, course

    if any(request.node.get_closest_marker(name) for name in ("cold", "gpu")):
        return
    for module in (check, course, verify):
        chosen = module.choose
        monkeypatch.setattr(module, "choose", lambda *, _chosen=chosen, **wanted: Warm(_chosen(**wanted)))
