"""The matrix products of PTX: mma.sync, wgmma, tcgen05, dp4a."""

from __future__ import annotations

from kbh_lint.base import dtypes, ir
from kbh_lint.base.regexes import regex
from kbh_lint.frontends import ptx
from kbh_lint.kernels.core.joins import join, mix
from kbh_lint.kernels.core.origins import CLOCK, data_origins
from kbh_lint.kernels.core.run import Run
from kbh_lint.kernels.core.value import NOTHING, UNKNOWN_V, Cell, V, in_order, offset_of

_SHAPE = regex(r"m(\d+)n\d+k\d+")
_CLOCKS = regex(r"%(?:clock|globaltimer)(?:64|_hi|_lo)?\Z")
CLOCKED = V("u64", "u64", CLOCK)


class Registers:
    """The operands of one asm statement and its own registers."""

    def __init__(self, machine: Run, operands: list[V], loc: ir.Loc) -> None:
        self.m = machine
        self.operands = operands
        self.names: dict[str, V] = {}
        self.written: set[int] = set()
        self.loc = loc
        self.by_name: dict[str, int] = {}

    def index(self, operand: ptx.AsmOperand) -> int | None:
        """The number of an asm operand, given by number or by name; None for an unknown name."""
        return operand.index if operand.index is not None else self.by_name.get(operand.name)

    def read(self, operand: object) -> V:
        """The value of an operand of an instruction; for an address, the address itself."""
        if isinstance(operand, ptx.AsmOperand):
            index = self.index(operand)
            return self.operands[index] if index is not None and index < len(self.operands) else UNKNOWN_V
        if isinstance(operand, ptx.Reg):
            return self.names.get(operand.name) or (CLOCKED if _CLOCKS.match(operand.name) else UNKNOWN_V)
        if isinstance(operand, ptx.Imm):
            return V("i32" if isinstance(operand.value, int) else "f32", "", const=operand.value)
        if isinstance(operand, ptx.Vec):
            return mix([self.read(item) for item in operand.items])
        if isinstance(operand, ptx.Mem):
            return self.read(operand.items[0]) if operand.items else UNKNOWN_V
        return UNKNOWN_V

    def write(self, operand: object, value: V) -> None:
        """Writes a value to an operand: a register, an asm operand, or each part of a vector."""
        if isinstance(operand, ptx.AsmOperand):
            index = self.index(operand)
            if index is not None and index < len(self.operands):
                old = self.operands[index]
                self.operands[index] = value.with_(ct=old.ct)
                self.written.add(index)
        elif isinstance(operand, ptx.Reg):
            self.names[operand.name] = value
        elif isinstance(operand, ptx.Vec):
            for item in operand.items:
                self.write(item, value)


def types(instr: ptx.Instr) -> list[str]:
    """The element types that the modifiers of an instruction name, in order."""
    return [t for t in (dtypes.from_ptx(modifier) for modifier in instr.modifiers) if t]


def _raw(value: V, dtype: str) -> V:
    """A register as an operand of type `dtype`: what the opcode says is what the hardware multiplies."""
    return value.with_(dtype=dtype, content=dtype, x=None, const=NOTHING)


def memory_content(m: Run, value: V, loc: ir.Loc) -> V:
    """The data behind a shared memory descriptor; for an operand in registers, the operand itself."""
    found: V | None = None
    for cell in in_order(value.cells):
        read = m.memory.read_cell(cell, "?", loc, offset_of(value))
        if read is not None:
            found = read if found is None else join(found, read)
    return found if found is not None else value


def _narrowest_float(m: Run, value: V) -> str:
    """The element type of what a descriptor points to: an fp8 content wins over what else shares the memory."""
    at = offset_of(value)
    contents = {
        content for cell in value.cells for _, content, entry in cell.written(at) if data_origins(entry.origins)
    }
    contents |= {cell.content for cell in value.cells if cell.kind == "param"}
    floats = sorted((dtypes.BITS[c], c) for c in contents if c in dtypes.FLOATS)
    return floats[0][1] if floats else "?"


def _rows(instr: ptx.Instr) -> int | None:
    for modifier in instr.modifiers:
        found = _SHAPE.match(modifier)
        if found:
            return int(found.group(1))
    return 64 if instr.opcode == "wgmma" else None


def mma(r: Registers, instr: ptx.Instr) -> None:
    """Executes mma.sync, also sparse or block-scaled, with operands d, a, b, c."""
    if len(instr.operands) < 4:
        return
    found = types(instr)
    a, b, c = (r.read(operand) for operand in instr.operands[1:4])
    d_type, a_type, b_type = (found + ["?", "?", "?"])[:3] if len(found) >= 3 else ("f32", "?", "?")
    if len(found) == 2:  # mma.m8n8k4...f16.f16: only the ends are named
        d_type, a_type, b_type = found[0], "f16", "f16"
    _multiply(r, instr, a, b, c, (d_type, a_type, b_type))


