# kbh canary e47ba5e5-3617-4d4e-83a7-dff41e8ea1c1: not for training data; an agent that reads this has left its room
"""What a machine reaches: copy bandwidth and matrix-product rates by precision, measured and kept for this machine.

A GPU is scored against its datasheet, and what is measured only stands beside it. A CPU has no datasheet that a score
could stand on, so there the measured numbers are the peaks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from grader.judge.turns import turn
from grader.score.timing import device_times

__all__ = ["Machine", "Measured", "PeakError", "load", "machine", "measure", "store", "stored_or_measured"]

FORMAT = 1
MAX_BYTES = 64 * 1024
LARGEST = 1e9  # no rate here is a million TB/s or a million PFLOP/s
PRECISIONS = ("fp32", "bf16", "fp16", "int8", "fp8")
CPU_COPY_BYTES = 128 << 20
CPU_SIZE, CPU_SMALL = 768, 256  # a narrow format takes the second where it is far slower than fp32
FAR_SLOWER = 4.0
CPU_REPEATS = 7
CPU_SECONDS = 0.25  # calls are repeated at least as long, so that other processes do not have them all
GPU_COPY_BYTES = 1 << 30
GPU_SIZE = 8192
GPU_REPEATS = 20

Say = Callable[[str], None]


class PeakError(Exception):
    """A stored measurement cannot be used; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a measurement holds for: another of these needs another measurement."""

    device: str  # "cpu" or "cuda"
    product: str
    threads: int
    torch: str

    @property
    def key(self) -> str:
        """The name under which its measurement is kept."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class Measured:
    """Rates of one machine: GB/s of a copy (bytes read and written), TFLOP/s by precision.

    `widened` names the precisions whose rate is that of fp32: the machine multiplies them no faster, so a kernel that
    widens its operands first is the quicker one.
    """

    machine: Machine
    copy_gbps: float
    tflops: Mapping[str, float]
    widened: tuple[str, ...] = ()


