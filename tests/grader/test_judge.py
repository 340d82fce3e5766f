"""Trials with real processes on a small problem: what is asked, what is believed, and what is kept."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from toy import HONEST, solution, toy_problem
from warm import Warm

from grader.deck.code import load_code
from grader.deck.keys import new_master
from grader.judge import batches
from grader.judge import judging as judge
from grader.judge import plan as planning
from grader.judge import session as sessions
from grader.judge.judging import NotReplayed, TrialOptions, build, default_options, replay, run_trial
from grader.judge.seen import Seen
from grader.judge.session import Session
from grader.judge.trial import Trial
from grader.record.cell import TrialResult
from grader.record.spread import Wanted
from grader.sandbox import SandboxError, choose, folders
from grader.sandbox.folders import restore_caches
from grader.sandbox.snapshot import Snapshot, snapshot
from kbh_lint.problems import Problem

MASTER = bytes(range(32))
OPTIONS = TrialOptions(4, 3, 2, 60.0, 20.0, None, 2)
EXACT = Wanted(math.inf)  # in two processes, with as many samples as others


class Ground:
    """A problem, a submission and a scratch folder."""

    def __init__(self, folder: Path, text: str, cold: bool = False) -> None:
        self.problem: Problem = toy_problem(folder)
        self.scratch = folder / "scratch"
        self.snapshot: Snapshot = snapshot(solution(folder, text), self.scratch / "submission")
        self.logs: list[str] = []
        plain = choose(device="cpu", wanted="plain")
        self.sandbox: Any = plain if cold else Warm(plain)

    @property
    def label(self) -> str:
        """The one shape that is graded."""
        return self.problem.reduced[0].label

    def keep(self, text: str) -> str:
        self.logs.append(text)
        return "kept"

    def settings(self, options: TrialOptions) -> dict[str, object]:
        return {
            "device": "cpu", "scale": "reduced", "options": options, "sandbox": self.sandbox,
            "scratch": self.scratch, "progress": lambda text: None,
        }  # fmt: skip

    def trial(self, options: TrialOptions = OPTIONS, master: bytes = MASTER) -> TrialResult:
        return run_trial(
            self.problem, self.snapshot, index=0, master=master, caches=None, keep_log=self.keep,
            **self.settings(options),  # type: ignore[arg-type]
        )  # fmt: skip

    def replay(self, trial: TrialResult) -> tuple[str, ...]:
        return replay(self.problem, self.snapshot, trial, caches=None, **self.settings(OPTIONS))  # type: ignore[arg-type]


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Ground]:
    cold = request.node.get_closest_marker("cold") is not None
    return lambda text: Ground(tmp_path, text, cold)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user may write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def forward(body: str, before: str = "") -> str:
    """The honest submission with another body of forward."""
    text = HONEST.partition("        return (x")[0].replace("class Model", before + "\nclass Model")
    return text + "".join(f"        {line}\n" for line in body.splitlines())


RIGHT = "y = (x @ self.w) * (torch.arange(len(x)) < used)[:, None]\n"


@pytest.mark.cold
def test_a_right_submission_is_compared_on_every_call_and_timed_by_both_clocks(ground: Callable[[str], Ground]) -> None:
    here = ground("print('hello from the import')\n" + HONEST)
    result = here.trial()
    (shape,) = result.shapes
    assert result.status == shape.status == "right" and result.message.endswith("compared calls are right")
    assert result.commitment == hashlib.sha256(bytes.fromhex(result.master)).hexdigest() and result.log == "kept"
    assert here.logs == ["hello from the import\n"]
    assert shape.calls == shape.compared == len(shape.cases) and all(case.ok for case in shape.cases)
    assert shape.timing is not None and len(shape.timing.claimed) == len(shape.timing.walls) == 4
    assert all(0 < claim < wall for claim, wall in zip(shape.timing.claimed, shape.timing.walls, strict=True))
    assert len(shape.timing.sealed) == 2 and all(batch.seconds > 0 for batch in shape.timing.sealed)
    assert sum(case.digest != "" for case in shape.cases) == 2
    assert set(result.spent) == {"start", "empty calls", "import", "first calls", "calls", "batches", "launches"}
    assert 0.5 * result.seconds < sum(result.spent.values()) < result.seconds + 0.1
    assert here.replay(result) == ()


GRAPHS = """
import time
MADE = set()