def _multiply(r: Registers, instr: ptx.Instr, a: V, b: V, c: V, kinds: tuple[str, str, str]) -> None:
    d_type, a_type, b_type = kinds
    a, b = _raw(a, a_type), _raw(b, b_type)
    opcode = ".".join((instr.opcode, *instr.modifiers))
    made = r.m.products.product(
        "mma", a, b, d_type, r.loc, a_dtype=a_type, b_dtype=b_type, rows=_rows(instr), opcode=opcode
    )
    if data_origins(made.origins):
        r.m.facts.add_sum(d_type, made.origins, r.loc)
    made = r.m.products.onto(made, _raw(c, d_type))
    r.write(instr.operands[0], made)


def wgmma(r: Registers, instr: ptx.Instr) -> None:
    """Executes wgmma.mma_async, with operands d, a, b."""
    if "mma_async" not in instr.modifiers or len(instr.operands) < 3:
        return
    found = (types(instr) + ["?", "?", "?"])[:3]
    accumulator = r.read(instr.operands[0])
    a, b = (memory_content(r.m, r.read(operand), r.loc) for operand in instr.operands[1:3])
    _multiply(r, instr, a, b, accumulator, (found[0], found[1], found[2]))


def tcgen05(r: Registers, instr: ptx.Instr) -> None:
    """Executes tcgen05.mma, ld, st and cp, which use the tensor memory of Blackwell; the other tcgen05 instructions
    move no data."""
    what = instr.modifiers[0] if instr.modifiers else ""
    tensor = _tensor_memory(r.m)
    if what == "mma" and len(instr.operands) >= 3:
        left, right = r.read(instr.operands[1]), r.read(instr.operands[2])
        kind = next((m[6:] for m in instr.modifiers if m.startswith("kind::")), "")
        a_type, b_type = _kind_type(r.m, kind, left), _kind_type(r.m, kind, right)
        if isinstance(instr.operands[1], ptx.Mem):
            left = _entries(tensor)
        a = _raw(memory_content(r.m, left, r.loc), a_type)
        b = _raw(memory_content(r.m, right, r.loc), b_type)
        opcode = ".".join((instr.opcode, *instr.modifiers))
        d_type = "i32" if kind == "i8" else "f32"
        made = r.m.products.product("mma", a, b, d_type, r.loc, a_dtype=a_type, b_dtype=b_type, opcode=opcode)
        if data_origins(made.origins):
            r.m.facts.add_sum(d_type, made.origins, r.loc)
        r.m.memory.write_cell(tensor, made, r.loc, d_type)
    elif what == "ld" and len(instr.operands) >= 2:
        r.write(instr.operands[0], r.m.memory.read_cell(tensor, "f32", r.loc) or V("f32", "f32"))
    elif what == "st" and len(instr.operands) >= 2:
        r.m.memory.write_cell(tensor, r.read(instr.operands[1]), r.loc)
    elif what == "cp" and len(instr.operands) >= 2:
        r.m.memory.write_cell(tensor, memory_content(r.m, r.read(instr.operands[1]), r.loc), r.loc)


def _tensor_memory(m: Run) -> Cell:
    cell = m.memory.param_cells.get("$tensor memory")
    if cell is None:
        cell = m.memory.param_cells["$tensor memory"] = Cell("tensor", "tensor memory")
    return cell


def _entries(cell: Cell) -> V:
    return mix(list(cell.entries.values()))


def _kind_type(m: Run, kind: str, operand: V) -> str:
    """The operand type of a tcgen05 product: the kind, then what the memory holds."""
    held = _narrowest_float(m, operand)
    if kind in ("f8f6f4", "mxf8f6f4"):
        return held if dtypes.BITS.get(held, 99) <= 8 else "e4m3"
    if kind in ("mxf4", "mxf4nvf4"):
        return "e2m1"
    if kind == "f16":
        return held if held in ("bf16", "f16") else "f16"
    return {"tf32": "tf32", "i8": "i8"}.get(kind, held)


def dp4a(r: Registers, instr: ptx.Instr) -> None:
    """Executes dp4a and dp2a, with operands d, a, b, c."""
    if len(instr.operands) < 4:
        return
    a, b, c = (r.read(operand) for operand in instr.operands[1:4])
    made = r.m.products.product("dp", _raw(a, "i8"), _raw(b, "i8"), "i32", r.loc, a_dtype="i8", b_dtype="i8")
    r.write(instr.operands[0], join(made, c.with_(const=NOTHING)))