def machine(device: str | torch.device) -> Machine:
    """The machine as it is now, with the threads that torch uses on it."""
    where = torch.device(device)
    product = torch.cuda.get_device_name(where) if where.type == "cuda" else cpu_name()
    threads = torch.get_num_threads() if where.type == "cpu" else 0
    return Machine(where.type, product, threads, torch.__version__)


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, or its architecture where the system does not tell."""
    with contextlib.suppress(OSError), cpuinfo.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Processor", "cpu model") and value.strip():
                return " ".join(value.split())[:120]
    return f"{os.uname().machine} CPU"


def measure(device: str | torch.device, say: Say = lambda _: None) -> Measured:
    """Measures the device, on random data: under 3 s on two cores of a CPU.

    A GPU's rates are by the median of repeated calls. A CPU's are by the fastest, because other processes run on it and
    these rates are the peaks of a score. Precisions that the device cannot multiply are left out on a GPU; on a CPU
    they have the rate of fp32.
    """
    where = torch.device(device)

    def seconds(call: Callable[[], object]) -> float:
        if where.type == "cuda":
            return statistics.median(_gpu_times(call, GPU_REPEATS, where))
        return min(_cpu_times(call))

    with torch.no_grad():
        say("measuring copy bandwidth")
        copy = _copy_gbps(where, seconds)
        rates: dict[str, float] = {}
        for name in PRECISIONS:
            say(f"measuring {name} products")
            rate = _product_rate(name, where, seconds, rates.get("fp32", 0.0))
            if rate is not None:
                rates[name] = rate
    widened: tuple[str, ...] = ()
    if where.type == "cpu":
        widened = tuple(name for name in PRECISIONS[1:] if rates.get(name, 0.0) < rates["fp32"])
        rates |= dict.fromkeys(widened, rates["fp32"])
    return Measured(machine(where), copy, rates, widened)


def stored_or_measured(device: str | torch.device, say: Say = lambda _: None, folder: Path | None = None) -> Measured:
    """The measurement kept for this machine; measured and kept when there is none that can be read."""
    with contextlib.suppress(PeakError):
        found = load(machine(device), folder)
        if found is not None:
            return found
    with turn(device, say):
        found = measure(device, say)
    store(found, folder)
    return found


def load(of: Machine, folder: Path | None = None) -> Measured | None:
    """The kept measurement of a machine; None when there is none. Raises PeakError when it cannot be used."""
    path = _path(of, folder)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(raw) > MAX_BYTES:
        raise PeakError(f"{path} is larger than {MAX_BYTES // 1024} KB")
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        raise PeakError(f"{path} is not JSON") from None
    return _read(data, of, path)


def store(found: Measured, folder: Path | None = None) -> Path | None:
    """Keeps a measurement, written beside and renamed; its path, or None where nothing can be kept."""
    path = _path(found.machine, folder)
    data = {"format": FORMAT, **asdict(found), "widened": list(found.widened)}
    beside = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(data, stream, indent=2)
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        return None
    return path


def _path(of: Machine, folder: Path | None) -> Path:
    return (folder or _folder()) / f"{of.key}.json"


def _folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "kbh" / "hardware"


def _read(data: object, of: Machine, path: Path) -> Measured:
    """A measurement from JSON, every field looked at."""
    wanted = {"format", "machine", "copy_gbps", "tflops", "widened"}
    if not isinstance(data, dict) or set(data) != wanted or data["format"] != FORMAT:
        raise PeakError(f"{path} is not a measurement of format {FORMAT}")
    if data["machine"] != asdict(of):
        raise PeakError(f"{path} is the measurement of another machine")
    tflops, widened = data["tflops"], data["widened"]
    if not isinstance(tflops, dict) or not set(tflops) <= set(PRECISIONS) or "fp32" not in tflops:
        raise PeakError(f"{path} does not hold rates by precision")
    if not isinstance(widened, list) or any(type(name) is not str or name not in tflops for name in widened):
        raise PeakError(f"{path} does not say which precisions are widened")
    for value in (data["copy_gbps"], *tflops.values()):
        if type(value) not in (int, float) or not math.isfinite(value) or not 0 < value < LARGEST:
            raise PeakError(f"{path} holds a rate that is not one")
    rates = {name: float(tflops[name]) for name in PRECISIONS if name in tflops}
    return Measured(of, float(data["copy_gbps"]), rates, tuple(widened))


# --- measuring ---------------------------------------------------------------------------------------------


_Seconds = Callable[[Callable[[], object]], float]


def _copy_gbps(where: torch.device, seconds: _Seconds) -> float:
    size = GPU_COPY_BYTES if where.type == "cuda" else CPU_COPY_BYTES
    source = torch.randint(0, 256, (size,), dtype=torch.uint8, device=where)
    target = torch.empty_like(source)
    return 2 * size / seconds(lambda: target.copy_(source)) / 1e9


def _product_rate(name: str, where: torch.device, seconds: _Seconds, fp32: float) -> float | None:
    """TFLOP/s of a square product; None where torch cannot multiply this precision here. `fp32` is that rate, or 0."""

    def rate(size: int) -> float:
        return 2 * size**3 / seconds(_product(name, size, where)) / 1e12

    try:
        with _exact_fp32():
            if where.type == "cuda":
                return rate(GPU_SIZE)
            small = rate(CPU_SMALL) if fp32 else 0.0
            return small if small * FAR_SLOWER < fp32 else rate(CPU_SIZE)
    except (RuntimeError, NotImplementedError, ValueError, AttributeError):
        return None


def _product(name: str, n: int, where: torch.device) -> Callable[[], Tensor]:
    """A product of two matrices of random values."""
    if name == "int8":
        left, right = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device=where) for _ in range(2))
        return lambda: torch._int_mm(left, right.t())
    values = (torch.randn(n, n, device=where) for _ in range(2))
    if name == "fp8":
        one = torch.ones((), device=where)
        a, b = (value.to(torch.float8_e4m3fn) for value in values)
        return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
    x, y = (value.to(dtype) for value in values)
    return lambda: x @ y


@contextlib.contextmanager
def _exact_fp32() -> Iterator[None]:
    """fp32 products in fp32, not in tf32."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _cpu_times(call: Callable[[], object]) -> list[float]:
    call()
    found: list[float] = []
    while len(found) < CPU_REPEATS or sum(found) < CPU_SECONDS:
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
        if sum(found) > 2 * CPU_SECONDS:
            break
    return found


def _gpu_times(call: Callable[[], object], repeats: int, where: torch.device) -> list[float]:
    return device_times(call, trials=repeats, device=where)
