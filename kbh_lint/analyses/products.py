"""Which matrix products make the result, where they run and on which element types."""

from __future__ import annotations

from collections.abc import Mapping

from kbh_lint.analyses.flow import Root, Slice, Step, facts_of, is_product, roots
from kbh_lint.base import ir
from kbh_lint.base.dtypes import BITS, FLOATS, NARROW, is_wider
from kbh_lint.base.records import dataclass
from kbh_lint.host.values.tensors import Content, Event
from kbh_lint.kernels.core.facts import KernelFacts, Origins, Product


@dataclass(frozen=True, slots=True)
class ProductUse:
    """One product on the way to the result of one shape.

    where: kernel (authored), cutlass (a template-built kernel), library. `operands` are the element types it runs on,
    `inputs` the names of inputs and state that feed it, `narrow` those of them that it holds in a narrow type.
    `upcast`: a narrow operand runs on a wider type. `steps` are the conversions that made it so. `accumulator` is "?"
    where the library chooses it; `mode` is how fp32 operands are multiplied where the kernel says so. `narrowed` names
    the inputs and state that enter in fewer bits than the contract holds them in. `sides`: the names that feed each of
    the operands, where it is known which feed which.
    """

    where: str
    engine: str
    operands: tuple[str, str]
    inputs: tuple[str, ...]
    narrow: tuple[str, ...]
    upcast: bool
    steps: tuple[Step, ...]
    loc: ir.Loc | None
    event: Event
    flops: int | None
    rows: int | None = None
    unpacked: tuple[ir.Loc | None, ...] = ()
    unpacked_before: bool = False
    compiled: bool = False
    opcode: str = ""
    accumulator: str = "?"
    mode: str = ""
    narrowed: tuple[str, ...] = ()
    sides: tuple[tuple[str, ...], ...] = ()


def products(found: Slice) -> list[ProductUse]:
    """The matrix products among the events of the backward slice `found`."""
    out: list[ProductUse] = []
    for event in found.events:
        if not is_product(event):
            continue
        if event.kind == "launch":
            out.extend(_of_launch(event))
        else:
            out.append(_of_library(event))
    return out


def _roots_of(contents: list[Content]) -> list[Root]:
    return [root for content in contents for root in roots(content)]


def _narrow(found: list[Root]) -> list[Root]:
    return [r for r in found if r.content.dtype in NARROW]


def _narrowed(found: list[Root], operand: str) -> set[str]:
    """Those of the floating-point roots that have more bits than the operand they become."""
    bits = effective_bits(operand)
    if bits is None:
        return set()
    return {r.name for r in found if r.content.dtype in FLOATS and BITS[r.content.dtype] > bits}


def effective(dtype: str, mode: str) -> str:
    """The element type on which an operand of type `dtype` is multiplied: a Triton dot of fp32 operands runs on tf32,
    which drops their low 13 bits, unless `mode` says otherwise."""
    return "tf32" if dtype == "f32" and mode == "tf32" else dtype


def effective_bits(dtype: str) -> int | None:
    """The number of bits of `dtype` that carry a value: 19 for tf32, although it is stored in 32; None for an unknown
    type."""
    return 19 if dtype == "tf32" else BITS.get(dtype)


def _of_library(event: Event) -> ProductUse:
    found = _roots_of([content for content, _ in event.reads])
    operands = tuple(event.attrs.get("operands", ()))[:2]
    if len(operands) < 2:
        operands = (*operands, *("?",) * (2 - len(operands)))
    narrow = _narrow(found)
    widest = max(operands, key=lambda t: BITS.get(t, 64))  # which operand is whose is not known
    wide = bool(narrow) and any(all(is_wider(o, r.content.dtype) for r in narrow) for o in operands)
    steps = tuple(dict.fromkeys(s for r in narrow for s in r.steps))
    cutlass = event.attrs.get("cutlass")
    opened = [u for r in found for u in r.unpacked]
    if cutlass is not None and any(BITS.get(operand) == 4 for operand in operands):
        opened.append(cutlass.element_loc or event.loc)  # its main loop widens packed numbers in registers
    return ProductUse(
        where="cutlass" if event.kind == "cutlass" else "library",
        engine="cutlass" if event.kind == "cutlass" else str(event.attrs.get("symbol", event.name)),
        operands=(operands[0], operands[1]),
        inputs=tuple(sorted({r.name for r in found})),
        narrow=tuple(sorted({r.name for r in narrow})),
        upcast=wide,
        steps=steps,
        loc=cutlass.element_loc if cutlass is not None and cutlass.element_loc is not None else event.loc,
        event=event,
        flops=event.attrs.get("flops"),
        unpacked=tuple(opened),
        unpacked_before=any(r.unpacked for r in found),
        compiled=bool(event.attrs.get("compiled")),
        narrowed=tuple(sorted(_narrowed(found, widest))),
    )