def launched(x):
    if x.data_ptr() in MADE:  # the first call for an address is what a graph is made of: events see none of it
        time.sleep(0.02)
    MADE.add(x.data_ptr())
"""


def test_the_first_call_for_an_address_is_not_a_sample_where_there_are_others(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "GRAPHS", ("cpu",))
    here = ground(forward("launched(x)\n" + RIGHT + "return y", GRAPHS))
    result = here.trial(replace(OPTIONS, samples=8, warmups=0))
    (shape,) = result.shapes
    assert result.status == "right" and shape.timing is not None
    assert 4 <= len(shape.timing.claimed) == len(shape.timing.walls) <= 8 and min(shape.timing.claimed) >= 0.02
    once = Seen()
    for seconds in (1.0, 2.0):
        once.timed(seconds, 3.0, False)
    assert once.claimed == [1.0, 2.0], "where there are no others they are what there is"
    once.timed(4.0, 5.0, True)
    once.timed(1.0, 3.0, False)
    assert once.claimed == [4.0] and once.walls == [5.0]


@pytest.mark.parametrize(("wanted", "calls"), [(0.0, 16), (9.0, 8)], ids=["never known well", "known at once"])
def test_times_that_vary_much_get_more_samples_some_of_them_compared(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch, wanted: float, calls: int
) -> None:
    here = ground(HONEST)
    for name, value in (("MORE_SAMPLES", 4), ("MOST_MORE", 8)):
        monkeypatch.setattr(planning, name, value)
    options = replace(OPTIONS, samples=8, compare_least=4, wanted={here.label: Wanted(wanted)})
    (shape,) = here.trial(options).shapes
    assert shape.status == "right" and shape.timing is not None and len(shape.timing.claimed) == calls
    more = {f"timed/{i}" for i in range(11, 19)}
    compared = {case.case for case in shape.cases}
    assert len(compared & more) == (calls - 8) // 2, "as large a share as of the others"


@pytest.mark.cold
def test_half_of_the_samples_may_come_from_a_second_process_that_finds_nothing_of_the_first(
    ground: Callable[[str], Ground],
) -> None:
    note = "import os, pathlib\nnote = pathlib.Path(os.environ['HOME'], 'note')\n"
    note += "print('it is', note.exists())\nnote.write_text('n')\n"
    here = ground(note + forward("print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"))
    result = here.trial(replace(OPTIONS, samples=8, later=6, compare_least=4, wanted={here.label: EXACT}))
    (shape,) = result.shapes
    assert result.status == "right" and shape.timing is not None and len(shape.timing.claimed) == 14
    assert len(shape.timing.sealed) == 2, "the first process has them all"
    (log,), inputs = here.logs, [line for line in here.logs[0].splitlines() if line.startswith("in")]
    assert log.count("it is False") == 2
    assert len(set(inputs)) == len(inputs), "no value is drawn twice"
    later = {f"timed/{i}" for i in range(11, 19)}
    asked_again = {case.case for case in shape.cases if case.digest}
    assert len(({case.case for case in shape.cases} & later) - asked_again) <= 3 and asked_again & later
    assert here.replay(result) == ()


@pytest.mark.parametrize("wanted", [{}, {"most": 0.0}], ids=["not wanted", "too slow a call"])
def test_one_process_takes_all_samples_of_a_shape_that_need_not_be_known_so_well(
    ground: Callable[[str], Ground], wanted: dict[str, float]
) -> None:
    here = ground("print('import')\n" + HONEST)
    options = replace(OPTIONS, samples=8, later=6, compare_least=4)
    if wanted:
        options = replace(options, wanted={here.label: Wanted(0.0, **wanted)})
    result = here.trial(options)
    (shape,) = result.shapes
    assert result.status == "right" and here.logs == ["import\n"]
    assert shape.timing is not None and len(shape.timing.claimed) == 14
    asked_again = {case.case for case in shape.cases if case.digest}
    assert len(asked_again) == 2 and len(asked_again & {f"timed/{i}" for i in range(11, 19)}) == 1


def test_samples_that_the_first_process_took_are_not_taken_again_when_they_change_what_is_wanted(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([None])
    monkeypatch.setattr(Trial, "wanted", lambda self, label: next(answers, EXACT))
    here = ground("print('import')\n" + HONEST)
    (shape,) = here.trial(replace(OPTIONS, samples=8, later=6)).shapes
    assert here.logs == ["import\n"] and shape.timing is not None and len(shape.timing.claimed) == 14


@pytest.fixture
def apart(ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Ground]:
    """Grounds with a sandbox that keeps two processes apart, on a machine that has room for two."""

    def made(text: str) -> Ground:
        here = ground(text)
        here.sandbox = bubblewrap
        return here

    try:
        bubblewrap = choose(device="cpu", wanted="bubblewrap")
    except SandboxError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(judge, "LEAST_CPUS", 1)
    return made


def test_the_second_process_starts_beside_the_first_and_runs_the_submission_when_that_has_ended(
    apart: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    def spy(name: str) -> None:
        original = getattr(Session, name)

        def noted(self: Session, *rest: Any, **more: Any) -> Any:
            events.append(name)
            return original(self, *rest, **more)

        monkeypatch.setattr(Session, name, noted)

    for name in ("__init__", "start", "submission", "close"):
        spy(name)
    note = "import os, pathlib, time\nhome = pathlib.Path(os.environ['HOME'])\nnote = home / 'note'\n"
    note += "print('it is', note.exists(), os.getuid(), home, time.monotonic())\nnote.write_text('n')\n"
    again = "note.write_text('more')\nprint('call', time.monotonic())\n"
    here = apart(note + forward(again + RIGHT + "return y"))
    result = here.trial(replace(OPTIONS, samples=8, later=6, compare_least=4, wanted={here.label: EXACT}))
    assert result.status == "right", result.message
    first, second = (line.split()[2:] for line in here.logs[0].splitlines() if line.startswith("it is"))
    assert (first[0], second[0]) == ("False", "False") and first[2] == second[2], "other folders, of the same name"
    if os.getuid() == 0:
        assert first[1] != second[1]
    assert events == ["__init__", "start", "submission", "__init__", "close", "start", "submission", "close"]
    calls = [float(line.split()[1]) for line in here.logs[0].splitlines() if line.startswith("call")]
    before = [call for call in calls if call < float(second[3])]
    assert len(before) > 8 and len(calls) - len(before) == 9, "three warm-ups and six samples come after its import"
    assert not list(here.scratch.glob("first-*"))


@pytest.mark.parametrize("early", [True, False])
def test_a_process_is_up_before_its_turn_and_runs_the_submission_only_within(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    events: list[str] = []

    def spy(name: str) -> None:
        original = getattr(Session, name)

        def noted(self: Session, *rest: Any, **more: Any) -> Any:
            events.append(name)
            return original(self, *rest, **more)

        monkeypatch.setattr(Session, name, noted)

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        events.append("take")
        yield
        events.append("give")

    for name in ("__init__", "up", "start", "submission", "load", "close"):
        spy(name)
    monkeypatch.setattr(judge, "enough", lambda: early)
    here = ground(HONEST)
    trial = run_trial(
        here.problem, here.snapshot, index=0, master=MASTER, caches=None, keep_log=here.keep, held=held,
        **here.settings(OPTIONS),  # type: ignore[arg-type]
    )  # fmt: skip
    assert trial.status == "right", trial.message
    first = ["__init__", "up", "take"] if early else ["take", "__init__", "up"]
    order = [name for number, name in enumerate(events) if name != events[number - 1]]
    assert order[:3] == first and order[-2:] == ["close", "give"]
    assert events.count("take") == 1 and events.index("take") < events.index("load") < events.index("submission")
    events.clear()
    replay(here.problem, here.snapshot, trial, caches=None, held=held, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert events[:3] == first and events[-1] == ("give" if not early else events[-1])
    assert events.index("take") < events.index("submission") < events.index("give")


def test_a_second_process_that_is_not_wanted_any_more_is_ended(
    apart: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Session] = []

    def noted(*rest: Any, _do: Any = judge._session, **more: Any) -> Session:
        made.append(_do(*rest, **more))
        return made[-1]

    monkeypatch.setattr(judge, "_session", noted)
    here = apart(forward("return x * 0 + 7"))
    assert here.trial(replace(OPTIONS, later=4, wanted={here.label: EXACT})).status == "wrong"
    assert len(made) == 2 and all(one._child._closed for one in made) and not list(here.scratch.glob("first-*"))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("if again: y += 1\nreturn y", "wrong", "are off by more than"),
        ("if again: raise ValueError('late')\nreturn y", "wrong", "raised ValueError: late"),
        ("if again: os._exit(3)\nreturn y", "wrong", "ended its process (exit status 3)"),
    ],
)
def test_what_goes_wrong_in_the_second_process_counts(
    ground: Callable[[str], Ground], shared: Path, body: str, status: str, words: str
) -> None:
    mark = f"import os, pathlib\nmark = pathlib.Path({str(shared / 'mark')!r})\nagain = mark.exists()\nmark.touch()\n"
    here = ground(forward(RIGHT + body, mark))
    result = here.trial(replace(OPTIONS, later=4, wanted={here.label: EXACT}))
    assert result.status == status and words in result.message


def test_no_value_is_drawn_twice_and_another_key_draws_others(ground: Callable[[str], Ground]) -> None:
    here = ground(forward("print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"))

    def seen(master: bytes) -> list[str]:
        here.logs.clear()
        here.trial(master=master)
        return [line for line in here.logs[0].splitlines() if line.startswith("in")]

    first, second = seen(MASTER), seen(new_master())
    assert len(set(first)) == len(first) > 20 and not set(first) & set(second)


def test_no_value_is_seen_twice_where_lone_calls_are_made_again_because_something_disturbed_them(
    ground: Callable[[str], Ground], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "denies", lambda *_: True)
    here = ground(forward("print('in', hash(x.numpy().tobytes()))\n" + RIGHT + "return y"))
    result = here.trial()
    inputs = [line for line in here.logs[0].splitlines() if line.startswith("in")]
    assert result.status == "right" and len(set(inputs)) == len(inputs) > batches.MOST_ALONE


def test_a_batch_is_timed_by_the_judge_whatever_is_claimed(ground: Callable[[str], Ground]) -> None:
    lie = (
        "import grader.candidate.clock as c, gc, time\nwork = time.perf_counter\n"
        "for o in gc.get_objects():\n    if isinstance(o, c.CpuClock): o._now = lambda: 0.0\n"
    )
    slow = "end = work() + 2e-3\nwhile work() < end: pass\n"
    result = ground(forward(slow + RIGHT + "return y", lie)).trial()
    timing = result.shapes[0].timing
    assert result.status == "right" and timing is not None
    assert median(timing.claimed) == 0.0, "the claim is what the submission made it"
    assert all(2e-3 < batch.per_call < 4e-2 for batch in timing.sealed)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x.mul_(1.0001)\n" + RIGHT + "return y", "it changed its input x"),
        (RIGHT + "return y if len(x) < 0 else y.t().contiguous().t()", "y is not contiguous"),
        (RIGHT + "self.n = getattr(self, 'n', 0) + 1\nreturn y if self.n < 9 else y + 1", "are off by more than"),
        (RIGHT + "self.n = getattr(self, 'n', 0) + 1\nassert self.n < 8\nreturn y", "raised AssertionError"),
    ],
)
def test_what_goes_wrong_on_some_calls_only_is_found(ground: Callable[[str], Ground], body: str, words: str) -> None:
    result = ground(forward(body)).trial()
    assert result.status == "wrong" and words in result.message


def test_an_output_kept_for_the_address_of_an_input_is_wrong(ground: Callable[[str], Ground]) -> None:
    memo = "key = x.data_ptr()\nif key in kept: return kept[key].clone()\n" + RIGHT + "kept[key] = y\nreturn y"
    result = ground(forward(memo, "kept = {}")).trial(replace(OPTIONS, all_cases=True))
    assert result.status == "wrong" and sum(not case.ok for case in result.shapes[0].cases) > 3


def test_models_take_turns_with_weights_of_their_own(ground: Callable[[str], Ground]) -> None:
    shared = (
        "global first\nfirst = self.w if first is None else first\n" + RIGHT.replace("self.w", "first") + "return y"
    )
    assert ground(forward(shared, "first = None")).trial().status == "wrong"


def test_a_batch_whose_rehearsal_breaks_down_leaves_no_time(ground: Callable[[str], Ground]) -> None:
    broken = "import sys\n\ndef no(*_): raise ValueError('no')\n\n"
    broken += "sys.modules['grader.candidate.runner'].Runner.rehearse = no\n"
    (shape,) = ground(forward(RIGHT + "return y", broken)).trial().shapes
    assert shape.status == "crashed" and "ValueError: no in a batch" in shape.message
    assert shape.timing is None or not shape.timing.sealed


def test_the_first_wrong_result_is_the_last_that_is_asked_for_and_comes_before_any_time(
    ground: Callable[[str], Ground],
) -> None:
    here = ground("count = [0]\n" + forward("count[0] += 1\nprint(count)\nreturn x @ self.w"))  # used is ignored
    (shape,) = here.trial().shapes
    assert shape.status == "wrong" and "structure/ragged/0 at " in shape.message
    assert shape.timing is None and here.logs.pop().count("[") <= 2
    (shape,) = here.trial(replace(OPTIONS, all_cases=True)).shapes
    assert shape.status == "wrong" and shape.timing is not None and here.logs.pop().count("[") > 8
    assert {case.case for case in shape.cases if not case.ok} == {"structure/ragged/0", "structure/ragged/1"}


def test_a_call_that_hangs_is_stopped_alone_by_its_own_limit(ground: Callable[[str], Ground]) -> None:
    text = forward(RIGHT + "import signal\nself.n = getattr(self, 'n', 0) + 1\nif self.n > 3: signal.pause()\nreturn y")
    result = ground(text).trial(replace(OPTIONS, call_timeout=0.5))
    assert result.shapes[0].status == "timeout" and "did not finish within 0.5 s; it was to run" in result.message


SLOW = "import time\nself.n = getattr(self, 'n', 0) + 1\nif self.n == WHICH: time.sleep(0.7)\nreturn y"


def test_a_first_call_may_take_what_is_left_for_building_and_no_other_may(ground: Callable[[str], Ground]) -> None:
    first, later = (RIGHT + SLOW.replace("WHICH", which) for which in "12")
    here = ground("import time\ntime.sleep(0.7)\n" + forward(first))
    options = replace(OPTIONS, call_timeout=0.5, timeout=30.0)
    assert here.trial(options).status == "right"
    late = here.trial(replace(options, build_timeout=1.2))
    assert late.message.startswith("the submission did not finish building within 1.2 s; it was to run ")
    solution(here.snapshot.file.parent.parent, forward(later))
    here.snapshot = snapshot(here.snapshot.file.parent.parent / "solution.py", here.scratch / "submission")
    slow = here.trial(options)
    assert slow.shapes[0].status == "timeout" and "did not finish within 0.5 s; it was to run" in slow.message


def test_a_wrong_result_on_the_same_values_is_told_and_other_bits_or_a_crash_are_not_taken_for_one(
    ground: Callable[[str], Ground],
) -> None:
    here = ground(HONEST)
    result = here.trial()
    shape = result.shapes[0]
    forged = tuple(replace(case, digest="0" * 64 if case.digest else "") for case in shape.cases)
    with pytest.raises(NotReplayed, match="at 64x16x32 it gave other bits for the same values"):
        here.replay(replace(result, shapes=(replace(shape, cases=forged),)))
    here.snapshot.file.chmod(0o600)
    here.snapshot.file.write_text(HONEST.replace("return (x", "return 2 * (x"))
    said = ("at 64x16x32 it gave another result for the same values when it was asked again",)
    assert here.replay(result) == said
    here.snapshot.file.write_text("import os\nos._exit(3)\n")
    with pytest.raises(NotReplayed, match="ended its process"):
        here.replay(result)


def test_a_call_is_asked_again_of_a_model_with_the_same_weights(ground: Callable[[str], Ground]) -> None:
    here = ground(HONEST)
    trial = here.trial()
    (shape,) = trial.shapes
    others = [case for case in shape.cases if case.digest and case.model]
    keys = iter(range(1, 99))
    while not others:  # each call is the first of two models' or the other's
        trial = here.trial(master=bytes(31) + bytes([next(keys)]))
        (shape,) = trial.shapes
        others = [case for case in shape.cases if case.digest and case.model]
    only = replace(shape, cases=tuple(case if case in others else replace(case, digest="") for case in shape.cases))
    assert here.replay(replace(trial, shapes=(only,))) == ()
    first = replace(only, cases=tuple(replace(case, model=0) for case in only.cases))
    with pytest.raises(NotReplayed, match="other bits for the same values"):
        here.replay(replace(trial, shapes=(first,)))


def test_a_shape_without_a_call_that_could_be_asked_again_shows_nothing(ground: Callable[[str], Ground]) -> None:
    here = ground(HONEST)
    trial = here.trial()
    (shape,) = trial.shapes
    bare = replace(shape, cases=tuple(replace(case, digest="") for case in shape.cases))
    with pytest.raises(NotReplayed, match="no call that could be asked again: take more samples"):
        here.replay(replace(trial, shapes=(bare,)))


def test_who_refuses_after_a_wrong_result_is_wrong(ground: Callable[[str], Ground]) -> None:
    later = "self.n = getattr(self, 'n', 0) + 1\nif self.n > 3: raise RuntimeError('No CUDA GPUs are available')\n"
    result = ground(forward(later + RIGHT + "return y + 1")).trial()
    assert result.status == "wrong" and "off by more than" in result.message


def test_building_fills_caches_and_tells_only_what_this_machine_cannot_do(
    ground: Callable[[str], Ground], tmp_path: Path
) -> None:
    text = (
        "import os, pathlib\nplace = pathlib.Path(os.environ['TRITON_CACHE_DIR'])\n(place / 'kernel').write_text('k')\n"
    )
    text += "os.symlink('/etc/passwd', place / 'link')\n"
    here = ground(text + HONEST)
    store = tmp_path / "store"
    said = build(here.problem, here.snapshot, caches=store, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert (said.refused, said.ended) == ("", "")
    assert [str(p.relative_to(store)) for p in store.rglob("*") if not p.is_dir()] == ["triton/kernel"]
    restore_caches(store, tmp_path / "again")
    assert (tmp_path / "again/triton/kernel").read_text() == "k"


def test_copied_caches_are_ours_and_never_run_as_somebody_else(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "triton"
    theirs.mkdir(parents=True)
    for name, mode in (("setuid", 0o6777), ("library.so", 0o755), ("note", 0o666)):
        (theirs / name).write_text(name)
        (theirs / name).chmod(mode)
    os.utime(theirs / "note", (1e9, 1e9))
    restore_caches(tmp_path / "theirs", tmp_path / "ours")
    ours = tmp_path / "ours" / "triton"
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in ours.iterdir()} == {
        "setuid": 0o755, "library.so": 0o755, "note": 0o644,
    }  # fmt: skip
    assert (ours / "note").stat().st_mtime == 1e9


def test_a_folder_of_caches_that_keeps_us_out_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed", "open"):
        (tmp_path / "theirs" / name).mkdir(parents=True)
        (tmp_path / "theirs" / name / "note").write_text("n")

    def scandir(folder: Path) -> object:
        if folder.name == "closed":  # root, as which tests may run, is never kept out
            raise PermissionError(13, "Permission denied")
        return os.scandir(folder)

    monkeypatch.setattr(folders, "os", SimpleNamespace(**{**vars(os), "scandir": scandir}))
    restore_caches(tmp_path / "theirs", tmp_path / "ours")
    assert sorted(p.name for p in (tmp_path / "ours").rglob("*")) == ["closed", "note", "open"]


def test_a_build_that_leaves_too_much_keeps_nothing_and_goes_on(
    ground: Callable[[str], Ground], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.sandbox.folders.MOST_CACHE_FILES", 2)
    many = "import os, pathlib\nplace = os.environ['TRITON_CACHE_DIR']\n"
    many += "for n in range(9): pathlib.Path(place, str(n)).write_text('x')\n"
    here, kept = ground(many + HONEST), tmp_path / "kept"
    said = build(here.problem, here.snapshot, caches=kept, **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert (said.refused, said.ended) == ("", "")
    assert not kept.exists()


def test_a_build_that_the_submission_ends_says_so_and_refuses_nothing(
    ground: Callable[[str], Ground], tmp_path: Path
) -> None:
    here = ground("import os\nos._exit(3)\n" + HONEST)
    said = build(here.problem, here.snapshot, caches=tmp_path / "store", **here.settings(OPTIONS))  # type: ignore[arg-type]
    assert said.refused == "" and "exit status 3" in said.ended


def test_code_that_needs_a_gpu_is_refused_without_being_started(ground: Callable[[str], Ground]) -> None:
    result = ground("import cupy\n" + HONEST).trial()
    assert result.status == "refused" and "it uses cupy" in result.message and result.shapes[0].status == "not-run"


def test_the_plan_has_enough_timed_calls_after_the_warm_ups_whatever_the_key(tmp_path: Path) -> None:
    problem = toy_problem(tmp_path)
    code, (shape,) = load_code(problem), problem.reduced
    for options in (OPTIONS, default_options("cpu"), default_options("cuda")):
        for seed in range(8):
            plan = planning.plan_shape(problem, shape, bytes([seed]) * 32, options, code)
            (group,) = plan.groups
            assert len(group.timed) == options.samples and len(group.specs) + len(plan.first) == plan.calls
            assert {spec.id for spec in plan.first} == {"nominal/0", "structure/ragged/0"} <= plan.compared
            assert {"nominal/1", "structure/ragged/1"} <= {spec.id for spec in group.specs}, "some of each are left"
            assert not {spec.id for spec in group.specs[: options.warmups]} & set(group.timed)
            least = options.compare_least
            timed = [spec.id for spec in group.specs if spec.id.startswith("timed/")]
            assert least is None or len(plan.compared & set(timed)) == least
            assert {spec.id for spec in group.specs if spec.id not in timed} <= plan.compared
    orders = {
        tuple(s.id for s in planning.plan_shape(problem, shape, bytes([n]) * 32, OPTIONS, code).groups[0].specs)
        for n in range(8)
    }
    assert len(orders) == 8


@pytest.mark.parametrize(
    ("seconds", "slot", "cache", "room", "rounds"),
    [
        (1e-3, 1 << 20, 0, 1 << 30, 6),
        (10.0, 1 << 20, 0, 1 << 30, 3),
        (1e-6, 1 << 10, 0, 1 << 30, 1024),
        (1e-3, 1 << 20, 60 << 20, 1 << 40, 241),
        (1e-3, 1 << 30, 60 << 20, 1 << 31, 3),
    ],
)
def test_a_batch_is_long_and_cold_as_far_as_there_is_room(
    seconds: float, slot: int, cache: int, room: int, rounds: int
) -> None:
    assert planning.round_count("cpu", seconds, slot, cache, room) == rounds
    assert rounds <= planning.round_count("cuda", seconds, slot, cache, room) <= 2 * rounds


def test_bytes_that_are_looked_at_lie_anywhere_in_the_outputs_of_each_slot_and_nowhere_between_them() -> None:
    slots = (
        SimpleNamespace(nbytes=3, offset=0),
        SimpleNamespace(nbytes=0, offset=8),
        SimpleNamespace(nbytes=5, offset=16),
    )
    session = SimpleNamespace(_slots={"outputs": slots}, out_bytes=32)
    places = Session._places(session, 200)  # type: ignore[arg-type]
    within = places - torch.arange(200)[:, None] * 32
    assert set(within.flatten().tolist()) == {0, 1, 2, 16, 17, 18, 19, 20}
    assert len({tuple(row) for row in within.tolist()}) > 190
