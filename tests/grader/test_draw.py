"""Each kind of domain: its values, its dependence on keys, and what is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.deck.code import DeckError
from grader.deck.draw import KINDS, draw, rescale
from kbh_lint.problems import ArgSpec, TensorSpec

SYMBOLS: dict[str, Any] = {"n": 40, "flag": True}
Entry = tuple[str, str, tuple[int, ...], dict[str, Any]]


def seeds(salt: int) -> Callable[[str], int]:
    return lambda name: int.from_bytes(hashlib.sha256(f"{salt}{name}".encode()).digest()[:7], "big")


def make(*entries: Entry, salt: int = 0, symbols: Mapping[str, Any] = SYMBOLS) -> dict[str, Tensor]:
    specs = [ArgSpec(name, dtype, shape, domain) for name, dtype, shape, domain in entries]
    tensors = [TensorSpec(name, dtype, shape) for name, dtype, shape, _ in entries]
    return draw(specs, tensors, symbols, seeds(salt), torch.device("cpu"))


def one(dtype: str, shape: tuple[int, ...], salt: int = 0, **domain: Any) -> Tensor:
    return make(("t", dtype, shape, domain), salt=salt)["t"]


FP8_WEIGHT: tuple[Entry, Entry] = (
    ("weight", "e4m3", (24, 512), {"kind": "normal", "std": 0.02, "scaled-by": "scale"}),
    ("scale", "f32", (24,), {"kind": "row-amax", "of": "weight", "divisor": 448}),
)
INT4_WEIGHT: tuple[Entry, Entry, Entry] = (
    ("w", "u8", (128, 20), {"kind": "packed-int4", "std": 0.02, "group": 64, "scale": "s", "zero": "z"}),
    ("s", "bf16", (4, 20), {"kind": "group-scale", "of": "w"}),
    ("z", "bf16", (4, 20), {"kind": "group-zero", "of": "w"}),
)
SAMPLES: dict[str, tuple[Entry, ...]] = {
    "uniform": (("t", "e4m3", (64, 33), {"kind": "uniform", "low": -4, "high": 4}),),
    "normal": (("t", "bf16", (64, 33), {"kind": "normal", "std": 1}),),
    "spikes": (("t", "f32", (64, 33), {"kind": "normal", "std": 1, "spikes": {"count": 4, "value": 30}}),),
    "sigmoid-normal": (("t", "bf16", (64, 33), {"kind": "sigmoid-normal"}),),
    "integers": (("t", "i64", (64, 33), {"kind": "integers", "low": 0, "high": "n"}),),
    "distinct-pages": (
        ("cache", "bf16", (50, 4), {"kind": "normal", "std": 1}),
        ("t", "i32", (6, 8), {"kind": "distinct-pages", "of": "cache"}),
    ),
    "balanced-offsets": (("t", "i32", (9,), {"kind": "balanced-offsets", "total": "100*n"}),),
    "rotary": (("t", "bf16", (n := 16, 8), {"kind": "rotary", "of": "cos", "base": 10000, "spread": 1}),),
    "fp8 weight": FP8_WEIGHT,
    "int4 weight": INT4_WEIGHT,
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_same_key_gives_the_same_bits_and_another_key_changes_every_tensor(sample: str) -> None:
    first, again, other = (make(*SAMPLES[sample], salt=salt) for salt in (1, 1, 2))
    for name in first:
        assert torch.equal(first[name].view(torch.uint8), again[name].view(torch.uint8))
        assert not torch.equal(first[name].view(torch.uint8), other[name].view(torch.uint8)), name


def test_every_kind_is_tried_here_or_is_constant() -> None:
    tried = {domain["kind"] for sample in SAMPLES.values() for *_, domain in sample}
    assert tried | {"constant"} == set(KINDS)


def test_moments_and_ranges_are_those_of_the_domain() -> None:
    normal = one("f32", (200, 200), kind="normal", mean=-0.05, std=0.1)
    assert (normal.mean().item(), normal.std().item()) == pytest.approx((-0.05, 0.1), abs=0.003)
    uniform = one("e4m3", (200, 200), kind="uniform", low=-4, high=4).float()
    assert (uniform.min().item(), uniform.max().item()) == (-4, 4)
    assert uniform.std().item() == pytest.approx(8 / 12**0.5, abs=0.03)
    steps = one("bf16", (300, 300), kind="sigmoid-normal").float()
    assert 0 < steps.min() < 0.1 < 0.9 < steps.max() <= 1
    numbers = one("i64", (100, 100), kind="integers", low=0, high="n")
    assert (numbers.min().item(), numbers.max().item()) == (0, 39)


def test_a_flag_of_the_shape_chooses_the_domain() -> None:
    domain = {
        "kind": "when",
        "symbol": "flag",
        "then": {"kind": "constant", "value": 7},
        "else": SAMPLES["normal"][0][3],
    }
    assert set(make(("t", "f32", (9,), domain))["t"].tolist()) == {7.0}
    assert make(("t", "f32", (9,), domain), symbols={"flag": False})["t"].unique().numel() == 9


def test_spikes_stand_at_different_places_of_each_row() -> None:
    values = one("f32", (64, 500), kind="normal", std=2, spikes={"count": 4, "value": 30})
    assert (values == 30).sum(dim=1).tolist() == [4] * 64
    assert (values == 30).any(dim=0).sum() > 150


def test_a_scaled_weight_and_its_scale_give_the_wide_weight_back() -> None:
    drawn = make(*FP8_WEIGHT)
    weight, scale = drawn["weight"].float(), drawn["scale"]
    assert weight.abs().amax(dim=1).tolist() == [448.0] * 24
    wide = weight * scale[:, None]
    assert wide.std().item() == pytest.approx(0.02, rel=0.03)


def test_a_packed_weight_its_scales_and_its_zero_points_agree() -> None:
    drawn = make(*INT4_WEIGHT)
    numbers = torch.stack((drawn["w"] & 15, drawn["w"] >> 4), dim=1).flatten(0, 1).float()
    assert set(numbers.unique().tolist()) == set(range(16))
    scales, zeros = (drawn[name].float().repeat_interleave(64, dim=0) for name in "sz")
    wide = (numbers - zeros) * scales
    assert wide.std().item() == pytest.approx(0.02, rel=0.05)
    assert abs(wide.mean().item()) < 0.001
    # A group reaches both ends of its range, which only holds when the nibbles lie in the right rows.
    for group in numbers.view(4, 64, 20).unbind():
        assert (group.amin(dim=0) <= 1).all() and (group.amax(dim=0) >= 14).all()


def test_pages_are_distinct_and_exist() -> None:
    table = make(*SAMPLES["distinct-pages"])["t"]
    assert table.unique().numel() == 48
    assert table.min() >= 0 and table.max() < 50


def test_offsets_rise_from_nothing_to_the_total_and_are_nearly_even() -> None:
    offsets = make(*SAMPLES["balanced-offsets"])["t"]
    counts = offsets.diff()
    assert (offsets[0].item(), offsets[-1].item()) == (0, 4000)
    assert counts.min() > 400 and counts.max() < 600 and counts.unique().numel() > 1


def test_rotary_tables_share_a_base_and_hold_each_frequency_in_both_halves() -> None:
    tables = make(
        ("c", "f64", (30, 16), {"kind": "rotary", "of": "cos", "base": 100, "spread": 1}),
        ("s", "f64", (30, 16), {"kind": "rotary", "of": "sin", "base": 100, "spread": 1}),
    )
    assert torch.allclose(tables["c"] ** 2 + tables["s"] ** 2, torch.ones(30, 16, dtype=torch.float64))
    assert torch.equal(tables["c"][:, :8], tables["c"][:, 8:])
    angles = torch.atan2(tables["s"], tables["c"])[1, :8]
    base = (angles[0] / angles[-1]) ** (8 / 7)
    assert 50 <= base <= 200
    fixed = one("f64", (2, 16), kind="rotary", of="sin", base=100)
    assert fixed[1, 4].item() == pytest.approx(torch.tensor(0.1).sin().item())


@pytest.mark.parametrize(
    ("domain", "told"),
    [
        ({}, "has the kind None"),
        ({"kind": "gaussian"}, "known are"),
        ({"kind": "normal"}, "needs the number `std`"),
        ({"kind": "normal", "std": True}, "needs the number `std`"),
        ({"kind": "normal", "std": 1, "scaled-by": "s"}, "name a tensor beside it"),
        ({"kind": "normal", "std": 1, "spikes": {"count": 99, "value": 1}}, "`count` of 1 to 8"),
        ({"kind": "integers", "low": 3, "high": 3}, "`high` above `low`"),
        ({"kind": "integers", "low": 0, "high": "m"}, "no value for `high`"),
        ({"kind": "distinct-pages", "of": "t"}, "distinct pages, and there are"),
        ({"kind": "balanced-offsets", "total": 8}, "one dimension"),
        ({"kind": "rotary", "of": "tan", "base": 2}, "cos or sin"),
        ({"kind": "when", "symbol": "n", "then": {}, "else": {}}, "needs a flag"),
        ({"kind": "packed-int4", "std": 1, "group": 7, "scale": "t", "zero": "t"}, "divides its 16 rows"),
        ({"kind": "row-amax", "of": "t", "divisor": 2}, "must name it in `scaled-by`"),
    ],
)
def test_a_domain_that_cannot_be_drawn_is_one_sentence(domain: dict[str, Any], told: str) -> None:
    with pytest.raises(DeckError, match=told) as caught:
        one("f32", (8, 8), **domain)
    assert "`t`" in str(caught.value) and "\n" not in str(caught.value)


def test_scaling_rounds_into_the_element_type_again() -> None:
    values = torch.tensor([1.0, 0.3, -3.5]).to(torch.float8_e4m3fn)
    scaled = rescale(values, 0.3, "case")
    assert scaled.dtype == torch.float8_e4m3fn
    assert torch.equal(scaled.float(), (values.float() * 0.3).to(torch.float8_e4m3fn).float())


def test_scaling_that_overflows_or_has_no_meaning_is_refused() -> None:
    with pytest.raises(DeckError, match="beyond what its element type holds"):
        rescale(torch.tensor([400.0]).to(torch.float8_e4m3fn), 2, "large of 01")
    with pytest.raises(DeckError, match="whole numbers"):
        rescale(torch.tensor([4]), 2, "large of 01")
