"""The page of figures: a labelled folder of our own, a peer that says one thing, and input that cannot be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kbh_lint.base import paths
from kbh_lint.rules import load_rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """A leak with its class, a clean submission that is labelled a leak of another class, and a disputed one."""
    rule = next(rule for rule in load_rules(paths.rules_dir()) if rule.id == "KBH102")
    bad, good = rule.bad[0], rule.good[0]
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = []
    for name, code, label, classes in (
        ("a", bad.code, "leak", [rule.leak_class]),
        ("b", good.code, "leak", ["missing-kahan"]),
        ("c", good.code, "clean", []),
        ("d", bad.code, "disputed", []),
    ):
        run = f"20260101_000000_{name}_{bad.problem}"
        (folder / f"{run}.py").write_text(code, encoding="utf-8")
        rows.append({"run_id": run, "label": label, "classes": classes, "lines": []})
    (tmp_path / "labels.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


def accuracy(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/accuracy.py"), str(folder / "corpus"), str(folder / "labels.json")]
    return subprocess.run([*command, "-j", "1", *words], capture_output=True, text=True, timeout=120, check=False)


def test_found_reason_and_alarms_are_counted_over_what_is_not_disputed(labelled: Path) -> None:
    done = accuracy(labelled)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("| kbh-lint"))
    assert [cell.split(" ")[0] for cell in row.strip("| ").split(" | ")[1:]] == ["1/2", "1/2", "0/1"]
    assert "| missing-kahan | 0/1 | 0/1 |" in done.stdout
    assert "20260101_000000_b_" in done.stdout


def test_a_peer_runs_in_its_own_process_on_the_same_files(labelled: Path) -> None:
    (labelled / "kernelguard.py").write_text(
        "def analyze_code(text):\n    return {'should_filter': 'Sm80' in text, 'matched_patterns': [1]}\n"
    )
    done = accuracy(labelled, "--kernelguard", str(labelled))
    rows = [line for line in done.stdout.splitlines() if line.startswith("| KernelGuard")]
    assert [row.split("|")[2].split()[0] for row in rows] == ["1/2", "2/2"]
    assert [row.split("|")[4].split()[0] for row in rows] == ["0/1", "1/1"]
    assert "Commits of the peers: KernelGuard unknown." in done.stdout


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [("{", "does not hold labels"), ("[]", "holds no labels"), ('[{"run_id": "x", "label": "leak"}]', "lacks 1 of 1")],
)
def test_labels_that_cannot_be_used_are_one_sentence(labelled: Path, labels: str, sentence: str) -> None:
    (labelled / "labels.json").write_text(labels, encoding="utf-8")
    done = accuracy(labelled)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert sentence in done.stderr


def test_a_peer_that_does_not_run_is_one_sentence(labelled: Path) -> None:
    done = accuracy(labelled, "--kernelbench", str(labelled))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "kernelbench" in done.stderr
