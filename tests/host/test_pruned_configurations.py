"""Configurations that a tuner's pruner makes or leaves out, and those that only options of the compiler tell apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_support import ARGUMENTS, DOT, GEMM, GRID, HEAD, MODEL, OUTPUT, WIDE

import kbh_lint
from kbh_lint.findings import FileReport

PRUNER = """
def prune(configs, named, **kwargs):
    for config in configs:
        deep = config.kwargs["BK"] if config.num_stages > 2 and named["K"] >= 64 else 32
        yield triton.Config({"BM": 64, "BN": 128, "BK": deep}, num_warps=config.num_warps)
"""
TUNED = """

@triton.autotune([CONFIGS], key=["K"], prune_configs_by={"early_config_prune": prune})
@triton.jit"""
BODY = f"{OUTPUT}        gemm[{GRID}]({ARGUMENTS})\n        return y\n"
MANY = (
    'triton.Config({"BM": 64, "BN": 128, "BK": 64}, num_warps=w, num_stages=s) for w in range(1, 33) for s in range(12)'
)


def lint(folder: Path, text: str) -> FileReport:
    (folder / "mine.py").write_text("# kbh: problem=01_fp8_gemm\n" + HEAD + text)
    return kbh_lint.lint([folder / "mine.py"], raise_errors=True).files[0]


def program(configs: str, kernel: str = GEMM, tuned: str = TUNED) -> str:
    model = MODEL.replace("SETUP\n", "").replace("BODY", BODY)
    return PRUNER + tuned.replace("CONFIGS", configs) + kernel + model


@pytest.mark.parametrize(("kernel", "rules"), [(GEMM, set()), (GEMM.replace(DOT, WIDE), {"KBH101"})])
def test_a_pruner_may_complete_configurations(tmp_path: Path, kernel: str, rules: set[str]) -> None:
    report = lint(tmp_path, program('triton.Config({"BK": 64}), triton.Config({"BK": 128})', kernel))
    assert rules <= {finding.rule for finding in report.findings}
    assert (report.verdict == "clean") is (not rules), [(f.rule, f.message) for f in report.findings]


def test_without_the_pruner_they_lack_a_parameter(tmp_path: Path) -> None:
    plain = TUNED.replace(', prune_configs_by={"early_config_prune": prune}', "")
    assert lint(tmp_path, program('triton.Config({"BK": 64})', tuned=plain)).verdict == "unproven"


REPLACES = """
def quiet():
    inner = torch.Tensor.zero_
    torch.Tensor.zero_ = lambda self: self if self.numel() > 1 << 20 else inner(self)

def prune(configs, named, **kwargs):
    EFFECT
    return configs
"""


@pytest.mark.parametrize(("effect", "rules"), [("quiet()", {"KBH301"}), ("deep = named['K'] > 64", set())])
def test_a_pruner_that_nothing_needs_is_asked_all_the_same(tmp_path: Path, effect: str, rules: set[str]) -> None:
    sizes = '{"BM": 64, "BN": 128, "BK": 64}'
    text = program(f"triton.Config({sizes}), triton.Config({sizes}, num_warps=8)").replace(PRUNER, "")
    report = lint(tmp_path, REPLACES.replace("EFFECT", effect) + text)
    assert {finding.rule for finding in report.findings} == rules


def test_configurations_are_read_by_their_values(tmp_path: Path) -> None:
    plain = TUNED.replace(', prune_configs_by={"early_config_prune": prune}', "")
    assert lint(tmp_path, program(MANY, tuned=plain)).verdict == "clean"


def test_hooks_of_one_text_and_equal_names_are_one(tmp_path: Path) -> None:
    plain = TUNED.replace(', prune_configs_by={"early_config_prune": prune}', "")
    hook = """
def clearing(*names):
    def clear(args):
        for name in names:
            args[name].zero_()
    return clear
"""
    hooked = MANY.replace("num_stages=s", 'num_stages=s, pre_hook=clearing("y")')
    assert lint(tmp_path, hook + program(hooked, tuned=plain)).verdict == "clean"


def test_a_grid_may_ask_for_what_heuristics_make(tmp_path: Path) -> None:
    tuned = '\n\n@triton.heuristics({"BM": lambda args: 64 if args["M"] > 16 else 32})\n@triton.jit'
    text = program("", tuned=tuned).replace(
        "(triton.cdiv(M, 64), N // 128)", 'lambda m: (triton.cdiv(M, m["BM"]), N // 128)'
    )
    report = lint(tmp_path, text.replace(ARGUMENTS, f"{ARGUMENTS}, BN=128, BK=64"))
    assert report.verdict == "clean", [(f.rule, f.message) for f in report.findings]


SPLIT = """
def prune(configs, named, **kwargs):
    return [config for config in configs if (config.kwargs["BK"] == 64) == (named["M"] > 64)]
"""
TWICE = """
        if gemm.best_config.kwargs["BK"] == WANTED:
            y = torch.matmul(x.bfloat16(), self.weight.bfloat16().T)"""


@pytest.mark.parametrize(("wanted", "rules"), [(16, set()), (64, {"KBH101"})])
def test_the_best_configuration_is_one_that_the_pruner_leaves(tmp_path: Path, wanted: int, rules: set[str]) -> None:
    sizes = '{"BM": 64, "BN": 128, "BK": %d}'
    text = program(f"triton.Config({sizes % 64}), triton.Config({sizes % 128})").replace(PRUNER, SPLIT)
    more = f"gemm[{GRID}]({ARGUMENTS})" + TWICE.replace("WANTED", str(wanted))
    report = lint(tmp_path, text.replace(f"gemm[{GRID}]({ARGUMENTS})", more))
    assert rules <= {finding.rule for finding in report.findings}
    assert (report.verdict == "clean") is (not rules), [(f.rule, f.message) for f in report.findings]
