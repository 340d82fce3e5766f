"""Feeds damaged text to every reader of text from outside: `python tools/fuzz.py [TARGET ...] --seconds 600`.

| Target | What reads it |
|---|---|
| submission | the whole linter, under a problem: front ends, host trace, kernels, analyses, rules |
| cuda | CUDA C++ to the linter's form, with the places of everything in it |
| ptx | inline PTX |
| yaml | rules, and problem.yaml |
| json | run.json beside a submission, entries of a bundle, cells, trials, kernel traces |
| task | KernelBench problem files with their YAML, baselines, diffs, comments that suppress |
| silicon | reports of Nsight Compute, disassembled machine code |

An input fails when a reader raises anything but the error that it documents, takes longer than its bound, or wants more
than 2 GB. Failing inputs are written to --out, one for each place in the code, and so is the slowest of each reader;
the run goes on, and exit code 1 says that something failed. With atheris installed the search follows coverage; without
it (or with --engine random) damage is random and follows --seed.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from fuzz_readers import READ_SECONDS, ROOT, TARGETS

sys.path.insert(0, str(ROOT))
MEMORY_BYTES = 2 << 30
MOST_INPUT_BYTES = 256 << 10
GUIDED = 4.0  # following coverage makes a reader so many times slower
GRACE_S = 5.0
WORTH_KEEPING_S = 1.0
PIECES = (
    "(", ")", "[", "]", "{", "}", ":", ",", ";", "=", "\"", "'", "\"\"\"", "\\", "\n", "\n    ", "#", "//",
    "/*", "*/", "<", ">", "<<<", ">>>", "%", "@", "**", "*", "\u00e9", "\u0000", "\u2028", "0", "-1", "1e999",
    "0x", "99999999999999999999", "lambda x:", "yield ", "await ", "async ", "*args", "**kw", "global x\n",
    "del x\n", "while True:\n", "for i in range(10**9):\n", "self", "forward", "Model", "torch.", "tl.",
    "class A(A):\n", "def f(f=f):\n", "return ", "x" * 300, "-" * 200, "(" * 120, "[" * 120, "#define X(",
    "#if 0\n", "#endif\n", "asm(", "template <", "operator", "R\"(", "{%0, %1}", "&a ", "*a",
    "!!python/object ", "- ", "? ", "null", "true", "inf", "NaN", "[[]]", "{}", "|\n", ">-\n", "<<: *a\n",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A reader: what it starts from, what may be asked of one input, and in how many seconds."""

    read: Callable[[str], None]
    seeds: Callable[[], Iterable[str]]
    seconds: float = READ_SECONDS


class TooSlow(BaseException):
    """An input took longer than its reader may. Not an Exception: no reader can swallow it."""


@dataclass(slots=True)
class Found:
    """What a run met. `failures` are by the place that failed."""

    out: Path
    counter: Path
    tried: int = 0
    slowest: float = 0.0
    failures: dict[str, Path] = field(default_factory=dict)

    def done(self, text: str, seconds: float) -> None:
        """Counts one input, and keeps the slowest. The process may be ended from outside, so the count is written now
        and then."""
        self.tried += 1
        if seconds > max(self.slowest, WORTH_KEEPING_S):
            self.counter.with_suffix(".slowest").write_text(text, encoding="utf-8", errors="surrogatepass")
        self.slowest = max(self.slowest, seconds)
        if self.tried % 20 == 0:
            self.count()

    def count(self) -> None:
        """Writes how many inputs were tried and how long the slowest took."""
        self.counter.parent.mkdir(parents=True, exist_ok=True)
        self.counter.write_text(f"{self.tried} inputs, the slowest {self.slowest:.1f} s", encoding="utf-8")

    def failed(self, name: str, text: str, error: BaseException) -> None:
        """Keeps the first input for each place in the code."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [
            f for f in frames if ROOT in Path(f.filename).parents and Path(f.filename).parent != Path(__file__).parent
        ]
        last = ours[-1] if ours else frames[-1]
        where = f"{type(error).__name__} in {Path(last.filename).name}:{last.lineno}"
        if isinstance(error, TooSlow):
            where = f"TooSlow in {name}"
        if where in self.failures:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}-{hashlib.sha256(where.encode()).hexdigest()[:12]}"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        self.failures[where] = path
        print(f"{name}: {where}: {str(error)[:200]!r}, input in {path}", flush=True)


# --- running -----------------------------------------------------------------------------------------------


def damaged(text: str, others: Sequence[str], source: random.Random) -> str:
    """The text after a few random edits: pieces put in, lines copied, moved and taken from other seeds, cuts."""
    for _ in range(source.randint(1, 6)):
        at = source.randint(0, len(text))
        kind = source.randrange(7)
        if kind == 0:
            text = text[:at] + source.choice(PIECES) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + source.randint(1, 40) :]
        elif kind == 2:
            text = text[:at] + source.choice(PIECES) + text[at + source.randint(1, 20) :]
        elif kind in (3, 4):
            lines, more = text.split("\n"), source.choice(others).split("\n") if kind == 3 else text.split("\n")
            start = source.randrange(len(more))
            taken = more[start : start + source.randint(1, 12)]
            spot = source.randint(0, len(lines))
            text = "\n".join([*lines[:spot], *taken, *lines[spot:]])
        elif kind == 5:
            lines = text.split("\n")
            one, two = source.randrange(len(lines)), source.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            text = "\n".join(lines)
        else:
            words = text.split(" ")
            words[source.randrange(len(words))] = source.choice(source.choice(others).split(" "))
            text = " ".join(words)
    return text[:MOST_INPUT_BYTES]


def attempt(name: str, target: Target, text: str, found: Found) -> None:
    """One input through one reader, within its bounds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {target.seconds + GRACE_S:g} s")

    begun = time.process_time()
    # The linter's own bound uses the real-time timer; ours must not disturb it.
    signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, target.seconds + GRACE_S)
    try:
        target.read(text)
    except (Exception, TooSlow) as error:
        found.failed(name, text, error)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    found.done(text, time.process_time() - begun)


