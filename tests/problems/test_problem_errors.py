"""A malformed problem.yaml gives one sentence with the file and the line."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kbh_lint.base import paths
from kbh_lint.problems import ProblemError, load_problem, load_targets

GOOD = (paths.problems_dir() / "01_fp8_gemm" / "problem.yaml").read_text()


def load(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "01_fp8_gemm"
    folder.mkdir(exist_ok=True)
    (folder / "problem.yaml").write_text(text)
    load_problem(folder / "problem.yaml")


TOLERANCE = re.search(r"tolerance: {bf16: [^}]*}", GOOD).group()  # type: ignore[union-attr]


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("id: 01_fp8_gemm", "id: 02_fp8_gemm", "not the name of the folder"),
        ("regime: compute", "regime: both", "must be one of compute, memory"),
        ("status: graded", "status: graded\ncolour: red", "no key `colour`"),
        ("targets: [h100_pcie, h100_sxm, h200], shapes", "targets: [h101], shapes", "h101"),
        ("shapes: [32x8192x8192], reason", "shapes: [32x32x32], reason", "32x32x32"),
        ("reason: too few rows for wgmma}", "why: too few}", "`reason`"),
        ("flops: 2*M*N*K", "flops: 2*M*N*L", "`L`"),
        ("bytes: M*K", "bytes: M*K; import os; M", "not an arithmetic formula"),
        ("  - {M: 4096, N: 4096, K: 4127}", "  - {M: 4096, N: 4096}", "same symbols (K)"),
        ("  - {M: 4096, N: 4096, K: 4127}", "  - {M: 4096, N: 4096, K: 4096}", "no other shape has"),
        ("{M: 32, N: 8192, K: 8192, regime", "{M: many, N: 8192, K: 8192, regime", "the symbol `M`"),
        ("{name: weight, dtype: e4m3, shape", "{name: weight, dtype: fp8, shape", "not an element type"),
        ("{name: weight_scale, dtype: f32, shape: [N]", "{name: weight_scale, dtype: f32, shape: [N/3]", "not a size"),
        (TOLERANCE, "tolerance: {}", "no tolerance"),
        (TOLERANCE, "tolerance: {bf16: 0.2, e4m3: 0.2}", "never used"),
        (TOLERANCE, "tolerance: {bf16: 2e-1}", "write 1.0e-3"),
        ("kind: authored-compute", "kind: authored", "must be one of"),
        ("narrow: [x, weight]", "narrow: [y]", "neither an input nor state"),
        ("contracts: [original]", "contracts: [deck]", "twice"),
        ("quantifier: every", "quantifier: most", "must be one of every, some"),
        ("scale: {weight: 0.01}", "scale: {w: 0.01}", "neither an input nor state"),
        ("{id: small_weight, scale: {weight: 0.01}", "{id: Small weight, scale: {weight: 0.01}", "lower-case letters"),
        ("{id: large_input", "{id: small_input", "stands twice"),
    ],
)
def test_each_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(ProblemError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert told in message
    assert "\n" not in message
    file, line, _ = message.split(":", 2)
    assert file.endswith("01_fp8_gemm/problem.yaml")
    # A value inside a block may be told at the line where its entry starts.
    assert abs(int(line) - line_of(GOOD, old)) <= 8


# The parts that this problem's own file may not have: written here, at its end.
MORE = """
reduced:
  - {M: 48, N: 64, K: 96}
  - {M: 48, N: 64, K: 97}
  - {M: 8, N: 64, K: 96}
  - {M: 48, N: 80, K: 96}
work: tensor
form: dense
legal:
  - {intermediate: sums, allows: {default: f32, sm_90a: e4m3-wgmma}, text: Partial sums of the tensor cores.}
cases:
  - {id: hot-tail, text: The last columns dominate., tolerance: {bf16: 0.005}}
