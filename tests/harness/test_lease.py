"""Who has which GPU: a room that holds one shares it with nobody, runs that only ask the judge share theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.running import lease
from harness.running.lease import leased
from harness.running.request import RunError
from harness.running.target import here
from kbh_lint.base import paths

ONE, TWO = "GPU-1", "GPU-2"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KBH_LOCK_DIR", str(tmp_path))
    monkeypatch.setattr(lease, "LOOK_SECONDS", 0.01)


async def takes(gpus: tuple[str, ...], alone: bool, told: list[str]) -> str:
    async with leased(gpus, told.append, alone=alone) as gpu:
        return gpu


def test_rooms_get_a_gpu_each_and_the_third_waits_until_one_is_free() -> None:
    async def both() -> tuple[str, str, str]:
        told: list[str] = []
        async with leased((ONE, TWO), told.append, alone=True) as first:
            async with leased((ONE, TWO), told.append, alone=True) as second:
                third = asyncio.create_task(takes((ONE, TWO), True, told))
                while not told:
                    await asyncio.sleep(0.01)
                assert not third.done() and "no other run has" in told[0]
            return first, second, await third

    assert asyncio.run(both()) == (ONE, TWO, TWO)


def test_runs_that_only_ask_the_judge_share_a_gpu_but_not_with_a_room() -> None:
    async def shared() -> tuple[str, str]:
        told: list[str] = []
        async with leased((ONE,), told.append, alone=False) as first:
            assert await takes((ONE,), False, told) == ONE
            room = asyncio.create_task(takes((ONE,), True, told))
            while not told:
                await asyncio.sleep(0.01)
            assert not room.done()
        return first, await room

    assert asyncio.run(shared()) == (ONE, ONE)


def test_runs_that_share_gpus_are_spread_over_them() -> None:
    async def three() -> list[str]:
        async with leased((ONE, TWO), print, alone=False) as first, leased((ONE, TWO), print, alone=False) as second:
            return [first, second, await takes((ONE, TWO), False, [])]

    assert asyncio.run(three()) == [ONE, TWO, ONE]
    assert asyncio.run(three()) == [ONE, TWO, ONE]  # all of them were given back


def test_without_a_gpu_nothing_is_leased_and_nothing_is_waited_for() -> None:
    assert asyncio.run(takes((), True, [])) == ""


def test_a_lock_that_cannot_be_had_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBH_LOCK_DIR", "/nowhere/at/all")
    with pytest.raises(RunError, match="no lock for the GPU"):
        asyncio.run(takes((ONE,), True, []))


def driver(folder: Path, *models: str) -> Path:
    for number, model in enumerate(models):
        place = folder / f"0000:{number}"
        place.mkdir(parents=True)
        (place / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 1\nGPU UUID: \t GPU-{number}\n")
    return folder


def test_the_target_is_that_of_the_gpus_here(tmp_path: Path) -> None:
    hardware = paths.hardware_file(paths.problems_dir())
    two = driver(tmp_path / "two", "NVIDIA H200", "NVIDIA H200")
    assert here("auto", hardware, two) == here("h200", hardware, two)
    assert here("auto", hardware, two).gpus == ("GPU-0", "GPU-1")
    mixed = driver(tmp_path / "mixed", "NVIDIA H200", "NVIDIA H100 80GB HBM3")
    assert here("h100_sxm", hardware, mixed).gpus == ("GPU-1",)
    assert here("cpu", hardware, mixed).target == "cpu" and not here("auto", hardware, tmp_path / "none").gpus
    with pytest.raises(RunError, match="this machine has NVIDIA H200, not b200"):
        here("b200", hardware, two)
    with pytest.raises(RunError, match="there is no GPU on this machine"):
        here("h200", hardware, tmp_path / "none")
    with pytest.raises(RunError, match="is not among the targets"):
        here("auto", hardware, driver(tmp_path / "odd", "NVIDIA Riva TNT2"))
