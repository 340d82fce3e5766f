"""A strict census of machine code, from the text of nvdisasm or `cuobjdump -sass`: what each kernel can execute.

Every line must be of a known kind and every instruction of a known name; a matrix instruction must be of a form whose
operand types can be read. Anything else is an error that names kernel and line, so that a zero in a census means none.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from grader.silicon.sass.elf import RUNTIME
from grader.silicon.sass.normal import Digest
from grader.silicon.sass.opcodes import CLASSES, class_of, family_of
from grader.silicon.sass.products import Product, read_product
from grader.silicon.sass.residuals import Residuals, written

__all__ = ["Census", "SassError", "census", "product_types"]

K = TypeVar("K")
MOST_LINE = 1 << 16
MOST_KERNELS = 100_000
MOST_NAME = 1 << 15
MOST_CALLED = 32  # functions that a kernel reaches; the rest counts as code that is not known


class SassError(Exception):
    """Machine code that this census cannot read; the message is one sentence with kernel and line."""


@dataclass(frozen=True, slots=True)
class Census:
    """What one kernel's code holds, with the functions of the same file that it calls. All numbers are of instructions
    that stand in the code, not of executions.

    `opcodes` by name without modifiers; `matrix` by form; `conversions` by (from, to) for those that unpack narrow
    floats; `nibbles` take four-bit fields out of words (those with one field alone are `small_masks`, which index
    arithmetic has too); `exponents` put the exponent of a power of two above such a field, which makes a float of it
    without a conversion; `residuals` are fp32 values that only rounding makes different from zero. `digest` is the same
    for two builds of the same code (`grader.silicon.sass.normal` says what is left out), unless the loader writes
    addresses into it, which `relocated` says.
    """

    kernel: str
    arch: str
    entry: bool
    opcodes: Mapping[str, int]
    matrix: Mapping[Product, int]
    conversions: Mapping[tuple[str, str], int]
    nibbles: int = 0
    small_masks: int = 0
    exponents: int = 0
    residuals: int = 0
    subtractions: int = 0
    indirect_calls: int = 0
    calls: frozenset[str] = frozenset()
    digest: str = ""
    relocated: bool = False

    def count(self, *names: str) -> int:
        """How many instructions have one of these names."""
        return sum(self.opcodes.get(name, 0) for name in names)

    @property
    def spills(self) -> int:
        """Loads and stores of local memory: spilled registers and arrays that are indexed."""
        return self.count("LDL", "STL")

    @property
    def async_copies(self) -> int:
        """Copies into shared memory that a thread does not wait for, without those by tensor descriptor."""
        return self.count("LDGSTS", "UBLKCP")

    @property
    def tensor_loads(self) -> int:
        """Loads by tensor descriptor (TMA)."""
        return self.count("UTMALDG")

    def unpacked(self, types: frozenset[str]) -> int:
        """Conversions of these narrow types to a wider float."""
        return sum(times for (source, _), times in self.conversions.items() if source in types)


def product_types(found: Iterable[Census]) -> frozenset[str]:
    """The operand types of all matrix instructions, or classes of types where a descriptor holds them."""
    return frozenset(kind for one in found for product in one.matrix for kind in product.types)


# --- lines -------------------------------------------------------------------------------------------------

_ENCODING = re.compile(r"/\* 0x[0-9a-f]{16} \*/")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}")
_OPCODE = re.compile(r"[A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*")
_GUARD = re.compile(r"@!?U?P(?:\d{1,2}|T)")
_LABEL = re.compile(r"[.$\w][^\s]*:")
_DIRECTIVE = re.compile(r"\.[a-z_][\w.]*(?:\s.*)?")
_TARGET = re.compile(r"\.target\s+(sm_\d{2,3}[af]?)")
_CODE_FOR = re.compile(r"code for (sm_\d{2,3}[af]?)")
_FLAGS = re.compile(r"EF_CUDA_SM(\d{2,3})\b")
_SECTION = re.compile(r"\.section\s+(\S+?)(?:,.*)?")
_ENTRY = re.compile(r'\.other\s+(\S+),@"[^"]*\bSTO_CUDA_ENTRY\b[^"]*"')
_FUNCTION = re.compile(r"Function : (\S+)")
_PROPERTY = re.compile(r"[A-Za-z][\w ]{0,40}=.*")
_HEADING = re.compile(r"={3,}|\.{3,}|Fatbin (?:elf|ptx) code:|compressed|has debug info")
_CALLED = re.compile(r"`\(([^`]*)\)")
_REGISTER = re.compile(r"U?R\d{1,3}\b")
_UNPACK = re.compile(r"U?F2FP\.(?:(?:RELU|SATFINITE|RZ|RN)\.)*(\w+)\.(\w+)\.UNPACK_B(?:_MERGE_C)?\.?")
_HEX = re.compile(r"0x([0-9a-f]{1,8})")
_SEVERAL = re.compile(r"0*(?:f0+)+f0*")
_ONE = re.compile(r"f0*")
# 2^4 to 2^7 in bf16 and 2^4 to 2^10 in fp16, for the lower value of a word, the upper one or both; 2^4 to 2^23 in fp32.
# Four bits have room below each.
_EXPONENT = re.compile(
    r"(4180|4200|4280|4300|4c00|5000|5400|5800|5c00|6000|6400)(?:\1|0000)?|4(?:18|[2-9a][08]|b0)00000"
)
_FLOATS = {
    "E4M3": "e4m3", "E5M2": "e5m2", "E3M2": "e3m2", "E2M3": "e2m3", "E2M1": "e2m1", "E8": "ue8m0", "UE8M0": "ue8m0",
    "F16": "f16", "BF16": "bf16", "BF16_V2": "bf16", "F32": "f32",
}  # fmt: skip
_LOADS = frozenset({"LDC", "LDCU", "ULDC"})
NARROW = frozenset({"E4M3", "E5M2", "E3M2", "E2M3", "E2M1"})  # they are only packed and unpacked, as far as is known


@dataclass(slots=True)
class _Function:
    """A function while its lines are read."""

    name: str
    arch: str
    family: str
    entry: bool
    opcodes: Counter[str] = field(default_factory=Counter)
    matrix: Counter[Product] = field(default_factory=Counter)
    conversions: Counter[tuple[str, str]] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    calls: set[str] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)  # registers that hold an address out of the table
    residuals: Residuals = field(default_factory=Residuals)
    digest: Digest = field(default_factory=Digest)

    def done(self, runtime: bool) -> Census:
        """The census of the function after its last line; `runtime`: calls through the file's table of addresses are
        known.
        """
        indirect = self.other["indirect"] + (0 if runtime else self.other["by table"])
        return Census(
            self.name, self.arch, self.entry, dict(self.opcodes), dict(self.matrix), dict(self.conversions),
            self.other["nibbles"], self.other["small"], self.other["exponents"], self.residuals.count,
            self.other["subtractions"], indirect, frozenset(self.calls), self.digest.done(), self.digest.relocated,
        )  # fmt: skip


def census(text: str, *, runtime: bool = False) -> tuple[Census, ...]:
    """The kernels of a disassembly, in its order. Raises SassError for a line that is of no known kind.

    `runtime`: the file's table of addresses holds no functions but those of the device's runtime
    (`grader.silicon.sass.elf`), so a call of what is loaded from there is no call of unknown code.
    """
    functions: list[_Function] = []
    current: _Function | None = None
    arch = ""
    for number, line in enumerate(_lines(text), 1):
        stripped = line.strip()
        if not stripped:
            continue
        if len(line) > MOST_LINE:
            raise SassError(f"line {number} is longer than {MOST_LINE} characters")
        if stripped.startswith("/*"):
            _instruction(stripped, current, number)
            continue
        arch = _architecture(stripped) or arch
        begun = _begun(stripped)
        if begun is not None:
            current = _begin(begun, arch, functions, number, stripped) if begun else None
        elif (entry := _ENTRY.fullmatch(stripped)) is not None:
            if current is not None and entry.group(1) == current.name:
                current.entry = True
        elif current is not None and _LABEL.fullmatch(stripped):
            current.digest.label(stripped[:-1])
            current.addresses.clear()
        elif not _is_known(stripped):
            where = f"kernel {current.name[:200]}, line {number}" if current else f"line {number}"
            raise SassError(f"{where} is of no known kind: {stripped[:80]!r}")
    return _linked([function.done(runtime) for function in functions])


def _lines(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _architecture(line: str) -> str:
    """The architecture that a line names, or nothing."""
    match = _TARGET.fullmatch(line) or _CODE_FOR.fullmatch(line)
    if match is not None:
        return match.group(1)
    if line.startswith(".headerflags"):
        flags = _FLAGS.search(line)
        if flags is not None:
            return f"sm_{flags.group(1)}" + ("a" if "EF_CUDA_ACCELERATORS" in line else "")
    return ""


def _begun(line: str) -> str | None:
    """The function whose code begins at a line; empty where a section without code begins; None where none does."""
    if line.startswith(".section") and not line.startswith((".sectionflags", ".sectioninfo", ".sectionentsize")):
        section = _SECTION.fullmatch(line)
        name = section.group(1) if section is not None else ""
        return name.removeprefix(".text.") if name.startswith(".text.") else ""
    function = _FUNCTION.fullmatch(line)
    return function.group(1) if function is not None else None


def _begin(name: str, arch: str, functions: list[_Function], number: int, line: str) -> _Function:
    family = family_of(arch)
    if len(functions) >= MOST_KERNELS or len(name) > MOST_NAME:
        raise SassError(f"line {number}: there are more kernels, or longer names, than this census reads")
    if family is None:
        raise SassError(
            f"kernel {name[:200]}, line {number}: {arch or 'an unnamed architecture'} is not one this census knows"
        )
    functions.append(_Function(name, arch, family, entry=line.startswith("Function")))
    return functions[-1]


def _is_known(line: str) -> bool:
    """Whether a line without an instruction is of a kind that the tools write."""
    if line.startswith("//"):
        return True
    return any(form.fullmatch(line) for form in (_DIRECTIVE, _LABEL, _CODE_FOR, _HEADING, _PROPERTY))


# --- instructions ------------------------------------------------------------------------------------------


def _instruction(line: str, current: _Function | None, number: int) -> None:
    """One instruction, or the second half of the encoding of the one before."""
    if _ENCODING.fullmatch(line):
        return
    address, closed, rest = line[2:].partition("*/")
    body, ended, tail = rest.partition(";")
    tail = tail.strip()
    if current is None:
        raise SassError(f"line {number} holds an instruction outside of every kernel: {line[:80]!r}")
    guard, opcode, operands = _parts(body)
    if (
        not closed or not ended or not _ADDRESS.fullmatch(address) or (tail and not _ENCODING.fullmatch(tail))
        or not _OPCODE.fullmatch(opcode) or (guard and not _GUARD.fullmatch(guard))
    ):  # fmt: skip
        raise SassError(f"kernel {current.name[:200]}, line {number} is not an instruction: {line[:80]!r}")
    name = opcode.partition(".")[0]
    kind = class_of(name, current.family)
    if kind is None or "INVALID" in opcode:
        raise SassError(
            f"kernel {current.name[:200]}, line {number}: {current.arch} has no instruction {opcode[:80]} that is known"
        )
    current.opcodes[name] += 1
    if kind == "matrix":
        product = read_product(opcode)
        if product is None:
            raise SassError(
                f"kernel {current.name[:200]}, line {number}: {opcode[:80]} is a matrix instruction of no known form"
            )
        current.matrix[product] += 1
    _details(current, name, opcode, operands, number)
    _addresses(current, name, opcode, operands, bool(guard))
    current.digest.step(int(address, 16), body)
    current.residuals.step(opcode, operands, bool(guard) and guard not in ("@PT", "@UPT"))


def _parts(body: str) -> tuple[str, str, list[str]]:
    """Guard, opcode and operands; the operands without blanks."""
    words = body.split(None, 1)
    guard = ""
    if words and words[0].startswith("@"):
        guard, words = words[0], words[1].split(None, 1) if len(words) > 1 else []
    if not words:
        return guard, "", []
    operands = words[1].split(",") if len(words) > 1 else []
    return guard, words[0], [operand.strip() for operand in operands]


def _details(current: _Function, name: str, opcode: str, operands: list[str], number: int) -> None:
    """What the promises ask of single instructions."""
    if name in ("F2FP", "UF2FP") and "UNPACK" in opcode:
        match = _UNPACK.fullmatch(opcode)
        kinds = [_FLOATS.get(part) for part in match.groups()] if match else [None]
        if None in kinds:
            raise SassError(f"kernel {current.name[:200]}, line {number}: {opcode[:80]} unpacks what is not known")
        current.conversions[(str(kinds[1]), str(kinds[0]))] += 1
    elif name in CLASSES["conversion"] and "PACK" not in opcode and not NARROW.isdisjoint(opcode.split(".")):
        raise SassError(
            f"kernel {current.name[:200]}, line {number}: {opcode[:80]} converts in a way that is not known"
        )
    elif name in ("LOP3", "ULOP3"):
        for mask in filter(None, (_HEX.fullmatch(operand) for operand in operands[2:-2])):
            current.other["nibbles"] += bool(_SEVERAL.fullmatch(mask.group(1)))
            current.other["small"] += bool(_ONE.fullmatch(mask.group(1)))
            current.other["exponents"] += bool(_EXPONENT.fullmatch(mask.group(1)))
    elif name in ("SGXT", "USGXT") and operands and operands[-1] == "0x4":
        current.other["nibbles"] += 1
    elif name in ("FADD", "FADD2") and any(operand.startswith("-") for operand in operands[1:]):
        current.other["subtractions"] += 1
    elif name == "CALL":
        called = _CALLED.search(operands[-1]) if operands else None
        register = _REGISTER.match(operands[-1]) if operands else None
        if register is not None:  # also where the function is named that the address is relative to
            known = called is None and register.group() in current.addresses
            current.other["by table" if known else "indirect"] += 1
        elif called is None:
            current.other["indirect"] += 1
        elif not called.group(1).startswith(("$", ".L")):
            current.calls.add(called.group(1))


def _addresses(current: _Function, name: str, opcode: str, operands: list[str], guarded: bool) -> None:
    """Which registers hold an address out of constant bank 4 after an instruction, within a straight run of code."""
    if name == "CALL":
        current.addresses.clear()
    target = next((operand for operand in operands[:2] if not operand.lstrip("!").startswith(("P", "UP"))), "")
    match = _REGISTER.match(target)
    if match is None:
        return
    prefix = match.group().rstrip("0123456789")
    first = int(match.group()[len(prefix) :])
    modifiers = opcode.partition(".")[2]
    current.addresses.difference_update(f"{prefix}{first + lane}" for lane in range(-1, written(name, modifiers)))
    if name in _LOADS and modifiers == "64" and not guarded and operands[-1].startswith("c[0x4]["):
        current.addresses.add(match.group())


def _linked(found: list[Census]) -> tuple[Census, ...]:
    """The same, with what each calls in other sections of the same file counted in."""
    by_name = {(one.arch, one.kernel): one for one in found}
    linked = []
    for one in found:
        reached: dict[str, Census] = {one.kernel: one}
        waiting, unknown = sorted(one.calls), 0
        while waiting:
            name = waiting.pop()
            callee = by_name.get((one.arch, name))
            if name in reached:
                continue
            if callee is None and name in RUNTIME:
                continue
            if callee is None or len(reached) > MOST_CALLED:  # it is in another file, or too far away
                unknown += 1
                continue
            reached[name] = callee
            waiting += sorted(callee.calls)
        linked.append(_together(one, list(reached.values()), unknown) if one.calls else one)
    return tuple(linked)


def _together(one: Census, parts: Sequence[Census], unknown: int) -> Census:
    """The sum over a kernel and what it calls."""
    return replace(
        one,
        opcodes=_total(part.opcodes for part in parts),
        matrix=_total(part.matrix for part in parts),
        conversions=_total(part.conversions for part in parts),
        nibbles=sum(part.nibbles for part in parts),
        small_masks=sum(part.small_masks for part in parts),
        exponents=sum(part.exponents for part in parts),
        residuals=sum(part.residuals for part in parts),
        subtractions=sum(part.subtractions for part in parts),
        indirect_calls=unknown + sum(part.indirect_calls for part in parts),
        digest=hashlib.sha256("".join([one.digest, *sorted(part.digest for part in parts)]).encode()).hexdigest(),
    )


def _total(counts: Iterable[Mapping[K, int]]) -> dict[K, int]:
    total: Counter[K] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)