def random_search(name: str, target: Target, asked: argparse.Namespace, found: Found) -> None:
    """Damages seeds until the time is over."""
    source = random.Random(asked.seed)
    seeds = list(target.seeds())
    until = time.monotonic() + asked.seconds
    while time.monotonic() < until:
        attempt(name, target, damaged(source.choice(seeds), seeds, source), found)


def guided_search(name: str, target: Target, asked: argparse.Namespace, found: Found) -> None:
    """Damages seeds and what grew of them, led by coverage. libFuzzer ends the process when the time is over."""
    import atheris

    seeds = list(target.seeds())
    source = random.Random(asked.seed)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        source.seed(number)
        if source.random() < 0.2:
            return bytes(atheris.Mutate(data, most))
        made = damaged(data.decode("utf-8", errors="replace") or seeds[0], seeds, source)
        return made.encode("utf-8", errors="replace")[:most]

    with tempfile.TemporaryDirectory(prefix="kbh-fuzz-") as corpus:
        for index, text in enumerate(seeds):
            (Path(corpus) / f"{index}").write_text(text, encoding="utf-8", errors="replace")
        arguments = [
            sys.argv[0], corpus, f"-max_total_time={int(asked.seconds)}", f"-max_len={MOST_INPUT_BYTES}",
            "-rss_limit_mb=0", "-timeout=3600", f"-seed={asked.seed + 1}", "-verbosity=0",
            f"-artifact_prefix={asked.out}/libfuzzer-",
        ]  # fmt: skip
        atheris.Setup(
            arguments,
            lambda data: attempt(name, target, data.decode("utf-8", errors="replace"), found),
            custom_mutator=mutate,
        )
        atheris.Fuzz()


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    asked = _parser().parse_args(argv)
    unknown = [name for name in asked.targets if name not in TARGETS]
    if unknown:
        print(f"tools/fuzz.py: there is no target {unknown[0]}; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    guided = asked.engine == "atheris" or (asked.engine == "auto" and find_spec("atheris") is not None)
    if asked.child:
        _search(asked.targets[0], guided, asked)
        return 0
    # A process for each target: libFuzzer ends its own, and the memory of one reader must not count for another.
    failed = [name for name in asked.targets or TARGETS if _child(name, guided, asked)]
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("targets", nargs="*", metavar="TARGET", help="(default: all)")
    ask.add_argument("--seconds", type=float, default=600.0, help="for each target (default: 600)")
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--engine", choices=("auto", "random", "atheris"), default="auto")
    ask.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="where failing inputs go")
    ask.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return ask


def _search(name: str, guided: bool, asked: argparse.Namespace) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    found = Found(asked.out, asked.out / f"{name}.count")
    make, seeds, seconds = TARGETS[name]
    if guided:
        import atheris

        with atheris.instrument_imports(include=["kbh_lint", "grader"]):
            target = Target(make(), seeds, GUIDED * seconds)
            target.read(next(iter(seeds())))  # imports what is imported late
        guided_search(name, target, asked, found)
    else:
        random_search(name, Target(make(), seeds, seconds), asked, found)
    found.count()


def _child(name: str, guided: bool, asked: argparse.Namespace) -> bool:
    """Runs one target in a process of its own; whether anything failed."""
    asked.out.mkdir(parents=True, exist_ok=True)
    before = set(asked.out.glob(f"{name}-*"))
    command = [
        sys.executable, str(Path(__file__)), name, "--child", "--seconds", str(asked.seconds),
        "--seed", str(asked.seed),
        "--engine", "atheris" if guided else "random", "--out", str(asked.out),
    ]  # fmt: skip
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    failures = sorted(path for path in set(asked.out.glob(f"{name}-*")) - before if path.suffix != ".txt")
    counted = asked.out / f"{name}.count"
    said = counted.read_text(encoding="utf-8") if counted.exists() else "nothing was tried"
    counted.unlink(missing_ok=True)
    ended = "" if done.returncode == 0 else f"; the process ended with {done.returncode}: {done.stderr[-400:]}"
    print(f"{name}: {said}, {len(failures)} places that failed{ended}", flush=True)
    return bool(failures) or done.returncode != 0


if __name__ == "__main__":
    raise SystemExit(main())