def _casts_of(facts: KernelFacts, product: Product, narrow: list[tuple[Root, str]]) -> list[Step]:
    """The conversions inside a kernel on the way to a product of widened operands."""
    root, wide = next((r, dtype) for r, dtype in narrow if is_wider(dtype, r.content.dtype))
    known = {cast.loc: (cast.source, cast.target) for cast in facts.casts if cast.source in NARROW}
    return [Step(loc, *known.get(loc, (root.content.dtype, wide)), "kernel") for loc in product.casts]


def _of_launch(event: Event) -> list[ProductUse]:
    out: dict[tuple[object, ...], ProductUse] = {}
    seen: set[tuple[object, ...]] = set()  # what tells uses apart follows from these
    known: dict[Origins, _From] = {}  # what unrolled products share: where a side comes from
    for facts in facts_of(event):
        for product in facts.products:
            operands = (product.a, product.b, product.a_origins, product.b_origins)
            asked = (product.kind, *operands, product.loc, product.accumulator, product.mode)
            if asked in seen:
                continue
            seen.add(asked)
            for origins in (product.a_origins, product.b_origins):
                if origins not in known:
                    known[origins] = _from(origins, event)
            use = _use(event, facts, product, known)
            out.setdefault((use.engine, use.operands, use.loc, use.inputs, use.upcast, use.accumulator, use.mode), use)
    return _without_remainders(list(out.values()))


_From = tuple[list[Root], bool]  # where an operand comes from, and whether it was unpacked on the way


def _from(origins: Origins, event: Event) -> _From:
    held: dict[int, Content] = event.attrs["contents"]
    plain = [o for o in origins if "index" not in o.flags and "product" not in o.flags]
    return [r for o in plain if o.storage in held for r in roots(held[o.storage])], any(
        "unpack" in o.flags for o in plain
    )


def _use(event: Event, facts: KernelFacts, product: Product, known: Mapping[Origins, _From]) -> ProductUse:
    """One product of a kernel, by where its operands come from."""
    (left, first_unpacked), (right, second_unpacked) = known[product.a_origins], known[product.b_origins]
    sides = ((left, product.a), (right, product.b))
    narrow = [(r, dtype) for found, dtype in sides for r in _narrow(found)]
    every = [*left, *right]
    upcast = any(is_wider(dtype, r.content.dtype) for r, dtype in narrow)
    steps = list(dict.fromkeys(s for r, _ in narrow for s in r.steps))
    if upcast:
        steps += _casts_of(facts, product, narrow)
    lost = [n for found, dtype in sides for n in _narrowed(found, effective(dtype, product.mode))]
    return ProductUse(
        where="kernel",
        engine=product.kind,
        operands=(product.a, product.b),
        inputs=tuple(sorted({r.name for r in every})),
        narrow=tuple(sorted({r.name for r, _ in narrow})),
        upcast=upcast,
        steps=tuple(steps[:8]),
        loc=product.loc,
        event=event,
        flops=None,
        rows=product.rows,
        unpacked=tuple(u.loc for u in facts.unpacks)[:4] if first_unpacked or second_unpacked else (),
        unpacked_before=any(r.unpacked for r in every),
        compiled=False,
        opcode=product.opcode,
        accumulator=product.accumulator,
        mode=product.mode,
        narrowed=tuple(sorted(set(lost))),
        sides=tuple(sorted(tuple(sorted({r.name for r in found})) for found, _ in sides)),
    )


def _without_remainders(uses: list[ProductUse]) -> list[ProductUse]:
    """Scalar multiply-adds beside a narrow product of the same inputs are its ragged tail, not another product."""
    on_narrow = {n for u in uses if u.engine != "fma" and set(u.operands) <= NARROW for n in u.narrow}
    return [u for u in uses if not (u.engine == "fma" and u.narrow and set(u.narrow) <= on_narrow)]
