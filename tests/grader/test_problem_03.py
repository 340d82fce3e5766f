"""Paged attention: what lies past a length is never read, and a skipped tail is always seen."""

from __future__ import annotations

import pytest
import torch
from deck_cases import drawn, eager, faultless, judged, legal, loaded, mutant, oracle, shape_of

from grader.deck.correctness import compare
from grader.deck.precision import resolve

ID = "03_paged_attention"
REDUCED = loaded(ID)[0].reduced
GRADED_LENGTHS = [
    shape_of(batch=1, num_heads=8, num_kv_heads=2, head_dim=128, seq_len=1024, page_size=16),
    shape_of(batch=1, num_heads=8, num_kv_heads=1, head_dim=128, seq_len=4096, page_size=16),
    shape_of(batch=1, num_heads=8, num_kv_heads=2, head_dim=64, seq_len=2000, page_size=16),
]


@pytest.mark.parametrize("shape", [REDUCED[0], REDUCED[3]], ids=lambda shape: shape.label)
def test_the_reference_the_legal_model_and_the_faultless_mutant_are_right_on_every_case(shape: object) -> None:
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        assert judged(ID, eager(ID, case), case).ok, case.spec.id
        assert judged(ID, faultless(ID, "one-short", case.binding.init), case).ok, case.spec.id
        assert compare(legal(ID, case), oracle(ID, case), case).ok, case.spec.id


def test_the_oracle_is_plain_attention_over_the_positions_of_each_sequence() -> None:
    for case in drawn(ID, REDUCED[3], ("structure/ragged-lengths", "structure/scattered-pages")):
        query, cache = case.inputs["query"].double(), case.inputs["kv_cache"].double()
        for b, length in enumerate(case.inputs["seq_lens"].tolist()):
            rows = [cache[int(case.inputs["block_table"][b, n // 16]), n % 16] for n in range(length)]
            for head in range(query.shape[1]):
                pairs = torch.stack([row[head // 4] for row in rows])
                weights = (pairs[:, :128] @ query[b, head] / 128**0.5).softmax(0)
                torch.testing.assert_close(oracle(ID, case)[0][b, head], weights @ pairs[:, 128:])


def test_nothing_past_a_length_or_in_a_page_of_nobody_reaches_the_oracle() -> None:
    for case in drawn(ID, REDUCED[0], ("structure/ragged-lengths",)):
        want = oracle(ID, case)[0]
        poisoned = case.inputs["kv_cache"] > 1e29
        assert bool(poisoned.any()) and float(want.abs().max()) < 10
        case.inputs["kv_cache"][poisoned] = float("nan")
        assert torch.equal(oracle(ID, case)[0], want)


def test_lengths_are_legal_and_not_all_full() -> None:
    for shape in REDUCED:
        for case in drawn(ID, shape, ("structure/ragged-lengths", "structure/early-positions")):
            drawn_lengths = case.inputs["seq_lens"].tolist()
            assert 1 <= min(drawn_lengths) < shape.symbols["seq_len"]
            assert max(drawn_lengths) <= shape.symbols["seq_len"]


def test_every_page_order_keeps_pages_distinct() -> None:
    for shape in REDUCED:
        for case in drawn(ID, shape, ("structure/scattered-pages",)):
            table = case.inputs["block_table"]
            assert table.unique().numel() == table.numel() and int(table.max()) < case.inputs["kv_cache"].shape[0]


@pytest.mark.parametrize("name", ["zeros", "last-two-percent", "last-tenth", "one-short"])
@pytest.mark.parametrize("shape", GRADED_LENGTHS, ids=lambda shape: shape.label)
def test_no_scale_of_the_inputs_hides_a_skipped_tail(name: str, shape: object) -> None:
    kinds = ("nominal/0", "stress/", "structure/late-positions/0") if name != "one-short" else ("structure/late",)
    for case in drawn(ID, shape, kinds):  # type: ignore[arg-type]
        assert not judged(ID, mutant(ID, name, case.binding.init), case).ok, case.spec.id


def test_the_late_positions_carry_most_of_the_weight() -> None:
    for case in drawn(ID, GRADED_LENGTHS[0], ("structure/late-positions",)):
        query, count = case.inputs["query"].float(), int(case.spec.plan["count"])
        rows = case.inputs["kv_cache"][case.inputs["block_table"].long()].flatten(1, 2)[..., :128].float()
        scores = torch.einsum("bhd,bnhd->bhn", query, rows.repeat_interleave(4, dim=2)) * 128**-0.5
        assert float(scores.softmax(-1)[..., -count:].sum(-1).mean()) > 0.6


@pytest.mark.parametrize("shape", GRADED_LENGTHS, ids=lambda shape: shape.label)
def test_every_legal_form_is_right_at_graded_lengths(shape: object) -> None:
    problem, code = loaded(ID)
    for case in drawn(ID, shape):  # type: ignore[arg-type]
        want = oracle(ID, case)
        for name, form in code.variants.items():
            got = form(case.binding.init, case.inputs, case.state, resolve(problem, "sm_90a"))
            assert compare(got, want, case).ok, (case.spec.id, name)


def test_queries_that_share_keys_agree_and_so_do_the_keys_they_look_at() -> None:
    for case in drawn(ID, GRADED_LENGTHS[0], ("structure/late-positions", "structure/early-positions")):
        groups = case.inputs["query"].float().view(1, 2, 4, 128)
        turned = torch.nn.functional.cosine_similarity(groups, groups.mean(2, keepdim=True), dim=-1)
        assert float(turned.min()) > 0.9
