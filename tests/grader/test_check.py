"""The whole way of a check, with real processes on a small problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from toy import HONEST, solution, toy_problem

from grader.deck.code import DeckError
from grader.deck.keys import new_master
from grader.grading.check import CheckError, CheckReport, check_submission

pytestmark = pytest.mark.usefixtures("warm")

MASTER = bytes(range(32))


def check(tmp_path: Path, text: str, timeout: float = 60.0, **options: object) -> CheckReport:
    file = solution(tmp_path, text)
    return check_submission(toy_problem(tmp_path), file, master=MASTER, timeout=timeout, **options)  # type: ignore[arg-type]


def test_a_right_submission_passes_every_case_once(tmp_path: Path) -> None:
    said: list[str] = []
    report = check(tmp_path, HONEST, progress=said.append)
    assert report.outcome == "passed" and report.message == "all 5 cases are right"
    assert {c.case for c in report.cases} == {
        "nominal/0", "nominal/1", "stress/large", "structure/ragged/0", "structure/ragged/1",
    }  # fmt: skip
    assert len(report.cases) == 5 and all(0 < c.error <= c.tolerance for c in report.cases)  # type: ignore[operator]
    assert said[0] == "starting the submission's process" and said[-1] == "64x16x32: call 5 of 5"
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["outcome"] == "passed"


def test_a_submission_that_ignores_the_lengths_fails_only_where_that_shows(tmp_path: Path) -> None:
    text = HONEST.replace("* (torch.arange(len(x), device=x.device) < used)[:, None]", "")
    report = check(tmp_path, text, all_cases=True)
    assert report.outcome == "failed"
    assert {c.case for c in report.cases if not c.ok} == {"structure/ragged/0", "structure/ragged/1"}
    assert "structure/ragged/" in report.message and "at 64x16x32: " in report.message
    assert "are off by more than 0.0001 (relative to |r| + rms); worst y[" in report.message


def test_a_result_kept_for_the_same_input_object_or_address_is_wrong_on_the_next_call(tmp_path: Path) -> None:
    text = HONEST.replace("    def forward(self, x, used):\n", "    def forward(self, x, used):\n        key = KEY\n"
        "        if key in self.kept: return self.kept[key].clone()\n")  # fmt: skip
    text = text.replace("return (x @", "self.kept[key] = (x @").replace("[:, None]", "[:, None]; return self.kept[key]")
    text = text.replace("super().__init__()", "super().__init__(); self.kept = {}")
    report = check(tmp_path, text.replace("KEY", "x.data_ptr()"), all_cases=True)
    assert report.outcome == "failed" and sum(not c.ok for c in report.cases) == 2, "three addresses, five calls"


def test_a_copy_of_x_kept_under_the_held_tensor_is_made_anew_by_its_version_and_stale_without(tmp_path: Path) -> None:
    text = HONEST.replace("super().__init__()", "super().__init__(); self.kept = {}")
    text = text.replace("        return (x", "        if self.kept.get(x, [None])[0] != VERSION:\n"
        "            self.kept[x] = VERSION, x.clone()\n        x = self.kept[x][1]\n        return (x")  # fmt: skip
    wrong = {}
    for version in ("x._version", "1"):
        (folder := tmp_path / version).mkdir()
        report = check(folder, text.replace("VERSION", version), all_cases=True)
        wrong[version] = sum(not case.ok for case in report.cases)
    assert len(report.cases) == 5 and wrong == {"x._version": 0, "1": 2}, "three places, five calls"


BREACHES = {
    "return (x @ self.w).double()": "y is float64 instead of float32",
    "return [x @ self.w]": "y must be a torch.Tensor, not list",
    "return x.view(-1)[:32].view(8, 4)": "y shares memory with x",
    "x.zero_(); return (x @ self.w)": "it changed its input x",
    "return (x @ self.w).view(32)": "y has the shape [32] instead of [8, 4]",
}


def test_a_submission_that_changes_its_weights_is_found_at_the_end_of_the_shape(tmp_path: Path) -> None:
    report = check(
        tmp_path, HONEST.replace("return (x", "y = (x").replace("[:, None]", "[:, None]; self.w *= 1.00001; return y")
    )
    assert report.outcome == "failed" and report.message == "at 64x16x32: it changed its state w"


def test_each_breach_of_the_contract_fails_the_call_that_makes_it(tmp_path: Path) -> None:
    calls = "".join(f"        if self.count[0] == {n}: {body}\n" for n, body in enumerate(BREACHES, 1))
    text = HONEST.partition("        return")[0].replace(
        "class Model(nn.Module):", "class Model(nn.Module):\n    count = [0]"
    )
    report = check(tmp_path, text + "        self.count[0] += 1\n" + calls, all_cases=True)
    assert report.outcome == "failed" and len(report.cases) == 5
    for case, words in zip(report.cases, BREACHES.values(), strict=True):
        assert not case.ok and case.message == f"{case.case} at 64x16x32: {words}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "the submission raised SyntaxError: invalid syntax"),
        ("import os\nos._exit(0)\n", "the submission ended its process (exit status 0) while it was to import"),
        ("raise SystemExit(0)\n", "the submission raised SystemExit: 0 when it was imported"),
        ("x = 1\n", "the submission has no class Model that is an nn.Module when it was imported"),
        (HONEST.replace("self.w = ", "self.weight = "), "raised RuntimeError: Error(s) in loading state_"),
        (HONEST.replace("return (x", "print('x' * 999); import os; os.kill(os.getpid(), 11); return (x"), "SIGSEGV"),
    ],
)  # fmt: skip
def test_each_failure_before_a_result_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    report = check(tmp_path, text)
    assert report.outcome == "failed" and words in report.message and "\n" not in report.message


def test_an_exception_keeps_the_last_lines_of_its_own_traceback_and_none_of_ours(tmp_path: Path) -> None:
    report = check(tmp_path, HONEST.replace("return (x", "return self.helper(x").replace("* (torch", ", (torch"))
    assert "the submission raised AttributeError: 'Model' object has no attribute 'helper' in " in report.message
    assert 'solution.py", line' in report.detail and "serve.py" not in report.detail
    assert report.cases == ()


def test_a_submission_that_hangs_is_stopped_when_its_own_time_is_used_up(tmp_path: Path) -> None:
    report = check(tmp_path, "import signal\nsignal.pause()\n", build_timeout=0.5)
    assert report.outcome == "failed"
    assert report.message == "the submission did not finish building within 0.5 s; it was to import the submission"


def test_claiming_success_on_the_channel_ends_the_check(tmp_path: Path) -> None:
    forged = (
        "import os, socket, struct, sys\n"
        "fds = [int(f) for f in os.listdir('/proc/self/fd') if f.isdigit() and int(f) > 2]\n"
        "for fd in fds:\n"
        "    try: link = socket.socket(fileno=fd)\n"
        "    except OSError: continue\n"
        "    for seq in range(40): link.send(struct.pack('<4sBxHII', b'kbh1', 2, 0, seq, 0))\n"
        "import signal; signal.pause()\n"
    )
    report = check(tmp_path, forged)
    assert report.outcome == "failed" and report.cases == ()
    assert (
        report.message == "the submission answered a question that was not asked while it was to import the submission"
    )


def test_compiled_cuda_is_neither_passed_nor_failed_on_a_cpu(tmp_path: Path) -> None:
    report = check(tmp_path, "from torch.utils.cpp_extension import load_inline\n" + HONEST)
    assert report.outcome == "not-checkable" and report.cases == ()
    assert report.message.startswith("it cannot be checked on a CPU: it uses torch.utils.cpp_extension")


@pytest.mark.parametrize(
    ("says", "outcome"),
    [
        ("return (x.cuda()", "not-checkable"),
        ("assert x.is_cuda and x.ndim == 2; return (x", "not-checkable"),
        ("assert x.is_contiguous() and x.ndim == 3; return (x", "failed"),
    ],
)
def test_needing_a_gpu_at_run_time_is_told_as_that(tmp_path: Path, says: str, outcome: str) -> None:
    report = check(tmp_path, HONEST.replace("return (x", says))
    assert (report.outcome, "it needs a GPU" in report.message) == (outcome, outcome != "failed")


def test_a_refusal_does_not_hide_a_wrong_result(tmp_path: Path) -> None:
    text = HONEST.replace("class Model(nn.Module):", "class Model(nn.Module):\n    n = [0]")
    wrong = "self.n[0] += 1\n        if self.n[0] == 3: x.cuda()\n        return 2 * (x"
    report = check(tmp_path, text.replace("return (x", wrong))
    assert report.outcome == "failed" and "are off by more than" in report.message


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="does not exist"):
        check_submission(toy_problem(tmp_path), tmp_path / "absent.py", master=new_master())


def test_an_oracle_that_raises_is_the_deck_s_fault_and_not_the_submission_s(tmp_path: Path) -> None:
    problem = toy_problem(tmp_path)
    reference = tmp_path / "toy" / "reference.py"
    reference.write_text(reference.read_text().replace('inputs["x"].double()', 'inputs["y"].double()'))
    with pytest.raises(DeckError, match=r"the oracle of toy on .* cannot be made: KeyError: 'y'"):
        check_submission(problem, solution(tmp_path, HONEST), master=MASTER)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_same_way_leads_to_the_same_outcomes(tmp_path: Path) -> None:
    problem, file = toy_problem(tmp_path), solution(tmp_path, HONEST)
    right = check_submission(problem, file, device="cuda", scale="full", master=MASTER)
    assert right.outcome == "passed" and right.device == "cuda"
    body = HONEST.partition("        return")[0]
    wrong = solution(tmp_path, body + "        return torch.zeros(64, 16)\n", "wrong.py")
    assert "instead of cuda" in check_submission(problem, wrong, device="cuda", scale="full", master=MASTER).message