"""
HEAD = GOOD
for key in ("reduced", "work", "form", "legal", "cases"):
    HEAD = re.sub(rf"(?ms)^{key}:.*?(?=^\S|\Z)", "", HEAD)


def test_the_optional_parts_are_read(tmp_path: Path) -> None:
    load(tmp_path, HEAD + MORE)
    problem = load_problem(tmp_path / "01_fp8_gemm" / "problem.yaml")
    assert [shape.label for shape in problem.reduced] == [shape.label for shape in problem.shapes]
    assert problem.reduced[1].symbols == {"M": 48, "N": 64, "K": 97}
    assert (problem.work_kind, problem.form) == ("tensor", "dense")
    assert problem.legal[0].allows == {"default": "f32", "sm_90a": "e4m3-wgmma"}
    assert (problem.cases[0].id, problem.cases[0].tolerance) == ("hot-tail", {"bf16": 0.005})


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("  - {M: 48, N: 64, K: 97}\n", "", "one for each of the 4"),
        ("{M: 48, N: 64, K: 97}", "{M: 48, N: 64}", "has not the graded shape's symbols (K)"),
        ("{M: 48, N: 64, K: 97}", "{M: 48, N: 64, K: 97, regime: memory}", "neither label nor regime"),
        ("work: tensor", "work: matrix", "one of tensor, elementwise"),
        ("sm_90a: e4m3-wgmma", "hopper: e4m3-wgmma", "neither `default` nor an architecture"),
        ("sm_90a: e4m3-wgmma", "sm_90a: 3", "must be text"),
        ("default: f32, ", "", "needs a `default`"),
        ("  - {id: hot-tail, text", "  - {id: a, text: One.}\n  - {id: a, text", "stands twice"),
        ("tolerance: {bf16: 0.005}", "tolerance: {f16: 0.005}", "never used"),
        ("tolerance: {bf16: 0.005}", "tolerance: {bf16: 0}", "positive number"),
    ],
)
def test_mistakes_in_the_optional_parts_are_told_with_their_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = HEAD + MORE.replace(old, new, 1)
    assert text != HEAD + MORE
    with pytest.raises(ProblemError) as caught:
        load(tmp_path, text)
    assert told in str(caught.value)
    assert abs(int(str(caught.value).split(":")[1]) - line_of(HEAD + MORE, old)) <= 5


@pytest.mark.parametrize(
    ("domain", "told"),
    [
        ("[1]", "must be a mapping with a `kind`"),
        ("{low: 1}", "needs `kind`"),
        ("{kind: uniform, low: -4}", "needs `high`"),
        ("{kind: uniform, low: -4, high: four}", "`high` must be a number"),
        ("{kind: normal, std: 1, spikes: 4}", "must be a mapping"),
        ("{kind: normal, std: 1, spikes: {count: 4}}", "needs `value`"),
        ("{kind: constant}", "must be a number or a formula"),
        ("{kind: when, symbol: M, then: {kind: free}, else: {kind: free}}", "must be a flag"),
        ("{kind: when, symbol: X, then: {kind: free}, else: {kind: free}}", "must be a flag"),
    ],
)
def test_a_domain_that_analyses_could_not_read_is_refused(tmp_path: Path, domain: str, told: str) -> None:
    text = GOOD.replace("domain: {kind: uniform, low: -4, high: 4}", f"domain: {domain}", 1)
    assert text != GOOD
    with pytest.raises(ProblemError, match=re.escape(told)):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("compare", "told"),
    [
        ("{metric: scaled}", "which needs it"),
        ("{metric: element, over: [-1]}", "belongs to the metric scaled"),
        ("{metric: scaled, over: [2]}", "an output of 2 has not"),
        ("{metric: close}", "must be one of"),
        ("{metric: scaled, over: [a]}", "a list of dimensions"),
        ("{metric: selection}", "it has no tolerance"),
        ("{metric: element, tol: 1}", "no key `tol`"),
    ],
)
def test_a_comparison_that_means_nothing_is_refused(tmp_path: Path, compare: str, told: str) -> None:
    text = re.sub(r"(?m)^    compare:.*\n", "", GOOD)
    with pytest.raises(ProblemError, match=re.escape(told)):
        load(tmp_path, text.replace("    tolerance:", f"    compare: {compare}\n    tolerance:", 1))


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="stands twice"):
        load(tmp_path, GOOD + "\nregime: memory\n")


def test_what_is_not_yaml_or_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"problem\.yaml:\d+: not valid YAML"):
        load(tmp_path, "[" * 5000)
    with pytest.raises(ProblemError, match="one mapping"):
        load(tmp_path, "- a\n- b\n")
    with pytest.raises(ProblemError, match="larger than 256 KB"):
        load(tmp_path, "#" * 300_000)
    with pytest.raises(ProblemError, match="cannot be read: no such file"):
        load_problem(tmp_path / "none" / "problem.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(ProblemError, match="not UTF-8"):
        load_targets(tmp_path / "latin.yaml")


def test_a_target_needs_its_numbers(tmp_path: Path) -> None:
    file = tmp_path / "hardware.yaml"
    file.write_text("x:\n  sm: sm_90a\n  product: X\n  dram_gbps: fast\n  peaks: {}\n")
    with pytest.raises(ProblemError, match=r"hardware\.yaml:4: `dram_gbps` must be a number"):
        load_targets(file)
    file.write_text("x: sm_90a\n")
    with pytest.raises(ProblemError, match="must be a mapping"):
        load_targets(file)


ROW = "  sm: sm_103a\n  product: X\n  names: []\n  dram_gbps: 1\n  peaks: {}\n"


def test_a_gpu_is_offered_wherever_the_one_is_that_it_is_offered_with(tmp_path: Path) -> None:
    named = tuple(GOOD.partition("\ntargets: [")[2].partition("]")[0].split(", "))
    for other, offered in (("h200", (*named, "new")), ("rtx_3090", named)):
        folder = tmp_path / other / "01_fp8_gemm"
        folder.mkdir(parents=True)
        (folder / "problem.yaml").write_text(GOOD)
        (folder.parent / "hardware.yaml").write_text(f"new:\n  offered_with: {other}\n{ROW}")
        assert load_problem(folder / "problem.yaml").targets == offered


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.integers(0, len(GOOD) - 1),
    st.integers(0, 60),
    st.sampled_from(["", "[", ": ", "- ", "1e9", "&a", "*a", "\t", "~", "{}"]),
)
def test_no_edit_of_a_good_file_ends_in_anything_but_a_problem_error(
    tmp_path: Path, at: int, length: int, put: str
) -> None:
    try:
        load(tmp_path, GOOD[:at] + put + GOOD[at + length :])
    except ProblemError as error:
        assert "\n" not in str(error)
