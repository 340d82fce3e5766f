# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""Drawing tensors from the `domain` of their entry in problem.yaml.

Tensors that belong together come from one latent: a weight and the scale of its rows, a packed weight and the scales
and zero points of its groups. The latent's key is that of the tensor which the others name with `of`.
docs/problem-format.md lists the kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from grader.deck.code import TORCH_DTYPES, DeckError
from kbh_lint.base import dtypes
from kbh_lint.base.formulas import FormulaError, Value, evaluate
from kbh_lint.problems import ArgSpec, StateSpec, TensorSpec

__all__ = ["KINDS", "draw", "rescale"]

CHUNK = 1 << 26
INT4_MAX = 15
NOT_FILLED = frozenset(TORCH_DTYPES[name] for name in dtypes.NARROW & TORCH_DTYPES.keys())  # torch draws none in them


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor to draw: its contract entry's domain (with `when` decided) and its concrete element type and sizes."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    domain: Mapping[str, Any]

    def fail(self, message: str) -> DeckError:
        """The error to raise about this domain."""
        return DeckError(f"the domain of `{self.name}` {message}")

    def number(self, key: str, default: float | None = None) -> float:
        """A plain number of the domain."""
        value = self.domain.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fail(f"needs the number `{key}`")
        return float(value)

    @property
    def rows(self) -> tuple[int, int]:
        """(rows, columns): all dimensions but the last one, and the last."""
        return math.prod(self.shape[:-1]), self.shape[-1]


@dataclass
class Group:
    """The tensors that are drawn together: entries by name, latents made so far, and where keys come from."""

    entries: Mapping[str, Entry]
    symbols: Mapping[str, Value]
    seeds: Callable[[str], int]
    device: torch.device
    latents: dict[str, Any] = field(default_factory=dict)

    def generator(self, name: str) -> torch.Generator:
        """The generator of one tensor or latent."""
        return torch.Generator(self.device).manual_seed(self.seeds(name))

    def formula(self, entry: Entry, key: str) -> int:
        """A formula of the domain as a whole number."""
        try:
            value = evaluate(entry.domain.get(key, ""), self.symbols)
        except FormulaError as error:
            raise entry.fail(f"has no value for `{key}`: {error}") from None
        if not isinstance(value, int):
            raise entry.fail(f"needs `{key}` to be a whole number")
        return value

    def other(self, entry: Entry, key: str) -> Entry:
        """The entry that the domain names under `key`; both must be inputs, or both state."""
        name = entry.domain.get(key)
        if not isinstance(name, str) or name not in self.entries:
            raise entry.fail(f"needs `{key}` to name a tensor beside it")
        return self.entries[name]


def draw(
    specs: Sequence[ArgSpec | StateSpec],
    tensors: Sequence[TensorSpec],
    symbols: Mapping[str, Value],
    seeds: Callable[[str], int],
    device: torch.device,
) -> dict[str, Tensor]:
    """All tensors of one list, inputs or state, by name and in order, on `device`.

    `seeds` gives the seed of a name. Raises DeckError for a domain that is missing, unknown or incomplete.
    """
    entries = {}
    for spec, tensor in zip(specs, tensors, strict=True):
        if tensor.dtype not in TORCH_DTYPES:
            raise DeckError(f"`{spec.name}` is {tensor.dtype}, which torch has no tensors of")
        domain = _decided(spec, spec.domain, symbols)
        entries[spec.name] = Entry(spec.name, TORCH_DTYPES[tensor.dtype], tensor.shape, domain)
    group = Group(entries, symbols, seeds, device)
    drawn = {}
    for entry in entries.values():
        kind = entry.domain.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            raise entry.fail(f"has the kind {kind!r}; known are {', '.join(sorted(KINDS))} and when")
        drawn[entry.name] = KINDS[kind](group, entry)
    return drawn


def rescale(tensor: Tensor, factor: float, what: str) -> Tensor:
    """`tensor` times `factor`, rounded into its element type again. Raises DeckError where that overflows."""
    if not tensor.dtype.is_floating_point:
        raise DeckError(f"{what} scales a tensor of whole numbers")
    scaled = torch.empty_like(tensor)
    limit = torch.finfo(tensor.dtype).max
    for source, target in zip(_chunks(tensor), _chunks(scaled), strict=True):
        values = source.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32) * factor
        if float(values.abs().max()) > limit:
            raise DeckError(f"{what} scales a tensor by {factor:g}, beyond what its element type holds")
        target.copy_(values)
    return scaled


def _chunks(tensor: Tensor) -> tuple[Tensor, ...]:
    """Views of a dense tensor's elements, so that wide temporaries stay small."""
    flat = tensor.view(-1)
    return (flat,) if flat.numel() <= CHUNK else torch.split(flat, CHUNK)


