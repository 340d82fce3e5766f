"""Inline PTX where a kernel is run on numbers: the arithmetic on floating-point registers, for one lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbh_lint.base import dtypes, ir
from kbh_lint.base.values import UNKNOWN, Value
from kbh_lint.frontends import ptx
from kbh_lint.kernels.numeric import math as mathematics
from kbh_lint.kernels.numeric import ops
from kbh_lint.kernels.numeric.builtins import Args, Builtin
from kbh_lint.kernels.numeric.numbers import literal
from kbh_lint.kernels.numeric.state import CType, Frame, Ptr
from kbh_lint.ops.catalogue import OPERATIONS
from kbh_lint.ops.operation import spelled

if TYPE_CHECKING:
    from kbh_lint.kernels.numeric.machine import Machine

_MAX_INSTRUCTIONS = 256
_OPERATIONS: dict[str, Builtin] = spelled(
    OPERATIONS,
    "ptx",
    {
        "register": mathematics.same, "address": mathematics.same, "register_elsewhere": mathematics.same,
        "fma": mathematics.fused,
        "neg": mathematics.negative, "abs": mathematics.absolute,
        "max": mathematics.extreme(1.0), "min": mathematics.extreme(-1.0),
        "exp2": mathematics.exponential, "rcp": mathematics.reciprocal, "shuffle": mathematics.other_lane(0),
        **{name: mathematics.transcendental(name) for name in ("log2", "sqrt", "rsqrt", "tanh")},
    },
    {"arithmetic": lambda op: mathematics.operation(op.symbol)},
)  # fmt: skip


def run_asm(m: Machine, stmt: ir.Asm, frame: Frame) -> None:
    """Executes an asm statement: runs its instructions and assigns its outputs."""
    text = stmt.template.value if isinstance(stmt.template, ir.Const) else None
    if not isinstance(text, str):
        return
    names: dict[str, Any] = {}
    for i, (constraint, target) in enumerate(stmt.outputs):
        names[f"%{i}"] = m.expressions.evaluate(target, frame) if "+" in constraint else UNKNOWN
    for i, (_, value) in enumerate(stmt.inputs):
        names[f"%{len(stmt.outputs) + i}"] = m.expressions.evaluate(value, frame)
    _run(m, text, names, stmt, frame)
    for i, (constraint, target) in enumerate(stmt.outputs):
        where = m.places.place(target, frame)
        if where is not None:
            value = names[f"%{i}"]
            if value is UNKNOWN and ("f" in constraint or "d" in constraint):
                value = _made_of(m, names, "f64" if "d" in constraint else "f32", stmt, frame, i)
            m.places.store(where, value)


def inline_asm(m: Machine, c: Args) -> Value:
    """The first output of `tl.inline_asm_elementwise(asm, constraints, args, dtype, ...)`, after running its
    instructions."""
    text, constraints, given = c.get(0, "asm"), c.get(1, "constraints"), c.get(2, "args")
    if not isinstance(text, str) or not isinstance(constraints, str) or not isinstance(given, tuple):
        return UNKNOWN
    outputs = sum(1 for part in constraints.split(",") if "=" in part)
    names: dict[str, Any] = {f"${i}": UNKNOWN for i in range(outputs)}
    for i, value in enumerate(given):
        names[f"${outputs + i}"] = value
    _run(m, text, names, c.node, c.frame)
    value = names.get("$0", UNKNOWN)
    if value is UNKNOWN and "f" in constraints.split(",")[0]:
        return _made_of(m, names, "f32", c.node, c.frame, 0)
    return value


def _made_of(m: Machine, names: Mapping[str, Value], dt: str, node: ir.Expr | ir.Stmt, frame: Frame, i: int) -> Any:
    """An output nobody computed: some value made of what went in."""
    src = ops.sources(tuple(names.values()))
    if src:
        m.note("inline assembly is not followed", node)
    return m.numbers.data(m.site(frame, node) + i % 8, dt, src)


def _run(m: Machine, text: str, names: dict[str, Any], node: ir.Expr | ir.Stmt, frame: Frame) -> None:
    for i, instr in enumerate(ptx.parse(text)[:_MAX_INSTRUCTIONS]):
        if not instr.operands or instr.opcode.startswith("."):
            continue
        target, *sources = instr.operands
        site = m.site(frame, node) + i % 8
        if instr.opcode == "st":
            _store(m, instr, names)
            continue
        if instr.opcode == "ld":
            _load(m, instr, names, site, node)
            continue
        if instr.opcode == "cp":
            _copy(instr, names)
            continue
        if instr.opcode in ("bar", "barrier", "mbarrier"):
            m.phase += 1
            continue
        handler = _OPERATIONS.get(instr.opcode)
        values = [_value(names, s) for s in sources]
        result = UNKNOWN if handler is None else handler(m, Args(values, {}, site, node, frame))
        name = _name(target)
        if name is not None:
            names[name] = result


def _name(operand: ptx.Operand) -> str | None:
    if isinstance(operand, ptx.Reg):
        return operand.name
    if isinstance(operand, ptx.AsmOperand) and operand.index is not None:
        return f"%{operand.index}"
    return None


def _value(names: Mapping[str, Value], operand: ptx.Operand) -> Any:
    if isinstance(operand, ptx.Imm):
        return literal(operand.value) if isinstance(operand.value, float) else operand.value
    name = _name(operand)
    return names.get(name, UNKNOWN) if name is not None else UNKNOWN


def _address(names: Mapping[str, Value], operand: ptx.Operand, modifiers: tuple[str, ...]) -> Ptr | None:
    if not isinstance(operand, ptx.Mem) or not operand.items:
        return None
    base = _value(names, operand.items[0])
    if not isinstance(base, Ptr):
        return None
    dt = next((d for d in map(dtypes.from_ptx, modifiers) if d in ("f32", "f64")), None)
    if dt is None or base.type.dt == dt:
        return base
    return Ptr(base.mem, base.off, CType("float", dt))


def _load(m: Machine, instr: ptx.Instr, names: dict[str, Any], site: int, node: ir.Expr | ir.Stmt) -> None:
    if len(instr.operands) < 2:
        return
    pointer = _address(names, instr.operands[1], instr.modifiers)
    if pointer is None:
        m.note("inline assembly that loads from an address that is not known", node)
    target = instr.operands[0]
    parts = target.items if isinstance(target, ptx.Vec) else (target,)
    for i, part in enumerate(parts):
        name = _name(part)
        if name is not None and pointer is not None:
            offset = pointer.off + i if isinstance(pointer.off, int) else pointer.off
            scalar = pointer.type if pointer.type.kind == "float" else CType("float", "f32")
            names[name] = m.read(Ptr(pointer.mem, offset, scalar), site + i % 8)


def _copy(instr: ptx.Instr, names: Mapping[str, Value]) -> None:
    """An asynchronous copy into shared memory, whose number of bytes is the third operand: as good as done."""
    target = _address(names, instr.operands[0], ())
    size = _value(names, instr.operands[2]) if len(instr.operands) > 2 else None
    if target is None or target.mem.kind != "shared" or not isinstance(target.off, int) or not isinstance(size, int):
        return
    bits = dtypes.BITS.get(target.type.dt, 32)
    target.mem.bring(range(target.off, target.off + size * 8 // bits))


def _store(m: Machine, instr: ptx.Instr, names: Mapping[str, Value]) -> None:
    if len(instr.operands) < 2:
        return
    pointer = _address(names, instr.operands[0], instr.modifiers)
    source = instr.operands[1]
    parts = source.items if isinstance(source, ptx.Vec) else (source,)
    for i, part in enumerate(parts):
        if pointer is not None:
            offset = pointer.off + i if isinstance(pointer.off, int) else pointer.off
            m.write(Ptr(pointer.mem, offset, CType("float", "f32")), _value(names, part))
