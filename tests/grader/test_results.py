"""The page of results: made from bundles alone, and worked out again from what they hold."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
from grading import cell

from grader.record.bundle import Bundle, cell_to_json, trial_to_json
from grader.record.cell import Cell, PromiseRecord, Scores
from grader.silicon import CodeRow, KernelRow, ShapeEvidence, Silicon, silicon_to_json

ROOT = Path(__file__).parents[2]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_tool", ROOT / "tools" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RESULTS = tool()
COUNTED = Silicon(
    {}, {}, (),
    (ShapeEvidence("64x16x32", (KernelRow("_product", (4, 1, 1), (128, 1, 1), 2, 1.5e-3, ""),),
                   {"bf16": 2.2e6, "fp8": 0.0}, 2.0e6, 3.0e5, 1.0e5, 2.0e5, 1.5e-3, 1.6e-3, 1.9e-3, 0.0),),
    (),
)  # fmt: skip


def consistent(outcome: str, file: str) -> Cell:
    """A cell whose scores follow from its samples and whose key is the one that was committed to."""
    made = cell(outcome, file=file)
    if outcome == "withheld":
        return replace(made, trials=())
    keyed = tuple(replace(trial, commitment=sha256(bytes.fromhex(trial.master)).hexdigest()) for trial in made.trials)
    t_floor = 1e-3
    score = replace(
        made.shapes[0], t_scored=2e-3, t_event=1.9e-3, t_sealed=2e-3, t_null=5e-6, t_floor=t_floor, vetoed=0,
        samples=3, roofline_fraction=0.5, attainable_fraction=0.5025, peak_fraction=0.4567, notes=(),
    )  # fmt: skip
    return replace(made, trials=keyed, shapes=(score,), scores=Scores(0.4567, 0.5, 0.5025))


def write(folder: Path, made: Cell, silicon: Silicon | None = None) -> None:
    """A whole bundle."""
    source = b"import torch"
    files = {"solution.py": sha256(source).hexdigest()}
    header = {"submission": {"sha256": made.submission, "files": files}}
    with Bundle.create(folder, header, [source]) as opened:
        for trial in made.trials:
            opened.append("commitment", {"trial": trial.index, "commitment": trial.commitment})
            opened.append("trial", trial_to_json(trial))
        if silicon is not None:
            opened.append("evidence", {"silicon": silicon_to_json(silicon)})
        opened.append("cell", cell_to_json(made))


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    folder = tmp_path / "bundles"
    folder.mkdir()
    write(folder / "good", consistent("accepted", "problems/toy/honest/triton.py"), COUNTED)
    write(folder / "bad", consistent("withheld", "problems/toy/decoys/cast|`x`.py"))
    return folder


def test_the_page_has_every_bundle_and_a_number_only_beside_its_verdict(bundles: Path, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    assert RESULTS.main([str(bundles), "-o", str(page)]) == 0
    lines = page.read_text().splitlines()
    good = next(line for line in lines if "honest/triton.py" in line)
    assert good.startswith("| toy |") and "clean" in good and "accepted" in good and "0.457" in good
    assert "| 64x16x32 | 2 | 1.5 ms | 1.6 ms | bf16 1.10 | 1.50 | 0% |" in lines
    bad = next(line for line in lines if "decoys/cast x .py" in line)
    assert "withheld" in bad and "0.457" not in bad
    assert any("3 samples" in line and line.count("|") == 2 for line in lines)


def test_shapes_at_which_hardware_leaves_a_choice_have_a_table_of_what_ran(tmp_path: Path) -> None:
    label, promise = "32x8192x8192", "fp8-products"
    (shape,) = COUNTED.shapes
    code = CodeRow("_product", "0" * 64, "1" * 64, True, True, "64 HMMA of f16", (label,))
    seen = replace(
        COUNTED, shapes=(replace(shape, shape=label, tensor={"fp16": 2.0e6}),), code=(code,),
        shapes_by_layer={"counters": {promise: {label: "emulated"}}, "sass": {promise: {label: "emulated"}}},
    )  # fmt: skip
    made = replace(consistent("accepted", "problems/x/honest/narrow.py"), problem="01_fp8_gemm")
    (tmp_path / "bundles").mkdir()
    write(tmp_path / "bundles" / "one", made, seen)
    assert RESULTS.main([str(tmp_path / "bundles"), "-o", str(tmp_path / "page.md")]) == 0
    lines = (tmp_path / "page.md").read_text().splitlines()
    row = lines[lines.index(f"## 01_fp8_gemm: {promise} at {label}") + 4]
    assert row == "| honest/narrow.py | 64 HMMA of f16 | fp16 1.00 |  | emulated | emulated | accepted |"
    assert "| _product | 000000000000 | 64 HMMA of f16 | the same |" in lines


def test_a_layer_that_left_a_promise_of_an_honest_solution_open_is_listed(tmp_path: Path) -> None:
    for number, (counted, said) in enumerate(
        (
            ({"counters": "kept"}, "Machine code and counters settled every promise"),
            ({"counters": "unproven"}, "- 01_fp8_gemm honest/x.py: fp8-products by counters (unproven)"),
            ({}, "- 01_fp8_gemm honest/x.py: fp8-products by counters (no state)"),
        )
    ):
        made = replace(consistent("accepted", "problems/x/honest/x.py"), problem="01_fp8_gemm")
        record = PromiseRecord("fp8-products", "kept", ("kept",), {"source": "kept", "sass": "emulated", **counted})
        made = replace(made, verdict=replace(made.verdict, promises=(record,)))
        folder, page = tmp_path / str(number), tmp_path / "page.md"
        folder.mkdir()
        write(folder / "one", made, COUNTED)
        assert RESULTS.main([str(folder), "-o", str(page)]) == 0
        assert said in page.read_text() and "by sass" not in page.read_text()


def test_a_page_that_is_what_the_bundles_give_passes_and_a_changed_one_does_not(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "results.md"
    RESULTS.main([str(bundles), "-o", str(page)])
    assert RESULTS.main([str(bundles), "-o", str(page), "--check"]) == 0
    page.write_text(page.read_text().replace("0.457", "0.957"))
    assert RESULTS.main([str(bundles), "-o", str(page), "--check"]) == 1
    assert "is not what the bundles give" in capsys.readouterr().err


def test_a_bundle_that_was_changed_is_named_and_no_page_is_written(
    bundles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = bundles / "good" / "entries" / "000003.json"
    entry.chmod(0o600)
    entry.write_bytes(entry.read_bytes().replace(b"0.0019", b"0.0009"))
    assert RESULTS.main([str(bundles), "-o", str(tmp_path / "results.md")]) == 2
    assert "good: " in capsys.readouterr().err and not (tmp_path / "results.md").exists()


def test_a_folder_without_bundles_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert RESULTS.main([str(tmp_path), "-o", str(tmp_path / "x.md")]) == 2
    assert capsys.readouterr().err == f"{tmp_path} holds no bundle\n"