def _decided(spec: ArgSpec | StateSpec, domain: Mapping[str, Any], symbols: Mapping[str, Value]) -> Mapping[str, Any]:
    """The domain with `when` replaced by the branch that this shape takes."""
    if domain.get("kind") != "when":
        return domain
    flag = symbols.get(str(domain.get("symbol")))
    branch = domain.get("then" if flag else "else")
    if not isinstance(flag, bool) or not isinstance(branch, Mapping):
        raise DeckError(f"the domain of `{spec.name}` needs a flag as `symbol`, `then` and `else`")
    return _decided(spec, branch, symbols)


# --- independent values ------------------------------------------------------------------------------------


def _filled(entry: Entry, device: torch.device, fill: Callable[[Tensor], Tensor], direct: bool) -> Tensor:
    """A new tensor filled chunk by chunk: in its own element type where `direct`, else in fp32 and then rounded."""
    out = torch.empty(entry.shape, dtype=entry.dtype, device=device)
    for part in _chunks(out):
        if direct and entry.dtype not in NOT_FILLED:
            fill(part)
        else:
            part.copy_(fill(torch.empty(part.shape, dtype=torch.float32, device=device)))
    return out


def _uniform(group: Group, entry: Entry) -> Tensor:
    low, high = entry.number("low"), entry.number("high")
    generator = group.generator(entry.name)
    return _filled(entry, group.device, lambda part: part.uniform_(low, high, generator=generator), False)


def _normal(group: Group, entry: Entry) -> Tensor:
    if "scaled-by" in entry.domain:
        scale = group.other(entry, "scaled-by")
        if scale.domain.get("kind") != "row-amax" or group.other(scale, "of") is not entry:
            raise entry.fail(f"is scaled by `{scale.name}`, whose domain must be the row-amax of it")
        latent, factor = _scaled_rows(group, entry, scale)
        return (latent / factor[:, None]).to(entry.dtype).view(entry.shape)
    mean, std = entry.number("mean", 0), entry.number("std")
    generator = group.generator(entry.name)
    values = _filled(entry, group.device, lambda part: part.normal_(mean, std, generator=generator), True)
    if "spikes" in entry.domain:
        _spike(entry, values, generator)
    return values


def _spike(entry: Entry, values: Tensor, generator: torch.Generator) -> None:
    """Put one value at a few random places of each row."""
    spikes = entry.domain["spikes"]
    count, value = spikes.get("count"), spikes.get("value")
    rows, columns = entry.rows
    if type(count) is not int or not isinstance(value, (int, float)) or not 0 < count <= columns:
        raise entry.fail(f"needs `spikes` with a number `value` and a `count` of 1 to {columns}")
    places = torch.rand(rows, columns, device=values.device, generator=generator).topk(count, dim=-1).indices
    values.view(rows, columns).scatter_(1, places, float(value))


def _sigmoid_normal(group: Group, entry: Entry) -> Tensor:
    mean, std = entry.number("mean", 0), entry.number("std", 1)
    generator = group.generator(entry.name)
    return _filled(entry, group.device, lambda part: part.normal_(mean, std, generator=generator).sigmoid_(), False)


def _integers(group: Group, entry: Entry) -> Tensor:
    low, high = group.formula(entry, "low"), group.formula(entry, "high")
    if high <= low:
        raise entry.fail(f"needs `high` above `low`, not {low} and {high}")
    generator = group.generator(entry.name)
    drawn = torch.randint(low, high, entry.shape, generator=generator, device=group.device)
    return drawn.to(entry.dtype)


def _constant(group: Group, entry: Entry) -> Tensor:
    value = evaluate(entry.domain["value"], group.symbols)
    if not isinstance(value, (bool, int, float)):
        raise entry.fail("needs a number or a flag as `value`")
    return torch.full(entry.shape, value, dtype=entry.dtype, device=group.device)


# --- indices -----------------------------------------------------------------------------------------------


def _distinct_pages(group: Group, entry: Entry) -> Tensor:
    pages, wanted = group.other(entry, "of").shape[0], math.prod(entry.shape)
    if wanted > pages:
        raise entry.fail(f"needs {wanted} distinct pages, and there are {pages}")
    order = torch.randperm(pages, generator=group.generator(entry.name), device=group.device)
    return order[:wanted].to(entry.dtype).view(entry.shape)


def _balanced_offsets(group: Group, entry: Entry) -> Tensor:
    """Every row goes to a random part, so that the parts are balanced as a good router's are: not exactly."""
    total, parts = group.formula(entry, "total"), math.prod(entry.shape) - 1
    if len(entry.shape) != 1 or parts < 1 or total < 0:
        raise entry.fail("needs one dimension of two or more, and a `total` that is not negative")
    chosen = torch.randint(parts, (total,), generator=group.generator(entry.name), device=group.device)
    offsets = torch.zeros(parts + 1, dtype=torch.int64, device=group.device)
    offsets[1:] = torch.bincount(chosen, minlength=parts).cumsum(0)
    return offsets.to(entry.dtype)


# --- values that belong together ---------------------------------------------------------------------------


