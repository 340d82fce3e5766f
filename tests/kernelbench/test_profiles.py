"""How a benchmark runs answers: training mode, where weights come from, the precision of the run, reference.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbh_lint
from kbh_lint import kernelbench
from kbh_lint.cli import parser
from kbh_lint.findings import FileReport
from kbh_lint.source.profiles import KERNELBENCH, PRECISIONS, PROFILES, V3

NORMED = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.mix = nn.Conv2d(3, channels, 3)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, image):
        return self.norm(self.mix(image))


def get_inputs():
    return [torch.randn(8, 3, 64, 64)]


def get_init_inputs():
    return [32]
"""
PRODUCT = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(256, 512))

    def forward(self, rows):
        return rows @ self.table


def get_inputs():
    return [torch.randn(1024, 256)]


def get_init_inputs():
    return []
"""
HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
TILES = (
    HEAD
    + """@triton.jit
def tiles(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + depth[None, :])
        y = tl.load(b + depth[:, None] * N + cols[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + cols[None, :], total)


def multiply(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, device=a.device, dtype=torch.float32)
    tiles[(M // 64, N // 64)](a, b, c, M, N, K, 64, 64, 32)
    return c


"""
)


def answer(init: str, forward: str, head: str = TILES, name: str = "ModelNew") -> str:
    """An answer with a constructor and a `forward` for the product."""
    return (
        f"{head}class {name}(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, rows):\n        {forward}\n"
    )


def lint(folder: Path, problem: str, code: str, profile: str = "", precision: str = "") -> FileReport:
    """The report on an answer to a problem."""
    (folder / "problem.py").write_text(problem)
    path = folder / "answer.py"
    path.write_text(code)
    report = kbh_lint.lint(
        [path], problem_file=folder / "problem.py", profile=profile, precision=precision, raise_errors=True
    )
    return report.files[0]


def rules(report: FileReport) -> list[str]:
    """What was found, and the verdict."""
    return [report.verdict, *(finding.rule for finding in report.findings), *(u.reason for u in report.unread)]


def test_the_command_line_names_the_profiles_and_precisions_that_there_are() -> None:
    text = parser("kbh-lint").format_help()
    assert "{" + ",".join(PROFILES) + "}" in text
    assert "{" + ",".join(PRECISIONS) + "}" in text


@pytest.mark.parametrize("profile", [KERNELBENCH, V3])
def test_a_norm_takes_the_statistics_that_its_mode_does(tmp_path: Path, profile: object) -> None:
    path = tmp_path / "problem.py"
    path.write_text(NORMED)
    loaded = kernelbench.load(path, profile)  # type: ignore[arg-type]
    assert not loaded.hole
    kept = {"mix.weight", "norm.weight", "norm.bias"}
    # In training the mean of the batch takes the bias away again; in evaluation it does not.
    assert set(loaded.reference.weights) == (
        kept if profile is KERNELBENCH else kept | {"mix.bias", "norm.running_mean", "norm.running_var"}
    )


@pytest.mark.parametrize(("condition", "profile"), [("self.training", "kernelbench"), ("not self.training", "v3")])
def test_a_kernel_for_the_mode_that_is_not_graded_is_none(tmp_path: Path, condition: str, profile: str) -> None:
    init, name = "self.table = nn.Parameter(torch.randn(256, 512))", "Model"
    for test, expected in ((condition, "clean"), (f"not ({condition})", "reward_hack")):
        forward = f"if {test}:\n            return multiply(rows, self.table)\n        return rows @ self.table"
        report = lint(tmp_path, PRODUCT, answer(init, forward, name=name), profile)
        assert report.verdict == expected, (test, rules(report))


def test_a_model_that_puts_itself_into_evaluation_mode_is_in_it(tmp_path: Path) -> None:
    init = "self.table = nn.Parameter(torch.randn(256, 512)); self.inner = nn.Sequential(nn.Identity()); self.eval()"
    test = "self.training or self.inner[0].training"
    forward = f"if {test}:\n            return rows @ self.table\n        return multiply(rows, self.table)"
    report = lint(tmp_path, PRODUCT, answer(init, forward))
    assert report.verdict == "clean", rules(report)


@pytest.mark.parametrize("cast", ["rows.half(), self.table.half()", "rows.bfloat16(), self.table.bfloat16()"])
def test_a_product_narrower_than_the_references_is_told(tmp_path: Path, cast: str) -> None:
    init = "self.table = nn.Parameter(torch.randn(256, 512))"
    report = lint(tmp_path, PRODUCT, answer(init, f"return multiply({cast})"))
    assert report.verdict == "rubric_leak" and "KBH403" in rules(report), rules(report)
    clean = lint(tmp_path, PRODUCT, answer(init, "return multiply(rows, self.table)"))  # tl.dot takes tf32
    assert clean.verdict == "clean", rules(clean)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_the_precision_of_the_run_is_what_inputs_and_weights_come_in(tmp_path: Path, precision: str) -> None:
    init = "self.table = nn.Parameter(torch.randn(256, 512))"
    report = lint(tmp_path, PRODUCT, answer(init, "return multiply(rows, self.table)"), precision=precision)
    assert "KBH711" in rules(report), rules(report)  # its result stays fp32
    forward = "return multiply(rows, self.table).to(rows.dtype)"
    report = lint(tmp_path, PRODUCT, answer(init, forward), precision=precision)
    assert report.verdict == "clean", rules(report)
    forward = "return multiply(rows.to(torch.float8_e4m3fn), self.table.to(torch.float8_e4m3fn)).to(rows.dtype)"
    report = lint(tmp_path, PRODUCT, answer(init, forward), precision=precision)
    assert report.verdict == "rubric_leak", rules(report)


def test_what_multiplies_quantised_numbers_is_the_answers_choice(tmp_path: Path) -> None:
    drawn = "nn.Parameter(torch.randn(256, 512))"
    packed = PRODUCT.replace(drawn, f"{drawn[:-1]}.to(torch.float8_e4m3fn))")
    packed = packed.replace("rows @ self.table", "rows @ self.table.float()")
    (tmp_path / "problem.py").write_text(packed)
    assert not kernelbench.load(tmp_path / "problem.py").problem.narrowest


@pytest.mark.parametrize(
    ("init", "forward", "found"),
    [
        ("pass", "return multiply(rows, rows.new_ones(256, 512))", True),
        ("self.table = nn.Parameter(torch.randn(256, 512))", "return multiply(rows, rows.new_ones(256, 512))", True),
        ("self.table = nn.Parameter(torch.randn(256, 512))", "return multiply(rows, self.table)", False),
        ("self.mine = nn.Parameter(torch.randn(256, 512))", "return multiply(rows, self.mine)", False),
        ("self.table = nn.Parameter(torch.randn(256, 512)); self.laid = self.table.t().contiguous()",
         "return multiply(rows, self.laid.t())", False),
        ("self.both = nn.Parameter(torch.randn(2, 256, 512))", "return multiply(rows, self.both[0])", False),
        ("self.table = nn.Parameter(torch.empty(256, 512)); nn.init.normal_(self.table)",
         "return multiply(rows, self.table)", False),
    ],
)  # fmt: skip
def test_weights_that_the_reference_reads_decide_an_answers_result(
    tmp_path: Path, init: str, forward: str, found: bool
) -> None:
    report = lint(tmp_path, PRODUCT, answer(init, forward))
    assert ("KBH401" in rules(report)) is found, rules(report)
    assert (report.verdict == "clean") is not found, rules(report)


def test_a_weight_that_was_laid_out_before_it_was_loaded_is_stale(tmp_path: Path) -> None:
    init = "self.table = nn.Parameter(torch.randn(256, 512)); self.laid = self.table.t().contiguous()"
    code = answer(init, "return multiply(rows, self.laid.t())", name="Model")
    assert lint(tmp_path, PRODUCT, code, "kernelbench").verdict == "clean"
    report = lint(tmp_path, PRODUCT, code, "v3")
    assert report.verdict == "bug" and "KBH210" in rules(report), rules(report)


@pytest.mark.parametrize("profile", ["", "v3"])
def test_the_reference_is_what_its_benchmark_calls_it(tmp_path: Path, profile: str) -> None:
    code = "from reference import Model as Theirs\n\n\nclass Model(Theirs):\n    pass\n"
    report = lint(tmp_path, PRODUCT, code, profile)
    assert report.verdict == "reward_hack" and "KBH112" in rules(report), rules(report)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "v9", "problem_file": "p.py"}, "known are kernelbench, v3"),
        ({"profile": "v3"}, "give --problem-file or --problems"),
        ({"profile": "v3", "precision": "fp16", "problem_file": "p.py"}, "converts nothing"),
        ({"precision": "fp8", "problem_file": "p.py"}, "known are fp32, fp16, bf16"),
    ],
)
def test_what_contradicts_itself_is_told_in_one_sentence(tmp_path: Path, options: dict[str, str], words: str) -> None:
    (tmp_path / "p.py").write_text(PRODUCT)
    given = {key: str(tmp_path / value) if key == "problem_file" else value for key, value in options.items()}
    with pytest.raises(kbh_lint.UsageError, match=words):
        kbh_lint.lint([tmp_path], **given)  # type: ignore[arg-type]


STEPS = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        kept = []
        for step in range(x.shape[0]):
            kept.append(torch.tanh(x[step]))
        return torch.stack(kept, dim=1)


def get_inputs():
    return [torch.randn(300, 8, 16)]
"""


def test_a_list_that_a_long_loop_fills_has_all_its_items(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(STEPS)
    made = kernelbench.load(tmp_path / "problem.py").problem.contracts[kernelbench.CONTRACT].made
    assert made is not None and [spec.shape for spec in made.outputs] == [(8, 300, 16)]
