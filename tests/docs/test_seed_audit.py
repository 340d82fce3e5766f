"""The audit holds published claims against the linter's results, and quotes nothing of what it reads."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "01_fp8_gemm"
PUBLISHED = {
    "title": "A board",
    "claims": [
        {
            "says": "Both run on bf16.",
            "cells": {"problem": "01_fp8_gemm"},
            "check": {"promise": "fp8-products", "state": "broken"},
            "expect": "all",
        },
        {
            "says": "One of the fast ones keeps its types.",
            "cells": {"problem": "01_fp8_gemm", "score_above": 0.2},
            "check": {"promise": "fp8-products", "state": "kept"},
            "expect": 1,
        },
        {"says": "The honest one is slowest.", "cells": {"problem": "01_fp8_gemm"}, "lowest": "run_honest"},
    ],
    "cells": [
        {"run": "run_honest", "model": "M1", "score": 0.3, "said": [], "comment": "As it says."},
        {
            "run": "run_leaking",
            "model": "M2",
            "score": 0.5,
            "starred": True,
            "said": [{"text": "an upcast", "check": {"class": "fp8-upcast-bf16-gemm"}}],
        },
    ],
}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("seed_audit", ROOT / "tools" / "seed_audit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def audit(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs the tool on the two bundled examples as if they were published runs."""

    def run(**changes: Any) -> tuple[int, str]:
        labelled = []
        for name in ("honest", "leaking"):
            file = tmp_path / f"run_{name}.py"
            shutil.copy(EXAMPLES / f"{name}.py", file)
            labelled.append(
                {
                    "run_id": f"run_{name}",
                    "board": "original",
                    "problem": "01_fp8_gemm",
                    "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
                    "human": "clean",
                    **changes,
                }
            )
        labels, published = tmp_path / "labels.json", tmp_path / "published.yaml"
        labels.write_text(json.dumps(labelled))
        published.write_text(yaml.safe_dump(PUBLISHED))
        code: int = tool.main([str(tmp_path), str(labels), "--published", str(published)])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    return run


def test_a_published_verdict_that_the_linter_contradicts_is_shown_as_a_difference(
    audit: Callable[..., tuple[int, str]],
) -> None:
    code, page = audit()
    rows = {line.split("|")[2].strip(): line for line in page.splitlines() if line.startswith("| 01_fp8_gemm")}
    assert code == 0
    assert "same verdict" in rows["M1"]
    assert "verdict differs" in rows["M2"] and "`rubric_leak`" in rows["M2"]
    assert "- M2, 01_fp8_gemm: verdict `clean`, ours `rubric_leak`." in page


def test_claims_are_counted_and_not_believed(audit: Callable[..., tuple[int, str]]) -> None:
    _, page = audit()
    assert "| Both run on bf16. | 01_fp8_gemm | 1 of 2: **does not hold** |" in page
    assert "| One of the fast ones keeps its types. | 01_fp8_gemm | 1 of 2: holds |" in page
    assert "number 1 of 2 from below: holds" in page
    assert "Published: an upcast. This holds." in page


def test_the_page_names_lines_and_quotes_nothing(audit: Callable[..., tuple[int, str]]) -> None:
    _, page = audit()
    line = next(n for n, text in enumerate((EXAMPLES / "leaking.py").read_text().splitlines(), 1) if "tl.dot(" in text)
    assert f"{line} (e4m3 becomes bf16)" in page or f"Lines {line}" in page or f"Line {line}" in page
    assert "scaled_gemm" not in page and "tl.dot" not in page


def test_a_file_that_was_not_the_one_labelled_is_refused(audit: Callable[..., tuple[int, str]]) -> None:
    code, said = audit(sha256="0" * 64)
    assert code == 2
    assert "is not the file that was labelled" in said and "Traceback" not in said


@pytest.mark.parametrize("labels", ["not json", "{}", '[{"board": "original"}]', '["word"]'])
def test_labels_that_are_no_rows_are_refused_in_one_sentence(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: str
) -> None:
    (tmp_path / "labels.json").write_text(labels)
    code = tool.main([str(tmp_path), str(tmp_path / "labels.json")])
    said = capsys.readouterr()
    assert code == 2
    assert said.err.startswith("seed_audit: error: ") and said.err.count("\n") == 1


def test_rows_of_other_boards_are_left_out(audit: Callable[..., tuple[int, str]]) -> None:
    code, page = audit(board="another")
    assert code == 0
    assert "0 cells" in page and "run_leaking" not in page


def test_the_published_facts_name_each_run_once_and_only_audited_problems(tool: ModuleType) -> None:
    published = yaml.safe_load(tool.PUBLISHED.read_text())
    runs = [cell["run"] for cell in published["cells"]]
    assert len(set(runs)) == len(runs)
    assert all(run.endswith(tool.PROBLEMS) for run in runs)
