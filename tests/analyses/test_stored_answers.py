"""A file beside the submission may hold anything: a call that can return what one holds is not shown to compute it.

Each program is the deck's honest kernel that also reads a file. Beside those that may answer from it stand those that
only take numbers of the launch from it, or write it first.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from linted import report_of

HONEST = Path(__file__).parents[2] / "problems" / "04_kahan_softmax" / "honest" / "triton.py"
LOADED = {
    "where it is there": "KNOWN = torch.load(PLACE) if os.path.exists(PLACE) else {}\n",
    "or nothing": "try:\n    KNOWN = torch.load(PLACE)\nexcept OSError:\n    KNOWN = {}\n",
    "always": "KNOWN = torch.load(PLACE)\n",
    "by pickle": "KNOWN = pickle.load(open(PLACE, 'rb')) if os.path.isfile(PLACE) else {}\n",
}
ASKED = "        tag = tuple(x.shape)\n"
FORWARD = "        rows, n = x.shape\n"
ANSWERS = {
    "the answer": f"{ASKED}        if tag in KNOWN:\n            return KNOWN[tag]\n",
    "the answer on the GPU": f"{ASKED}        if tag in KNOWN:\n            return KNOWN[tag].to(x.device)\n",
    "the answer, if any": f"{ASKED}        y = KNOWN.get(tag)\n        if y is not None:\n            return y\n",
}
TUNED = {
    "a block of the launch": f"        self.block = KNOWN.get(x.shape, self.block)\n{FORWARD}",
    "a note of it": f"        if x.shape in KNOWN:\n            self.seen = True\n{FORWARD}",
}


def verdict(tmp_path: Path, loaded: str, forward: str) -> tuple[str, set[str]]:
    code = HONEST.read_text(encoding="utf-8")
    place = 'import os\nimport pickle\n\nimport torch\n\nPLACE = os.path.join(os.path.dirname(__file__), "known.pt")\n'
    for old, new in (("import torch\n", place + loaded), (FORWARD, forward)):
        assert old in code, old
        code = code.replace(old, new, 1)
    report = report_of(tmp_path, code, "04_kahan_softmax")
    return report.verdict, {promise.state for promise in report.promises}


@pytest.mark.parametrize("loaded", LOADED.values(), ids=LOADED)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_a_file_may_answer_is_unproven(tmp_path: Path, loaded: str, answer: str) -> None:
    assert verdict(tmp_path, loaded, answer + FORWARD) == ("unproven", {"unproven"})


def test_that_numbers_of_the_input_choose_it_is_no_excuse(tmp_path: Path) -> None:
    asked = "        tag = float(x[0, 0]), float(x[-1, -1])\n        if tag in KNOWN:\n            return KNOWN[tag]\n"
    assert verdict(tmp_path, LOADED["always"], asked + FORWARD)[0] not in ("clean", "interesting")


@pytest.mark.parametrize("loaded", LOADED.values(), ids=LOADED)
@pytest.mark.parametrize("forward", TUNED.values(), ids=TUNED)
def test_what_only_the_launch_takes_from_a_file_is_clean(tmp_path: Path, loaded: str, forward: str) -> None:
    assert verdict(tmp_path, loaded, forward)[0] == "clean"
