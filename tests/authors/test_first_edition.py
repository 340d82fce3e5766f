"""Faults of the public deck's first editions, put back into our problems: rules that faults.yaml names find them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from authors_support import RULES, lint_files, merged, said
from shares import taken

from kbh_lint.authors import execution
from kbh_lint.authors.faults import read_faults
from kbh_lint.authors.folders import find
from kbh_lint.authors.lint import lint
from kbh_lint.base import paths

DECK = paths.problems_dir()
FAULTS = {fault.id: fault for fault in read_faults(DECK / "faults.yaml")}


@dataclass(frozen=True)
class Edition:
    """One fault put back: keys of problem.yaml that are replaced, substitutions in it, and files that are written."""

    fault: str
    rule: str
    yaml: str = ""
    replace: tuple[str, str] = ("", "")
    files: tuple[tuple[str, str], ...] = ()

    @property
    def run(self) -> bool:
        """Whether the problem's code must be run to see it."""
        return self.rule == "KBH903"


NO_REGIME = (r", regime: \w+", "")
NO_CASES = (("cases.py", "STRUCTURES = {}\n"),)
RESEEDED = """
import torch


def repeated(plan, symbols, inputs, state, generator):
    torch.manual_seed(0)


STRUCTURES = {"long-memory": repeated}
"""

EDITIONS = [
    Edition(
        "KF01", "KBH901", replace=(r"(output:\s+- \{dtype: bf16.*\}\n(?:.*\n)*?    tolerance: )\{.*", r"\1{e4m3: 0.15}")
    ),
    Edition("KF02", "KBH907"),
    Edition("KF04", "KBH905", replace=NO_REGIME),
    Edition("KF09", "KBH902", replace=(r"(    tolerance: )\{bf16: .*", r"\1{bf16: 0.05}")),
    Edition("KF09", "KBH914", files=(("mutants.py", "MUTANTS = ()\n"),)),
    Edition("KF11", "KBH917", files=(("cases.py", RESEEDED),)),
    Edition("KF12", "KBH905", yaml="regime: compute\n"),
    Edition("KF13", "KBH903", yaml="flops: 4*B*T*H*(K*V + CHUNK_SIZE*K + CHUNK_SIZE*V)\n"),
    Edition("KF14", "KBH913", yaml="cases: []\n", files=NO_CASES),
    Edition("KF15", "KBH902", replace=(r"(    tolerance: )\{bf16: .*", r"\1{bf16: 1.0}")),
    Edition("KF18", "KBH908"),
    Edition("KF24", "KBH903", yaml="flops: 2*T_total*H*(2*I)\n"),
    Edition("KF25", "KBH913", yaml="cases: []\n", files=NO_CASES),
    Edition("KF28", "KBH905", yaml="regime: memory\n", replace=NO_REGIME),
    Edition("KF32", "KBH912", files=(("prompt.md", "The tolerance is 0.01.\n"),)),
    Edition(
        "KF33",
        "KBH912",
        files=(("prompt.in.md", "The tolerance is 0.01.\n"), ("prompt.md", "The tolerance is 0.01.\n")),
    ),
    Edition("KF34", "KBH905", yaml="regime: compute\n", replace=NO_REGIME),
    Edition("KF35", "KBH912", files=(("prompt.md", "The tolerance is 0.15.\n"),)),
]


def rebuilt(edition: Edition, deck: Path) -> Path:
    """Our problem without its solutions, as it would stand with the fault."""
    source = DECK / FAULTS[edition.fault].problem
    folder = deck / source.name
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", "honest", "decoys", "solutions.yaml"))
    text = merged((folder / "problem.yaml").read_text(), edition.yaml)
    pattern, replacement = edition.replace
    if pattern:
        text, count = re.subn(pattern, replacement, text)
        assert count, "the edit must change something"
    (folder / "problem.yaml").write_text(text)
    for name, content in edition.files:
        (folder / name).write_text(content)
    return folder


@pytest.fixture(scope="module")
def counted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What a child process counts in the editions that need it and are tried: (folder, answers) in one start."""
    pytest.importorskip("torch")
    asked = [edition for edition in taken(request, "edition") if edition.run]
    folders = {e.fault: rebuilt(e, tmp_path_factory.mktemp(e.fault)) for e in asked}
    answers, why_not = execution.ask(list(folders.values()))
    assert answers, why_not
    return {fault: (folder, answers) for fault, folder in folders.items()}


@pytest.mark.parametrize("edition", EDITIONS, ids=lambda e: f"{e.fault}-{e.rule}")
def test_a_fault_of_the_first_edition_is_found_by_its_rule(
    edition: Edition, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert edition.rule in FAULTS[edition.fault].caught_by
    trusted = Path("/nowhere")
    if edition.run:
        folder, answers = request.getfixturevalue("counted")[edition.fault]
        monkeypatch.setattr(execution, "ask", lambda folders: (answers, ""))
        trusted = folder.parent
    else:
        folder = rebuilt(edition, tmp_path)
    found = lint(find([folder]), RULES, lint_files, trusted)
    assert edition.rule in {f.rule for file in found for f in file.findings}, said(found)


def test_every_fault_that_an_author_rule_catches_is_put_back() -> None:
    named = {
        (f.id, rule) for f in FAULTS.values() for rule in f.caught_by if rule.startswith("KBH9") and f.problem != "deck"
    }
    tried = {(edition.fault, edition.rule) for edition in EDITIONS}
    beside = {("KF07", ""), ("KF11", "KBH913"), ("KF26", "KBH902"), ("KF29", "KBH914"), ("KF30", "KBH914")}
    assert named - tried <= beside


@pytest.mark.slow
def test_our_own_deck_has_no_finding() -> None:
    pytest.importorskip("torch")
    found = lint(find([DECK]), RULES, lint_files, DECK)
    assert [f"{file.path} {f.rule}: {f.message}" for file in found for f in file.findings] == []
    assert len(found) == len([*DECK.glob("*/problem.yaml")]) + 1
