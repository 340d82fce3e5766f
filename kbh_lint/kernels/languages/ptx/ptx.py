"""What PTX instructions of inline assembly do to abstract values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from kbh_lint.base import dtypes, ir
from kbh_lint.frontends import ptx
from kbh_lint.kernels.core.joins import mix
from kbh_lint.kernels.core.numbers import is_nibble_mask
from kbh_lint.kernels.core.origins import choosing, data_origins, flagged, union
from kbh_lint.kernels.core.run import Run
from kbh_lint.kernels.core.value import NOTHING, TWIDDLED, UNKNOWN_V, Mul, V, in_order, offset_of
from kbh_lint.kernels.languages.ptx import cache_policy
from kbh_lint.kernels.languages.ptx.ptx_products import Registers, dp4a, mma, tcgen05, wgmma
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.languages.cuda.run import CudaRun

_BIT_TYPES = {"b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "b128": "u32", "pred": "bool"}


def run_asm(machine: CudaRun, node: ir.Asm) -> None:
    """Executes an inline asm statement: assigns its outputs, reads and writes memory."""
    outputs = [(constraint, machine.expressions.eval(expr)) for constraint, expr in node.outputs]
    inputs = [machine.expressions.eval(expr) for _, expr in node.inputs]
    text = node.template.value if isinstance(node.template, ir.Const) else None
    if not isinstance(text, str):
        value = machine.expressions.eval(node.template)
        text = value.const if isinstance(value.const, str) else None
    registers = Registers(machine, [value for _, value in outputs] + inputs, node.loc)
    for position, (constraint, _) in enumerate((*node.outputs, *node.inputs)):
        if constraint.startswith("["):
            registers.by_name[constraint[1 : constraint.find("]")]] = position
    if text is None:
        machine.facts.unread("assembly whose text is not known", node.loc)
        made = machine.memory.havoc(registers.operands, "?", node.loc)
        for _, expr in node.outputs:
            machine.names.assign(expr, made)
        return
    execute(registers, text, node.template if isinstance(node.template, ir.Const) else None)
    for position, (_, expr) in enumerate(node.outputs):
        if position in registers.written:
            _assign(machine, expr, outputs[position][1], registers.operands[position])


def _assign(machine: CudaRun, expr: ir.Expr, old: V, value: V) -> None:
    """Gives a C++ variable the bits of a register: its declared type stays."""
    if old.dtype in dtypes.BITS and value.dtype != old.dtype:
        value = machine.numbers.bitcast(value, old.dtype, machine.place)
    machine.names.assign(expr, value.with_(const=NOTHING, ct=old.ct))


@lru_cache(maxsize=512)
def _parsed(text: str) -> tuple[ptx.Instr, ...]:
    return tuple(ptx.parse(text))


def execute(registers: Registers, text: str, template: ir.Const | None = None) -> None:
    """Executes the instructions of an asm text in order. `template` is the C++ string of the text; products are
    reported at their place inside it."""
    whole = registers.loc
    for instr in _parsed(text):
        registers.m.step()
        if template is not None:
            product = instr.opcode in _PRODUCTS
            registers.loc = template.loc[0].within(template, instr.offset, len(instr.opcode)) if product else whole
        guard = instr.guard
        test = UNKNOWN_V if guard is None else registers.read(guard)
        with registers.m.sides.hanging(test, registers.loc, not getattr(guard, "negated", False)):
            _step(registers, instr)
    registers.loc = whole


def _step(registers: Registers, instr: ptx.Instr) -> None:
    handler = _HANDLERS.get(instr.opcode)
    if handler is not None:
        handler(registers, instr)
    else:
        registers.m.facts.unread(f"the PTX instruction {instr.opcode}", registers.loc)
        _copy(registers, instr)


def _type(instr: ptx.Instr, *, last: bool = True) -> str:
    """The element type in the opcode; raw bits are unsigned integers."""
    order = reversed(instr.modifiers) if last else instr.modifiers
    for modifier in order:
        found = _BIT_TYPES.get(modifier) or dtypes.from_ptx(modifier)
        if found:
            return found
    return "?"


def _inputs(r: Registers, instr: ptx.Instr) -> list[V]:
    return [r.read(operand) for operand in instr.operands[1:]]


def _copy(r: Registers, instr: ptx.Instr) -> None:
    if not instr.operands:
        return
    found = [v for v in _inputs(r, instr) if v.origins or v.cells or v.const is NOTHING] or _inputs(r, instr)[:1]
    if not found:
        return
    if len(found) == 1 and instr.opcode in ("mov", "cvta"):
        r.write(instr.operands[0], found[0])
        return
    value = mix(found)
    if instr.opcode in ("max", "min"):
        value = value.with_(origins=flagged(value.origins, "max"))
    r.write(instr.operands[0], value)


def _bit_operation(r: Registers, instr: ptx.Instr) -> None:
    if not instr.operands:
        return
    found = _inputs(r, instr)
    value = mix([v for v in found if v.origins or v.cells] or found[:1])
    if not data_origins(value.origins):
        r.write(instr.operands[0], value)
        return
    narrow = value.content not in dtypes.FLOATS
    masks = [v.const for v in found if isinstance(v.const, int)]
    if (
        narrow
        and instr.opcode in ("lop3", "and")
        and any(is_nibble_mask(mask) for mask in masks)
        or narrow
        and instr.opcode == "bfe"
        and masks
        and masks[-1] == 4
    ):
        value = r.m.facts.add_unpack(value, r.loc)
    dtype = _type(instr)
    value = value.with_(dtype=dtype if dtype in dtypes.INTS else "u32", x=TWIDDLED)
    r.write(instr.operands[0], value)


def _load(r: Registers, instr: ptx.Instr) -> None:
    if len(instr.operands) < 2:
        return
    if instr.opcode == "ldmatrix":
        dtype = "u32"
    else:
        dtype = _type(instr)
    address = r.read(instr.operands[1])
    if cache_policy.hinted(r, instr):
        r.m.facts.add_hint(address, r.loc)
    r.write(instr.operands[0], r.m.memory.load(address, dtype, r.loc))


def _store(r: Registers, instr: ptx.Instr) -> None:
    if len(instr.operands) < 2 or not isinstance(instr.operands[0], ptx.Mem):
        return
    value = r.read(instr.operands[1])
    dtype = _type(instr)
    if dtype in dtypes.FLOATS and value.dtype != dtype:
        value = r.m.numbers.bitcast(value, dtype, r.loc)
    if instr.opcode in ("red", "atom", "multimem"):
        value = r.m.products.add_in_memory(value, dtype, r.loc).with_(const=NOTHING)
    r.m.memory.store(r.read(instr.operands[0]).with_(dtype=value.dtype), value, r.loc, raw=True)


def _atomic(r: Registers, instr: ptx.Instr) -> None:
    if len(instr.operands) < 3 or not isinstance(instr.operands[1], ptx.Mem):
        _store(r, instr)
        return
    inner = ptx.Instr(instr.opcode, instr.modifiers, instr.operands[1:], None, instr.offset)
    _store(r, inner)
    r.write(instr.operands[0], r.m.memory.load(r.read(instr.operands[1]), _type(instr), r.loc))


def copy_bytes(m: Run, target: V, source: V, loc: ir.Loc) -> None:
    """Copies what lies behind `source` to `target`; the copied data keeps its element types."""
    for cell in in_order(source.cells):
        value = m.memory.read_cell(cell, cell.content if cell.kind == "param" else "?", loc, offset_of(source))
        if value is None:
            continue
        if source.origins:
            value = value.with_(origins=union(value.origins, flagged(source.origins, "index")))
        for place in target.cells:
            m.memory.write_cell(place, value, loc, value.dtype, offset_of(target))


def _copy_async(r: Registers, instr: ptx.Instr) -> None:
    places = [operand for operand in instr.operands if isinstance(operand, ptx.Mem)]
    if len(places) < 2:
        return
    target, source = r.read(places[0]), r.read(places[1])
    if cache_policy.hinted(r, instr):
        r.m.facts.add_hint(source, r.loc)
    copy_bytes(r.m, target, source, r.loc)


def _convert(r: Registers, instr: ptx.Instr) -> None:
    types = [t for t in (_BIT_TYPES.get(m) or dtypes.from_ptx(m) for m in instr.modifiers) if t]
    if len(types) < 2 or len(instr.operands) < 2:
        _copy(r, instr)
        return
    target, source = types[0], types[-1]
    if instr.opcode == "cvt" and source not in dtypes.FLOATS and target not in dtypes.FLOATS:
        _copy(r, ptx.Instr("mov", (), instr.operands[:2], None, instr.offset))
        return
    made = []
    for value in _inputs(r, instr):
        if value.dtype != source:
            value = r.m.numbers.bitcast(value, source, r.loc)
        if value.content != source and source in dtypes.FLOATS and data_origins(value.origins):
            value = value.with_(dtype=source, content=source, x=None)
        made.append(r.m.numbers.convert(value, target, r.loc))
    result = mix(made)
    packed = "u32" if any(m.endswith(("x2", "x4")) for m in instr.modifiers) else target
    r.write(instr.operands[0], result.with_(dtype=packed, content=target, x=None))


def _arithmetic(r: Registers, instr: ptx.Instr) -> None:
    """add, sub, mul, mad, fma."""
    if len(instr.operands) < 3:
        return
    dtype = _type(instr)
    found = []
    for value in _inputs(r, instr):
        if dtype in dtypes.FLOATS and value.dtype != dtype and value.const is NOTHING:
            value = r.m.numbers.bitcast(value, dtype, r.loc)
        found.append(value)
    if instr.opcode in ("fma", "mad") and len(found) > 2:
        made = multiply_add(r.m, found[0], found[1], found[2], r.loc, in_loop=True)
    else:
        op = {"mul": "*", "add": "+", "sub": "-"}.get(instr.opcode, "+")
        made = r.m.numbers.binary(op, found[0], found[1], r.loc)
    packed = any(m.endswith("x2") for m in instr.modifiers)
    if packed and made.dtype in dtypes.FLOATS:
        made = made.with_(dtype="u32", content=dtype)
    r.write(instr.operands[0], made)


def multiply_add(m: Run, a: V, b: V, c: V, loc: ir.Loc, *, in_loop: bool) -> V:
    """The value of `a * b + c`, recorded as an accumulation unless `c` is loaded data that nothing was added to yet."""
    product = m.numbers.binary("*", a, b, loc)
    settled = all(o.flags & {"product", "reduce", "index"} for o in c.origins) and not isinstance(c.x, Mul)
    if settled and isinstance(product.x, Mul):
        product = m.products.accumulate(c, product, product.dtype, loc, in_loop)
    return m.numbers.binary("+", product, c, loc)


def _nothing(r: Registers, instr: ptx.Instr) -> None:
    """Barriers and the like: no register gets another value."""


def _compare(r: Registers, instr: ptx.Instr) -> None:
    """A predicate: what it says hangs on the data that was compared, of which it carries nothing."""
    if instr.operands:
        r.write(instr.operands[0], V("bool", "bool", choosing(mix(_inputs(r, instr)).origins)))


def _barrier(r: Registers, instr: ptx.Instr) -> None:
    r.m.memory.alone = False


def _ex2(r: Registers, instr: ptx.Instr) -> None:
    value = mix(_inputs(r, instr))
    r.write(instr.operands[0], value.with_(origins=flagged(value.origins, "exp")))


_PRODUCTS = frozenset({"mma", "wmma", "wgmma", "tcgen05"})
_HANDLERS: dict[str, Callable[[Registers, ptx.Instr], None]] = spelled(
    OPERATIONS,
    "ptx",
    {
        "load": _load, "store": _store, "reduce_in_place": _store, "atomic_in_place": _atomic, "copy": _copy_async,
        "cvt": _convert, "add": _arithmetic, "sub": _arithmetic, "mul": _arithmetic, "fma": _arithmetic, "div": _copy,
        "exp2": _ex2, "tanh": _ex2, "cache_policy": cache_policy.create, "prefetch": cache_policy.prefetch, "mma": mma,
        "wgmma": wgmma, "tcgen05": tcgen05, "dot_of_bytes": dp4a, "address": _copy, "shuffle": _copy, "redux": _copy,
        "register": _copy, "register_elsewhere": _copy, "byte_perm": _bit_operation, "funnel": _bit_operation,
        "bitwise": _bit_operation, "barrier": _barrier, "set_predicate": _compare,
    },
    {
        "function": lambda op: _copy,
        "extreme": lambda op: _copy,
        "bits": lambda op: _copy,
        "control": lambda op: _nothing,
    },
)  # fmt: skip
