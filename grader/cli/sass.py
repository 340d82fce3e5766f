"""`kbh sass`: what kernels can execute, from their machine code, without a GPU."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.authoring.common import DONE, TROUBLE, CommandError, print_json
from grader.sandbox import SandboxError
from grader.silicon.machine_code import Kernel, MachineCode, collect, private_copy
from grader.silicon.promises import Ran, products_of, settle
from grader.silicon.tools import ToolError
from kbh_lint.base import dtypes, paths
from kbh_lint.marked import DataError
from kbh_lint.problems import Promise, load_deck
from kbh_lint.report.text import clean

_EPILOG = """\
FILE is a cubin, a fatbin or a shared object, or a folder of compiler caches, such as Triton's. NVIDIA's disassembler,
which comes with triton, reads it in a sandbox. An instruction of no known form is an error, never a zero. With
--problem, each promise that machine code can settle gets the state that it would have if these kernels ran and no
others, and the source had kept it. Machine code shows what can be executed, and not how often it was.

examples:
  kbh sass ~/.triton/cache --arch sm_90a
  kbh sass gemm.cubin --arch sm_90a --problem 01_fp8_gemm

exit codes: 0 all of it was read, 1 something was left out (a note says what), 2 the work could not be done
"""
NOTED = 1


def parser() -> argparse.ArgumentParser:
    """The options of `kbh sass`."""
    ask = argparse.ArgumentParser(
        prog="kbh sass", description="Prints a census of the machine code of kernels.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    ask.add_argument("path", type=Path, metavar="FILE", help="machine code, or a folder of it")
    ask.add_argument("--arch", required=True, metavar="SM", help="the chip that it is for, such as sm_90a")
    ask.add_argument("--problem", metavar="ID", help="also say what it shows of this problem's promises")
    ask.add_argument("--problems-dir", metavar="DIR", help="a folder of problems instead of the deck")
    ask.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    return ask


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns its exit code."""
    try:
        args = parser().parse_args(list(argv))
    except SystemExit as done:
        return int(done.code or 0)
    try:
        return _run(args)
    except (CommandError, DataError, SandboxError, ToolError) as error:
        print(f"kbh: error: {error}", file=sys.stderr)
        return TROUBLE


def _run(args: argparse.Namespace) -> int:
    promises = _promises(args.problem, args.problems_dir)
    with tempfile.TemporaryDirectory(prefix="kbh-sass-") as folder:
        place: Path = args.path
        if not place.is_dir():
            place = Path(folder)
            try:
                private_copy(args.path, place / f"file{args.path.suffix}")
            except OSError as error:
                raise CommandError(f"{args.path} cannot be read: {error.strerror or error}") from None
        code = collect(place, args.arch)
    if not code.kernels and not code.notes:
        raise CommandError(f"{args.path} holds no machine code for {args.arch}; .cubin, .fatbin and .so are looked at")
    rows = [_row(kernel) for kernel in code.kernels]
    states = _states(promises, code)
    if args.format == "json":
        print_json({"arch": args.arch, "kernels": rows, "promises": states, "notes": list(code.notes)})
    else:
        _print(rows, states, code.notes)
    return NOTED if code.notes else DONE


def _promises(problem: str | None, folder: str | None) -> tuple[Promise, ...]:
    """The promises of a problem, if one is named."""
    if problem is None:
        return ()
    deck = load_deck(paths.problems_dir(folder))
    if problem not in deck:
        raise CommandError(f"there is no problem `{problem}`; `kbh problems list` lists them")
    return tuple({promise.id: promise for promise in reversed(deck[problem].promises)}.values())


def _row(kernel: Kernel) -> dict[str, Any]:
    """A kernel's census in a few numbers."""
    census = kernel.census
    return {
        "kernel": kernel.name, "file": kernel.file, "sha256": kernel.sha256, "digest": census.digest,
        "arch": census.arch, "instructions": sum(census.opcodes.values()), "matrix": products_of([census]),
        "fp8_unpacked": census.unpacked(dtypes.FP8), "four_bit_masks": census.nibbles,
        "rounding_errors": census.residuals,
        "tensor_loads": census.tensor_loads, "async_copies": census.async_copies, "spills": census.spills,
    }  # fmt: skip


def _states(promises: Sequence[Promise], code: MachineCode) -> list[dict[str, str]]:
    """What the kernels show of each promise that machine code can settle."""
    ran = [Ran(name, tuple(kernel.census for kernel in code.find(name))) for name in sorted(code.names)]
    found = [(promise, settle(promise, "kept", ran)) for promise in promises]
    return [
        {"promise": promise.id, "state": settled.state, "reason": settled.reason}
        for promise, settled in found
        if settled is not None
    ]


def _print(rows: Sequence[dict[str, Any]], states: Sequence[dict[str, str]], notes: Sequence[str]) -> None:
    for row in rows:
        print(f"{clean(row['kernel'])}  {row['arch']}, {row['instructions']} instructions, {clean(row['file'])}")
        print(f"  matrix instructions: {row['matrix'] or 'none'}")
        counts = ("fp8_unpacked", "four_bit_masks", "rounding_errors", "tensor_loads", "async_copies", "spills")
        print("  " + ", ".join(f"{name.replace('_', ' ')} {row[name]}" for name in counts))
    for state in states:
        print(f"promise {state['promise']}: {state['state']} ({clean(state['reason'])})")
    for note in notes:
        print(f"note: {clean(note)}")