def _scaled_rows(group: Group, weight: Entry, scale: Entry) -> tuple[Tensor, Tensor]:
    """(the wide weight [rows, columns], its scale by row), both fp32."""
    if weight.name not in group.latents:
        generator = group.generator(weight.name)
        wide = torch.empty(weight.rows, dtype=torch.float32, device=group.device)
        wide.normal_(weight.number("mean", 0), weight.number("std"), generator=generator)
        group.latents[weight.name] = wide, wide.abs().amax(dim=1) / scale.number("divisor")
    latent: tuple[Tensor, Tensor] = group.latents[weight.name]
    return latent


def _row_amax(group: Group, entry: Entry) -> Tensor:
    weight = group.other(entry, "of")
    if weight.domain.get("scaled-by") != entry.name or math.prod(entry.shape) != weight.rows[0]:
        raise entry.fail(f"is the scale of `{weight.name}`, which must name it in `scaled-by` and have a row for each")
    return _scaled_rows(group, weight, entry)[1].to(entry.dtype).view(entry.shape)


def _quantised(group: Group, packed: Entry) -> tuple[Tensor, Tensor, Tensor]:
    """(numbers 0 to 15 [K, N], scales [K/group, N], zero points [K/group, N]) of a normal weight, quantised by group.

    Each group of rows is mapped from its own range onto 0 to 15, with the scale as its element type holds it.
    """
    if packed.name not in group.latents:
        size, (half, columns) = packed.domain.get("group"), packed.rows
        rows = 2 * half
        if type(size) is not int or size < 1 or rows % size:
            raise packed.fail(f"needs a `group` that divides its {rows} rows")
        scale, zero = group.other(packed, "scale"), group.other(packed, "zero")
        wide = torch.empty(rows // size, size, columns, dtype=torch.float32, device=group.device)
        wide.normal_(0.0, packed.number("std"), generator=group.generator(packed.name))
        low, high = wide.amin(dim=1).clamp_(max=0), wide.amax(dim=1).clamp_(min=0)
        step = ((high - low) / INT4_MAX).to(scale.dtype)
        exact = step.float().clamp_min_(torch.finfo(torch.float32).tiny)
        centre = (-low / exact).round_().clamp_(0, INT4_MAX)
        numbers = (wide / exact[:, None]).round_().add_(centre[:, None]).clamp_(0, INT4_MAX)
        group.latents[packed.name] = numbers.view(rows, columns).to(torch.uint8), step, centre.to(zero.dtype)
    latent: tuple[Tensor, Tensor, Tensor] = group.latents[packed.name]
    return latent


def _packed_int4(group: Group, entry: Entry) -> Tensor:
    numbers = _quantised(group, entry)[0]
    return (numbers[0::2] | numbers[1::2] << 4).to(entry.dtype).view(entry.shape)


def _group_part(part: int) -> Callable[[Group, Entry], Tensor]:
    def kind(group: Group, entry: Entry) -> Tensor:
        packed = group.other(entry, "of")
        values: Tensor = _quantised(group, packed)[part]
        if packed.domain.get("scale" if part == 1 else "zero") != entry.name or values.shape != entry.shape:
            raise entry.fail(f"does not belong to `{packed.name}`: its name or its shape is not the one told there")
        return values

    return kind


def _rotary(group: Group, entry: Entry) -> Tensor:
    """Cosine or sine of position times base**(-2i/D), i the channel's place in its half of the row.

    With `spread` the base is drawn between base/2**spread and base*2**spread, the same for all tables of the list.
    """
    if entry.domain.get("of") not in ("cos", "sin") or entry.rows[1] % 2:
        raise entry.fail("needs `of` to be cos or sin, and an even last dimension")
    generator = torch.Generator().manual_seed(group.seeds("rotary base"))
    turn = 2 * float(torch.rand((), generator=generator, dtype=torch.float64)) - 1
    base = entry.number("base") * 2 ** (turn * entry.number("spread", 0))
    rows, columns = entry.rows
    places = torch.arange(0, columns, 2, dtype=torch.float64, device=group.device) / columns
    angles = torch.arange(rows, dtype=torch.float64, device=group.device)[:, None] * base**-places
    half = (angles.cos() if entry.domain["of"] == "cos" else angles.sin()).to(entry.dtype)
    return torch.cat((half, half), dim=1).view(entry.shape)


KINDS: Mapping[str, Callable[[Group, Entry], Tensor]] = {
    "uniform": _uniform,
    "normal": _normal,
    "sigmoid-normal": _sigmoid_normal,
    "integers": _integers,
    "constant": _constant,
    "distinct-pages": _distinct_pages,
    "balanced-offsets": _balanced_offsets,
    "row-amax": _row_amax,
    "packed-int4": _packed_int4,
    "group-scale": _group_part(1),
    "group-zero": _group_part(2),
    "rotary": _rotary,
}
"""How each kind of domain is drawn; `when` is decided before."""
