"""Statistics: what rows may be, what is averaged, and what is said of models for sure."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.statistics import rows as rows_module
from harness.statistics.board import Board, summarise
from harness.statistics.bootstrap import resampled_scores
from harness.statistics.coverage_page import CLAIMS, STORED, outside, tables
from harness.statistics.intervals import of_mean, of_rate, wilson
from harness.statistics.layout import lay_out
from harness.statistics.pairs import MOST_TRIALS, holm
from harness.statistics.rows import Row, StatisticsError, read_rows
from harness.statistics.simulation import SCENARIOS, Scenario, draw
from harness.statistics.text import render, standing_table

ROOT = Path(__file__).resolve().parents[2]
USUAL = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GOOD = {"model": "a", "problem": "p", "trial": 0, "outcome": "PASS", "score": 0.5, "leak": False, "target": "h200"}


def rows_of(*scores: tuple[str, str, list[float | None]], spread: float | None = 0.01) -> list[Row]:
    """Rows of cells: None is a failure."""
    return [
        Row(model, problem, trial, "FAIL" if score is None else "PASS", score, False, "h200", spread=spread)
        for model, problem, trials in scores
        for trial, score in enumerate(trials)
    ]


def board_of(values: np.ndarray, **options: object) -> Board:
    """A board of (models, problems, trials) scores."""
    cells = [(f"m{m:02}", f"p{p:02}", values[m, p].tolist()) for m, p in np.ndindex(*values.shape[:2])]
    return summarise(rows_of(*cells), **options)  # type: ignore[arg-type]


def boards(most_models: int = 5) -> st.SearchStrategy[list[Row]]:
    """Boards as they come: failures, leaks, errors, cells that are missing."""
    trial = st.one_of(st.floats(0, 1), st.just("FAIL"), st.just("ERR"), st.just("leak"))
    cell = st.lists(trial, min_size=0, max_size=4)
    shape = st.tuples(st.integers(1, most_models), st.integers(1, 5))

    def rows(cells: list[list[list[object]]]) -> list[Row]:
        made = []
        for (m, model), p in itertools.product(enumerate(cells), range(len(cells[0]))):
            for number, what in enumerate(model[p]):
                outcome = what if what in ("FAIL", "ERR") else "PASS"
                score = {"FAIL": None, "ERR": None, "leak": 0.4}.get(str(what), what)
                made.append(Row(f"m{m}", f"p{p}", number, outcome, score, what == "leak", "t", spread=0.02))  # type: ignore[arg-type]
        return made

    return shape.flatmap(
        lambda size: st.lists(
            st.lists(cell, min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
        ).map(rows)
    ).filter(bool)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"score": math.nan}, "score is nothing or a number from 0 to 1, not nan"),
        ({"score": 10**400}, "score is nothing or a number from 0 to 1, not inf"),
        ({"score": 1.01}, "score is nothing or a number from 0 to 1, not 1.01"),
        ({"score": True}, "score is nothing or a number from 0 to 1, not True"),
        ({"score": "0.5"}, "score is nothing or a number"),
        ({"score": None}, "a PASS has a score"),
        ({"outcome": "ERR"}, "an ERR has no score"),
        ({"outcome": "accepted"}, "outcome is PASS, FAIL or ERR, not 'accepted'"),
        ({"outcome": ["PASS"]}, "outcome is PASS, FAIL or ERR, not a list"),
        ({"model": ""}, "model is a printable name"),
        ({"model": "a" * 10_000}, "model is a printable name"),
        ({"problem": "a\x1b[2J"}, "problem is a printable name"),
        ({"target": None}, "target is a printable name"),
        ({"trial": -1}, "trial is a number from 0"),
        ({"trial": True}, "trial is a number from 0"),
        ({"trial": 10**100}, "trial is a number from 0"),
        ({"leak": 1}, "leak is true or false, not 1"),
        ({"cost": -1.0}, "cost is nothing or a number"),
        ({"spread": math.inf}, "spread is nothing or a number"),
    ],
)
def test_a_row_that_no_trial_can_be_is_one_sentence_that_names_it(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(StatisticsError) as raised:
        read_rows([GOOD, {**GOOD, "trial": 1, **change}])
    assert str(raised.value).startswith(f"row 2: {sentence}")
    assert len(str(raised.value)) < 200 and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([GOOD, GOOD], "row 2: trial 0 of a on p is there twice"),
        (["x" * 10**6], "row 1: a row is a mapping"),
        ([{}], "row 1: model, problem, trial, outcome, target is missing"),
    ],
)
def test_items_that_are_no_rows_are_one_sentence(items: list[object], sentence: str) -> None:
    with pytest.raises(StatisticsError, match=sentence):
        read_rows(items)


def test_more_rows_than_are_read_stop_the_reader_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_ROWS", 100)
    endless = ({**GOOD, "trial": number} for number in itertools.count())
    with pytest.raises(StatisticsError, match="more than 100 rows"):
        read_rows(endless)


@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        ([], {}, "there are no rows"),
        ([Row(**GOOD)] * 2, {}, "is there twice"),  # type: ignore[arg-type]
        ([Row(**GOOD), Row(**{**GOOD, "target": "b200"})], {}, "of 2 targets"),  # type: ignore[arg-type]
        ([Row(**GOOD)], {"target": "b200"}, "no row is of the target b200"),  # type: ignore[arg-type]
        ([Row(**{**GOOD, "model": str(n)}) for n in range(201)], {}, "201 models"),  # type: ignore[arg-type]
        ([Row(**{**GOOD, "trial": n}) for n in range(1001)], {}, "1,001 trials"),  # type: ignore[arg-type]
        ([Row(**GOOD)], {"margin": 0.0}, "margin is"),  # type: ignore[arg-type]
        ([Row(**GOOD)], {"level": 1.0}, "level"),  # type: ignore[arg-type]
    ],
)
def test_rows_that_make_no_board_are_one_sentence(rows: list[Row], options: dict[str, object], sentence: str) -> None:
    with pytest.raises(StatisticsError, match=sentence):
        summarise(rows, **options)  # type: ignore[arg-type]


def test_failures_and_leaks_count_as_zero_and_errors_not_at_all() -> None:
    rows = [
        Row("a", "p", 0, "PASS", 0.6, False, "t"),
        Row("a", "p", 1, "FAIL", None, False, "t"),
        Row("a", "p", 2, "PASS", 0.9, True, "t"),
        Row("a", "p", 3, "ERR", None, False, "t", seconds=5.0, cost=2.0),
        Row("a", "q", 0, "PASS", 0.4, False, "t", seconds=1.0),
    ]
    (standing,) = summarise(rows).standings
    assert standing.score == pytest.approx((0.6 / 3 + 0.4) / 2)
    assert (standing.passes.count, standing.leaks.count, standing.failures, standing.errors) == (2, 1, 1, 1)
    assert standing.passes.trials == 4
    assert standing.passes.value == pytest.approx((1 / 3 + 1) / 2)
    assert (standing.seconds, standing.cost) == (6.0, 2.0)


def test_a_problem_weighs_the_same_however_many_trials_it_has() -> None:
    few = summarise(rows_of(("a", "p", [0.2]), ("a", "q", [0.6, 0.6])))
    many = summarise(rows_of(("a", "p", [0.2]), ("a", "q", [0.6] * 40)))
    assert few.standings[0].score == pytest.approx(many.standings[0].score) == pytest.approx(0.4)


@given(st.integers(0, 60), st.integers(1, 60))
def test_wilson_is_scipys(passes: int, trials: int) -> None:
    passes = min(passes, trials)
    known = stats.binomtest(passes, trials).proportion_ci(method="wilson")
    mine = wilson(passes / trials, trials)
    assert (mine.low, mine.high) == pytest.approx((known.low, known.high), abs=1e-9)


def test_trials_on_few_problems_are_worth_fewer_than_their_number() -> None:
    alike = of_rate(np.array([1.0, 1.0, 0.0, 0.0, 1.0, 0.0]), np.full(6, 10))
    mixed = of_rate(np.full(6, 0.5), np.full(6, 10))
    assert alike is not None and mixed is not None
    assert alike.width > 2 * mixed.width
    assert mixed == wilson(0.5, 60)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_an_interval_of_scores_holds_the_mean_and_stays_between_0_and_1(means: list[float]) -> None:
    interval = of_mean(np.array(means))
    assert interval is not None
    mean = float(np.mean(means))
    assert 0 <= interval.low <= mean <= interval.high <= 1
    assert of_mean(np.array(means), 0.5).width <= interval.width  # type: ignore[union-attr]


def test_problems_that_all_gave_nothing_leave_open_what_others_would() -> None:
    interval = of_mean(np.zeros(9))
    assert interval is not None
    assert interval.low == 0
    assert interval.high == pytest.approx(stats.beta.ppf(0.975, 1, 9))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_the_closed_test_of_bonferroni(p: list[float]) -> None:
    """Adjusted p: the worst over all sets of hypotheses with this one, by the least p of the set times its size."""
    adjusted = holm(np.array(p))
    for one in range(len(p)):
        sets = [s for size in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), size) if one in s]
        worst = max(min(1.0, min(p[other] for other in s) * len(s)) for s in sets)
        assert adjusted[one] == pytest.approx(worst)


@USUAL
@given(boards(), st.randoms(use_true_random=False), st.sampled_from(["problems", "deck"]))
def test_the_order_of_the_rows_changes_nothing(rows: list[Row], random: object, over: str) -> None:
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert repr(summarise(rows, over=over)) == repr(summarise(mixed, over=over))  # type: ignore[arg-type]


@USUAL
@given(boards(), st.sampled_from(["problems", "deck"]))
def test_ranks_follow_from_who_is_surely_better_and_order_is_transitive(rows: list[Row], over: str) -> None:
    board = summarise(rows, over=over)  # type: ignore[arg-type]
    rank = {one.model: one for one in board.standings}
    ahead = {(a, b) for a in rank for b in rank if a != b and board.pair(a, b).relation == "ahead"}
    for model, standing in rank.items():
        assert standing.rank == standing.low == 1 + sum(b == model for _, b in ahead)
        assert standing.high == len(rank) - sum(a == model for a, _ in ahead)
        assert standing.low <= standing.rank <= standing.high
    for a, b in ahead:
        assert rank[a].rank < rank[b].rank and rank[a].high < rank[b].high
        assert rank[a].score > rank[b].score  # type: ignore[operator]
        assert board.pair(b, a).relation == "behind"
        assert all((a, c) in ahead for c in rank if (b, c) in ahead)
    assert not rank or min(one.rank for one in board.standings) == 1
    render(board)


@USUAL
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 9), st.floats(0.001, 0.4), st.data())
def test_a_model_whose_trials_all_score_more_by_the_same_never_gets_a_worse_rank(
    seed: int, models: int, problems: int, more: float, data: st.DataObject
) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(0, 0.02, (models, problems, 3)) + random.normal(0.3, 0.05, (models, 1, 1))
    values = np.clip(values + random.normal(0, 0.05, (1, problems, 1)), 0.0, 0.6)
    over = data.draw(st.sampled_from(["problems", "deck"]))
    lifted = data.draw(st.integers(0, models - 1))
    better = values.copy()
    better[lifted] += more
    before, after = board_of(values, over=over), board_of(better, over=over)
    name = f"m{lifted:02}"
    rank = [next(one for one in board.standings if one.model == name) for board in (before, after)]
    assert rank[1].rank <= rank[0].rank
    assert rank[1].high <= rank[0].high
    assert rank[1].score > rank[0].score  # type: ignore[operator]


def test_models_with_the_same_rows_share_a_rank_and_are_the_same() -> None:
    values = np.random.default_rng(1).uniform(0.2, 0.6, (1, 9, 3)).repeat(3, axis=0)
    board = board_of(values)
    assert [one.rank for one in board.standings] == [1, 1, 1]
    assert {pair.relation for pair in board.pairs} == {"same"}


def test_a_model_that_never_scored_is_the_same_as_none_until_many_problems_say_so() -> None:
    random = np.random.default_rng(11)
    for problems, relation in ((9, "cannot tell"), (120, "cannot tell"), (250, "same")):
        values = np.zeros((3, problems, 3))
        values[0] = random.uniform(0.0001, 0.0002, (problems, 3))
        board = board_of(values)
        assert {pair.relation for pair in board.pairs} - {"ahead"} == {relation}
        values[1:, 0, :] = 0.0001  # once each has scored, the differences tell
        assert board_of(values).pair("m01", "m02").relation == "same"


def test_a_lead_on_every_problem_is_sure_and_one_on_some_is_not() -> None:
    random = np.random.default_rng(3)
    base = random.uniform(0.2, 0.5, (1, 9, 1)) + random.normal(0, 0.01, (3, 9, 3))
    base[0] += 0.1
    base[1] += np.where(np.arange(9) % 2, 0.15, -0.12)[:, None]
    board = board_of(base)
    assert board.pair("m00", "m02").relation == "ahead"
    assert board.pair("m01", "m02").relation == "cannot tell"
    assert board.pair("m01", "m02").sentence == "cannot tell, needs more problems"


def test_the_trials_that_are_asked_for_tell_in_four_of_five_boards() -> None:
    random = np.random.default_rng(4)

    def drawn(trials: int) -> np.ndarray:
        values = random.normal(0.3, 0.08, (2, 16, trials))
        values[0] += 0.03
        return np.clip(values, 0, 1)

    asked = [pair for _ in range(12) for pair in board_of(drawn(2)).pairs if pair.trials is not None]
    assert asked and all(1 <= pair.trials <= MOST_TRIALS for pair in asked)  # type: ignore[operator]
    typical = sorted(pair.trials for pair in asked)[len(asked) // 2]  # type: ignore[type-var]
    told = [board_of(drawn(2 + typical)).pairs[0].relation == "ahead" for _ in range(20)]  # type: ignore[operator]
    assert np.mean(told) >= 0.5


def test_the_deck_tells_apart_what_other_problems_might_not() -> None:
    random = np.random.default_rng(5)
    values = np.clip(random.normal(0.3, 0.01, (2, 6, 5)), 0, 1)
    values[0, :, :] += np.array([0.3, 0.02, -0.05, 0.2, 0.1, -0.02])[:, None]
    assert board_of(values, over="deck").pair("m00", "m01").relation == "ahead"
    assert board_of(values).pair("m00", "m01").relation == "cannot tell"


def test_two_passes_against_two_failures_on_one_problem_are_not_a_sure_lead_over_problems() -> None:
    rows = rows_of(("a", "p", [0.3, 0.3]), ("b", "p", [None, None]))
    assert summarise(rows).pair("a", "b").sentence == "cannot tell, needs more problems"
    assert summarise(rows, over="deck").pair("a", "b").relation == "cannot tell"


def test_single_trials_say_nothing_of_how_many_are_needed() -> None:
    rows = rows_of(*((model, f"p{p}", [0.3 + 0.1 * p * (model == "a")]) for model in "ab" for p in range(4)))
    assert "two trials" in summarise(rows).pair("a", "b").sentence
    assert "two trials" in summarise(rows, over="deck").pair("a", "b").sentence
    assert summarise(rows, over="deck").standings[0].interval is None


def test_a_model_of_which_nothing_can_be_tested_stands_last_and_without_a_rank() -> None:
    values = np.random.default_rng(3).uniform(0.7, 0.8, (2, 9, 3)) * np.array([1.0, 0.5])[:, None, None]
    rows = [("good", f"p{p}", list(values[0, p])) for p in range(9)] + [
        ("fair", f"p{p}", list(values[1, p])) for p in range(9)
    ]
    board = summarise(rows_of(*rows, ("new", "p0", [0.9])))
    assert [(one.model, one.rank, one.ranked) for one in board.standings] == [
        ("good", 1, True), ("fair", 2, True), ("new", 1, False)]  # fmt: skip
    assert [line.split()[0] for line in standing_table(board).splitlines()[1:]] == ["1", "2", "-"]


def test_a_model_is_compared_only_on_problems_that_both_have() -> None:
    random = np.random.default_rng(6)
    easy = [("a", f"easy{p}", list(random.uniform(0.8, 0.9, 3))) for p in range(5)]
    hard = [("b", f"hard{p}", list(random.uniform(0.1, 0.2, 3))) for p in range(5)]
    board = summarise(rows_of(*easy, *hard))
    pair = board.pair("a", "b")
    assert (pair.relation, pair.problems, pair.difference, pair.interval) == ("cannot tell", 0, None, None)
    assert [one.rank for one in board.standings] == [1, 1]
    assert "5 of 10" in render(board)


def test_the_variance_is_split_into_agent_and_clock() -> None:
    random = np.random.default_rng(7)
    score = 0.3 * np.exp(random.normal(0, 0.2, (4, 30, 4)) + random.normal(0, 0.1, (4, 30, 4)))
    rows = [
        Row(f"m{m}", f"p{p}", t, "PASS", float(min(score[m, p, t], 1)), False, "t", spread=0.1)
        for m, p, t in np.ndindex(*score.shape)
    ]
    split = summarise(rows).split
    assert split.agent is not None and split.clock is not None
    assert split.agent.value == pytest.approx(0.2, rel=0.15) and 0.2 in split.agent.interval
    assert split.clock.value == pytest.approx(0.1)
    untold = summarise([replace(row, spread=None) for row in rows]).split
    assert untold.clock is None
    assert untold.agent is not None and untold.agent.value == pytest.approx(math.hypot(0.2, 0.1), rel=0.15)


def test_trials_that_differ_by_less_than_the_clock_leave_nothing_to_the_agent() -> None:
    split = summarise(rows_of(("a", "p", [0.5, 0.501, 0.499]), ("a", "q", [0.3, 0.3003]), spread=0.05)).split
    assert split.agent is not None
    assert (split.agent.value, split.agent.interval.low) == (0.0, 0.0)


def test_the_bootstrap_is_seeded_and_centred_and_twenty_models_take_less_than_two_seconds() -> None:
    rows, _ = draw(Scenario("board", 20, 9, 3), np.random.default_rng(8))
    layout = lay_out(rows)
    started = time.process_time()
    scores = resampled_scores(layout, 1)
    assert time.process_time() - started < 2
    assert scores.shape == (10_000, 20)
    assert np.allclose(scores.mean(axis=0), np.nanmean(layout.means, axis=1), atol=0.01)
    assert np.array_equal(scores, resampled_scores(layout, 1))
    assert not np.array_equal(scores, resampled_scores(layout, 2))
    with pytest.raises(StatisticsError, match="resamples are 1 to"):
        resampled_scores(layout, 1, 10**9)


def test_the_bootstrap_draws_only_trials_that_there_are() -> None:
    layout = lay_out(rows_of(("a", "p", [0.5, 0.5, 0.5]), ("a", "q", [0.5]), ("b", "p", [0.2])))
    scores = resampled_scores(layout, 1, 200)
    assert np.allclose(scores[:, 0], 0.5)
    assert set(np.round(scores[~np.isnan(scores[:, 1]), 1], 9)) == {0.2}
    assert np.isnan(scores[:, 1]).any()


def test_the_simulated_truth_is_what_many_draws_come_to() -> None:
    scenario = Scenario("many", 1, 1500, 4, talent=0.0, session=0.5, passes=0.5, clock=0.08)
    rows, truth = draw(scenario, np.random.default_rng(9))
    layout = lay_out(rows)
    assert float(layout.means.mean()) == pytest.approx(float(truth.scores[0]), rel=0.04)
    assert float(layout.means.mean()) == pytest.approx(float(truth.deck[0]), rel=0.03)
    assert float(layout.pass_rates.mean()) == pytest.approx(float(truth.passes[0]), rel=0.03)
    assert float(layout.leak_rates.mean()) == pytest.approx(truth.leaks, rel=0.25)


def test_the_stored_coverage_is_within_its_bounds_and_of_a_thousand_boards() -> None:
    figures = json.loads(STORED.read_text())
    assert figures["boards"] >= 1_000
    assert [scenario["name"] for scenario in figures["scenarios"]] == [scenario.name for scenario in SCENARIOS]
    assert outside(figures) == []
    known = {claim.name for claim in CLAIMS}
    assert {name for scenario in figures["scenarios"] for name in scenario["hits"]} == known
    spoiled = json.loads(STORED.read_text())
    spoiled["scenarios"][0]["hits"]["score"] = [1000, 900]
    assert len(outside(spoiled)) == 1
    assert "| 90.0 |" in tables(spoiled)


def test_the_stored_coverage_is_of_this_code() -> None:
    done = subprocess.run(
        [sys.executable, "bench/coverage.py", "--first"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_reading_rows_and_making_the_pages_needs_neither_numpy_nor_scipy() -> None:
    code = (
        "import sys; import harness.statistics.rows, harness.statistics.coverage_page, tools.tables, kbh_lint.cli;"
        "sys.exit(any(name in sys.modules for name in ('numpy', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_text_says_what_the_board_does() -> None:
    rows, _ = draw(SCENARIOS[0], np.random.default_rng(10))
    board = summarise(rows)
    text = render(board)
    for standing in board.standings:
        assert f"{standing.model}  {standing.score:.3f}" in text
    assert text.count("\n") > len(board.pairs) + len(board.standings)
    assert all(pair.sentence in text for pair in board.pairs)
    assert "between sessions" in text
    assert max(map(len, text.splitlines())) < 140


def test_a_model_of_which_nothing_is_known_has_no_rank_in_the_text() -> None:
    rows = [*rows_of(("a", "p", [0.3, 0.4]), ("a", "q", [0.5, 0.4])), Row("b", "p", 0, "ERR", None, False, "h200")]
    board = summarise(rows)
    assert board.standings[-1].score is None
    assert "   -  b " in render(board)
