"""The tables of docs/statistics.md: how often each claim held on boards whose truth is known (bench/coverage.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["CLAIMS", "HIGH", "LOW", "STORED", "Claim", "outside", "tables"]

STORED = Path(__file__).resolve().parents[2] / "results" / "statistics" / "coverage.json"
LOW, HIGH = 0.92, 0.99


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of the tables. `claims`: that 95 % hold, that at least 95 % do, or nothing (only compared with)."""

    name: str
    title: str
    claims: Literal["95", "at least 95", "nothing"]


CLAIMS = (
    Claim("score", "score", "95"),
    Claim("passes", "passes", "95"),
    Claim("leaks", "leaks", "95"),
    Claim("difference", "difference", "95"),
    Claim("order", "order", "at least 95"),
    Claim("same", "same", "at least 95"),
    Claim("ranks", "ranks", "at least 95"),
    Claim("score, deck", "score", "95"),
    Claim("passes, deck", "passes", "at least 95"),
    Claim("leaks, deck", "leaks", "95"),
    Claim("difference, deck", "difference", "95"),
    Claim("order, deck", "order", "at least 95"),
    Claim("same, deck", "same", "at least 95"),
    Claim("ranks, deck", "ranks", "at least 95"),
    Claim("passes of a cell", "passes of a cell", "95"),
    Claim("agent", "agent", "95"),
    Claim("agent of a model", "agent, one model", "95"),
    Claim("clock", "clock", "95"),
    Claim("score, bootstrap", "score: hierarchical bootstrap", "nothing"),
    Claim("score, Student", "score: Student", "nothing"),
    Claim("passes, all trials", "passes: Wilson of all trials", "nothing"),
    Claim("rank, bootstrap", "rank: hierarchical bootstrap", "nothing"),
    Claim("ordered", "ordered, over problems", "nothing"),
    Claim("equal", "same, over problems", "nothing"),
    Claim("ordered, deck", "ordered, on the deck", "nothing"),
    Claim("equal, deck", "same, on the deck", "nothing"),
)
BLOCKS = (
    ('Over problems like these (`over="problems"`)', 0, 7),
    ('On the deck\'s own problems (`over="deck"`)', 7, 14),
    ("Cells and variances", 14, 18),
    ("Methods that are not used", 18, 22),
    ("Pairs that are told apart, or told to be the same", 22, 26),
)


def outside(figures: Mapping[str, Any]) -> list[str]:
    """A sentence for each claim of docs/statistics.md that the figures do not bear out."""
    wrong = []
    for scenario in figures["scenarios"]:
        for claim in CLAIMS:
            share = _share(scenario, claim)
            if share is None or claim.claims == "nothing":
                continue
            if share < LOW or (share > HIGH and claim.claims == "95"):
                wrong.append(
                    f"{scenario['name']}: {claim.name} holds the truth in {share:.1%}, not in {LOW:.0%} to {HIGH:.0%}"
                )
    return wrong


def tables(figures: Mapping[str, Any] | None = None) -> str:
    """The tables in Markdown; of the stored figures where none are given."""
    known = json.loads(STORED.read_text(encoding="utf-8")) if figures is None else figures
    text = [
        f"{known['boards']:,} boards of each kind, seed {known['seed']}; in per cent. "
        "Claimed are 95, and with (≥) at least 95.\n"
    ]
    for title, first, last in BLOCKS:
        claims = CLAIMS[first:last]
        heads = [claim.title + (" (≥)" if claim.claims == "at least 95" else "") for claim in claims]
        text += [f"\n| {title} | {' | '.join(heads)} |", f"|---|{'---|' * len(claims)}"]
        for scenario in known["scenarios"]:
            shares = [_share(scenario, claim) for claim in claims]
            cells = ["" if share is None else f"{100 * share:.1f}" for share in shares]
            text.append(f"| {scenario['name']} | {' | '.join(cells)} |")
        text.append("")
    return "\n".join(line.rstrip("\n") for line in text).strip() + "\n"


def _share(scenario: Mapping[str, Any], claim: Claim) -> float | None:
    cases, hits = scenario["hits"].get(claim.name, (0, 0))
    return hits / cases if cases else None
