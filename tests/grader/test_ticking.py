"""What people are told while a submission is built."""

from __future__ import annotations

import threading

from grader.judge.ticking import Ticking


def test_a_build_is_told_of_again_and_again_and_other_work_once() -> None:
    said: list[str] = []
    often = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) > 3:
            often.set()

    with Ticking(say, every=0.01) as told:
        told("8x4x6: call 1 of 9")
        told("building for 8x4x6: its models")
        assert often.wait(30)
    assert said[:2] == ["8x4x6: call 1 of 9", "building for 8x4x6: its models"]
    assert all(text.startswith("building for 8x4x6: its models, ") and text.endswith(" s") for text in said[2:])
