"""`kbh hardware`: the targets that cells are scored on, which of them this machine is, and what it reaches."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from grader.authoring.common import DONE, TROUBLE, CommandError, Progress, print_json
from kbh_lint.base import paths
from kbh_lint.marked import DataError
from kbh_lint.problems import Target, load_targets

if TYPE_CHECKING:
    from grader.score.peaks import Measured

COLUMNS = ("fp4", "fp8", "int8", "bf16", "fp16", "tf32", "fp32")
_EPILOG = """\
A GPU is scored against its datasheet. What --measure finds there only stands beside it: how much of the datasheet
torch's own copy and products reach, with cold caches and random values. A CPU has no such datasheet, so a grading on a
CPU stands on what was measured on it, once, and kept under $XDG_CACHE_HOME/kbh/hardware; --measure takes it anew.

examples:
  kbh hardware                           the targets; the one of this machine is marked
  kbh hardware --measure                 measure this machine (a CPU: 3 s, a GPU: about 10 s) and keep the result
  kbh hardware --measure --device cpu    measure the CPU of a machine that has a GPU
  kbh hardware --format json

exit codes: 0 done, 2 the work could not be done
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh hardware`."""
    ask = argparse.ArgumentParser(
        prog="kbh hardware",
        description="Lists the targets: architecture, dense peaks in TFLOP/s, DRAM bandwidth in GB/s, L2 in MiB.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    ask.add_argument("--measure", action="store_true", help="measure copy bandwidth and matrix products here")
    ask.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU where there is one)")
    ask.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    ask.add_argument("--problems-dir", metavar="DIR", help="use the hardware.yaml in this folder")
    return ask


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh hardware`. Returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    progress = Progress()
    try:
        targets = load_targets(paths.problems_dir(args.problems_dir) / "hardware.yaml")
        here = _machine(targets, args.device, args.measure, progress)
        progress.clear()
        if args.format == "json":
            print_json({"targets": [_plain(target) for target in targets.values()], "machine": here})
        else:
            sys.stdout.write(_text(targets, here))
        return DONE
    except (CommandError, DataError) as error:
        progress.clear()
        print(f"kbh hardware: error: {error}", file=sys.stderr)
        return TROUBLE
    except KeyboardInterrupt:
        print("kbh hardware: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return TROUBLE


def _machine(
    targets: Mapping[str, Target], device: str | None, measure: bool, progress: Progress
) -> dict[str, Any] | None:
    """What this machine is, as plain data; None where torch is missing and nothing was asked of it."""
    if find_spec("torch") is None:
        if measure or device:
            raise CommandError("to look at this machine torch is needed; in a checkout of kbh: pip install '.[grade]'")
        return None
    from grader.score import peaks  # torch comes with it, which takes seconds
    from grader.score.targets import (  # torch comes with it, which takes seconds
        TargetError,
        pick_device,
        running_target,
    )

    try:
        where = pick_device("auto", device)
    except TargetError as error:
        raise CommandError(str(error)) from None
    target, reason, kept = "cpu", "", None
    if where != "cpu":
        try:
            target = running_target(targets, where).id
        except TargetError as error:
            target, reason = "", str(error)
    is_now = peaks.machine(where)
    if measure:
        found: Measured | None = peaks.measure(where, progress)
        assert found is not None
        kept = peaks.store(found)
        reason = reason or ("" if kept else "the measurement could not be kept, so it holds for this run only")
    else:
        try:
            found = peaks.load(is_now)
        except peaks.PeakError as error:
            found, reason = None, f"{error}; --measure takes it anew"
    return {
        "device": where, **asdict(is_now), "target": target or None, "note": reason,
        "measured": None if found is None else _measured(found, targets.get(target)),
    }  # fmt: skip


def _measured(found: Measured, target: Target | None) -> dict[str, Any]:
    """Measured rates, each beside the datasheet's where there is one."""

    def beside(value: float, sheet: float | None) -> dict[str, float | None]:
        return {"measured": value, "datasheet": sheet, "share": None if sheet is None else value / sheet}

    peaks = target.peaks if target is not None else {}
    return {
        "copy_gbps": beside(found.copy_gbps, target.dram_gbps if target is not None else None),
        "tflops": {name: beside(rate, peaks.get(name)) for name, rate in found.tflops.items()},
        "widened": list(found.widened),
    }


def _plain(target: Target) -> dict[str, Any]:
    return {
        "id": target.id, "sm": target.sm, "product": target.product, "names": list(target.names),
        "dram_gbps": target.dram_gbps, "l2_mib": target.l2_mib, "peaks": dict(target.peaks),
    }  # fmt: skip


def _text(targets: Mapping[str, Target], here: dict[str, Any] | None) -> str:
    own = here["target"] if here is not None else None
    rows: list[tuple[str, ...]] = [("", "id", "sm", *COLUMNS, "GB/s", "L2 MiB", "product")]
    for target in targets.values():
        numbers = [*(target.peaks.get(name) for name in COLUMNS), target.dram_gbps, target.l2_mib]
        shown = ("-" if number is None else f"{number:g}" for number in numbers)
        rows.append(("*" if target.id == own else "", target.id, target.sm, *shown, target.product))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_row(row, widths) for row in rows]
    lines += ["", "peaks are dense, in TFLOP/s, from datasheets" + ("; * is this machine" if own in targets else "")]
    if here is None:
        return "\n".join([*lines, "this machine: not looked at, torch is not installed"]) + "\n"
    threads = f", {here['threads']} threads" if here["threads"] else ""
    what = "none of these targets" if own is None else f"the target {own}"
    lines.append(f"this machine: {here['product']}{threads}; {what}")
    if here["note"]:
        lines.append(f"  {here['note']}")
    return "\n".join([*lines, *_rates(here["measured"])]) + "\n"


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    """Words to the left, numbers to the right."""
    last = len(row) - 1
    cells = (
        cell.rjust(width) if 3 <= column < last else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  ".join(cells).rstrip()


def _rates(measured: dict[str, Any] | None) -> list[str]:
    if measured is None:
        return ["  not measured yet: kbh hardware --measure"]
    lines = ["  measured with torch, on random values:"]
    rates = {"copy, GB/s": measured["copy_gbps"]}
    rates |= {f"{name}, TFLOP/s": rate for name, rate in measured["tflops"].items()}
    for name, rate in rates.items():
        line = f"    {name:<14}{rate['measured']:>10.4g}"
        if rate["datasheet"] is not None:
            line += f"  of {rate['datasheet']:g} ({rate['share']:.0%})"
        elif name.partition(",")[0] in measured["widened"]:
            line += "  the rate of fp32: this CPU is no faster at the narrower format"
        lines.append(line)
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
