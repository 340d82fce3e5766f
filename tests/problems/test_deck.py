"""The problem files that are shipped: they load, and their numbers agree with one another."""

import time
from pathlib import Path

import pytest

from kbh_lint.base import dtypes, paths
from kbh_lint.base.architectures import ARCHITECTURES, DECK, GENERATIONS
from kbh_lint.host.explore.loading import value_range
from kbh_lint.problems import Deck, Problem, Target, find_target, hardware, load_deck, load_problem, load_targets

GRADED = tuple(name for name, problem in load_deck(paths.problems_dir()).items() if problem.status == "graded")


@pytest.fixture(scope="module")
def deck() -> Deck:
    return load_deck(paths.problems_dir())


@pytest.fixture(scope="module")
def targets() -> dict[str, Target]:
    return load_targets(paths.problems_dir() / "hardware.yaml")


@pytest.fixture(params=GRADED)
def problem(request: pytest.FixtureRequest, deck: Deck) -> Problem:
    return deck[request.param]


def test_the_deck_holds_graded_problems_and_one_that_is_deferred_with_a_reason(deck: Deck) -> None:
    assert len(GRADED) >= 9
    deferred = deck["08_metal_lightning_attention"]
    assert (deferred.status, deferred.contracts, deferred.shapes) == ("deferred", {}, ())
    assert "Apple" in deferred.reason


def test_every_contract_binds_at_every_shape(problem: Problem) -> None:
    for contract in problem.contracts.values():
        for shape in problem.shapes:
            binding = contract.bind(shape)
            tensors = (*binding.inputs, *binding.state.values(), *binding.outputs)
            assert list(binding.init) == list(contract.init)
            assert all(size > 0 for tensor in tensors for size in tensor.shape)


def test_compulsory_bytes_are_those_of_inputs_weights_and_outputs_where_all_are_touched(deck: Deck) -> None:
    for problem_id in ("01_fp8_gemm", "04_kahan_softmax", "06_sonic_moe_swiglu", "10_patch_embed_conv3d_gemm"):
        problem = deck[problem_id]
        for shape in problem.shapes:
            binding = problem.contracts["deck"].bind(shape)
            total = 0.0
            for tensor in (*binding.inputs, *binding.state.values(), *binding.outputs):
                count = 1
                for size in tensor.shape:
                    count *= size
                total += count * dtypes.BITS[tensor.dtype] / 8
            # Scales and offsets are small; the formulas leave them out.
            assert problem.work(shape)[1] == pytest.approx(total, rel=1e-3)


def test_the_fp8_problem_has_two_contracts_that_a_model_can_be_told_apart_by(deck: Deck) -> None:
    problem = deck["01_fp8_gemm"]
    deck_state: dict[str, str | None] = {"weight": "e4m3", "weight_scale": "f32"}
    cases: list[tuple[dict[str, str | None], str]] = [
        (deck_state, "deck"),
        ({"weight": "bf16"}, "original"),
        ({"weight": "bf16", "_workspace": "f32"}, "original"),
        ({**deck_state, "_padded": "bf16"}, "deck"),
        ({}, "deck"),
        ({"weight": None, "weight_scale": None}, "deck"),
        ({"weight": None}, "original"),
    ]
    for registered, expected in cases:
        contract = problem.match(registered)
        assert contract is not None
        assert contract.id == expected, registered


def test_a_promise_is_named_once_a_contract(deck: Deck) -> None:
    problem = deck["01_fp8_gemm"]
    for contract in problem.contracts:
        ids = [promise.id for promise in problem.promises_for(contract)]
        assert ids == ["fp8-products", "authored-compute"]
    original = problem.promises_for("original")[0]
    assert original.params["narrow"] == ["x"]


def test_only_the_compensated_sum_is_content_with_some_shapes(deck: Deck) -> None:
    some = {p.id for problem in deck.values() for p in problem.promises if p.quantifier == "some"}
    assert some == {"compensated-sum"}


def test_known_values_are_bound_for_inputs_that_are_the_same_everywhere(deck: Deck) -> None:
    problem = deck["03_paged_attention"]
    binding = problem.contracts["deck"].bind(problem.shapes[3])
    cache, table, lens = binding.inputs[1:]
    assert cache.shape == (16 * 96 + 8, 16, 8, 256)
    assert table.shape == (16, 96)
    assert (lens.dtype, lens.value) == ("i32", 1535)


def test_list_valued_symbols_reach_the_constructor(deck: Deck) -> None:
    problem = deck["09_fmha_preattn_mrope"]
    init = problem.contracts["deck"].bind(problem.shapes[2]).init
    assert init["mrope_section"] == (8, 12, 12)
    assert len(problem.contracts["deck"].output) == 2


def test_the_range_that_analyses_rely_on_covers_spikes_and_both_branches_of_a_flag(deck: Deck) -> None:
    (x,) = deck["04_kahan_softmax"].contracts["deck"].forward
    assert value_range(x.domain) == (-32.0, 32.0)
    assert value_range({"kind": "normal", "std": 1, "spikes": {"count": 4, "value": 30}}) == (-8.0, 30.0)
    assert value_range({"kind": "when", "symbol": "f", "then": {"kind": "free"}, "else": x.domain}) is None


def test_every_problem_names_known_targets(problem: Problem, targets: dict[str, Target]) -> None:
    assert problem.targets
    assert set(problem.targets) <= set(targets)


@pytest.mark.parametrize(
    ("name", "target"),
    [("RTX_PRO_6000", "rtx_pro_6000"), ("H100", "h100_pcie"), ("NVIDIA H200", "h200"), ("a100", None)],
)
def test_targets_are_found_by_the_names_people_use(name: str, target: str | None, targets: dict[str, Target]) -> None:
    found = find_target(targets, name)
    assert (found.id if found else None) == target


def test_a_target_knows_its_compute_capability(targets: dict[str, Target]) -> None:
    found = {name: target.capability for name, target in targets.items()}
    known = {"rtx_pro_6000": 120, "h100_pcie": 90, "h200": 90, "b200": 100, "rtx_3090": 86, "m4_max": None}
    assert known.items() <= found.items()


def test_ids_are_known_without_reading_a_file_and_others_are_not_there(deck: Deck) -> None:
    fresh = load_deck(paths.problems_dir())
    assert "01_fp8_gemm" in fresh
    assert "01_glm52_fused_moe" not in fresh
    with pytest.raises(KeyError):
        fresh["01_glm52_fused_moe"]


def test_a_problem_loads_within_its_share_of_the_start_up_budget() -> None:
    path = paths.problems_dir() / "01_fp8_gemm" / "problem.yaml"
    times = []
    for _ in range(7):
        start = time.perf_counter()
        load_problem(path)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.010


def test_what_follows_from_the_architecture_of_every_nvidia_gpu_is_known(targets: dict[str, Target]) -> None:
    numbers = {10 * major + minor for major, minor in ARCHITECTURES}
    assert {target.capability for target in targets.values() if target.capability is not None} <= numbers
    assert {*DECK, *GENERATIONS} <= set(ARCHITECTURES)


def test_the_file_of_targets_is_not_parsed_for_a_problem_where_nothing_in_it_joins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its comments may speak of what joins."""

    def parsed(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(hardware, "_targets", parsed)
    lines = (paths.problems_dir() / "hardware.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("  offered_with:")]
    (tmp_path / "hardware.yaml").write_text("".join(kept), encoding="utf-8")
    assert hardware.joined(("h200",), tmp_path) == ("h200",)
