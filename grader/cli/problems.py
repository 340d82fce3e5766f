"""`kbh problems`: list, show, write, render and check problems. Imports torch only in the commands that run kernels."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.authoring import run, show
from grader.authoring.common import TROUBLE, CommandError
from kbh_lint.marked import DataError

_EPILOG = """\
examples:
  kbh problems list
  kbh problems show 01_fp8_gemm
  kbh problems check 04_kahan_softmax "$(kbh problems show 04_kahan_softmax --honest --target cpu)"
  kbh problems render 01_fp8_gemm --out workspace
  kbh problems ceilings --target h200
  kbh problems new 11_my_problem
  kbh problems mutate problems/11_my_problem     an ID may be the path of a problem's folder

exit codes: 0 all is well, 1 something is wrong with what was checked, 2 the work could not be done
"""


def parser() -> argparse.ArgumentParser:
    """The options of `kbh problems` and its subcommands."""
    ask = argparse.ArgumentParser(
        prog="kbh problems", description="The deck: list, show, write, render and check problems.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    ask.add_argument("--problems-dir", metavar="DIR", help="use these problems instead of the project's")
    commands = ask.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, text: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", epilog=f"example:\n  kbh problems {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip

    _reading(add)
    _running(add)
    return ask


_Add = Callable[[str, str, str], argparse.ArgumentParser]


def _reading(add: _Add) -> None:
    """Commands that need no torch."""
    one = add("new", "write the folder of a new problem, and say what is left to do", "new 11_my_problem")
    one.add_argument("id", metavar="ID", help="two digits, `_`, lower-case words: 11_my_problem")
    one.add_argument("--dir", metavar="DIR", help="the folder of problems to write it into (default: problems)")
    one = add("list", "list the problems", "list --format json")
    _format(one)
    one = add("show", "show a problem, or the path of one of its solutions", "show 01_fp8_gemm --honest")
    one.add_argument("id", metavar="ID")
    one.add_argument("--honest", action="store_true", help="print only the path of an honest solution")
    one.add_argument("--target", metavar="T", help="with --honest: one for this GPU, or one that a `cpu` can check")
    _format(one)
    one = add("render", "write the prompt, or the workspace that an agent gets", "render 01_fp8_gemm --out ws")
    one.add_argument("ids", metavar="ID", nargs="+", help="problems; with --out only one")
    one.add_argument(
        "--out", metavar="DIR", type=Path, help="a new folder for prompt, reference, contract and check.py"
    )
    one = add("ceilings", "print the least time of every shape and what decides it", "ceilings --target h200")
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--target", metavar="GPU", help="only this target")
    _format(one)


def _running(add: _Add) -> None:
    """Commands that run the problem's code or a submission."""
    one = add("check", "check a submission's results on every case", "check 01_fp8_gemm my.py --device cuda")
    one.add_argument("id", metavar="ID")
    one.add_argument("solution", type=Path, help="a Python file that defines Model")
    _check_options(one)
    text = "check a problem's own honest solutions and decoys, which must all be right"
    one = add("solutions", text, "solutions problems/11_my_problem")
    one.add_argument("id", metavar="ID")
    _check_options(one)
    one = add("flops", "hold the FLOP formulas against a count of the references", "flops 02_kda_cutlass")
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one = add("tolerance", "derive tolerances from the legal-precision model", "tolerance 01_fp8_gemm")
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--write", action="store_true", help="store the derivation in tolerance.json")
    one.add_argument("--device", default="cpu")
    one.add_argument(
        "--scale", choices=("sample", "reduced", "full"), default="sample", help="which shapes (default: sample)"
    )
    one.add_argument("--draws", metavar="N", type=int, help="how many keys")
    one = add("mutate", "run wrong kernels and say which case sees each", "mutate 03_paged_attention")
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--device", default="cpu")
    one.add_argument("--scale", choices=("full", "reduced"), default="reduced")
    one.add_argument("--seed", metavar="N", type=int, help="repeat a run (default: fresh seeds)")
    one.add_argument(
        "--only", metavar="MUTANT", action="append", default=[], help="only this mutant; may be given again"
    )
    _format(one)
    one = add("verify", "show that the deck holds, from stored evidence or on a GPU", "verify --device cuda --write")
    one.add_argument("ids", metavar="ID", nargs="*", help="problems; all graded ones when none is named")
    one.add_argument("--device", help="cuda: run everything there; without it the stored evidence is read back")
    one.add_argument("--write", action="store_true", help="store what was found as evidence")
    one.add_argument("--out", type=Path, metavar="DIR", help="a folder to store it in, instead of the deck")
    one.add_argument("--mutants", action="store_true", help="also run the mutants that need the graded shapes")
    one.add_argument("--jobs", type=int, default=0, metavar="N", help="submissions checked at once")
    one.add_argument("--timeout", type=float, default=420.0, metavar="S", help="seconds a submission may take in all")


def _check_options(one: argparse.ArgumentParser) -> None:
    one.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    one.add_argument("--scale", choices=("full", "reduced"), help="which shapes (default: full on a GPU, else reduced)")
    seed = "a public seed, for a check that can be repeated; may be given again (default: a fresh key)"
    one.add_argument("--seed", metavar="N", type=int, action="append", help=seed)
    one.add_argument(
        "--timeout", metavar="S", type=float, default=600.0, help="seconds for the submission's calls (default 600)"
    )
    text = "seconds for building: the import, compilers and the first calls (default 300)"
    one.add_argument("--cutlass", metavar="DIR", type=Path, help="a checkout of CUTLASS, whose headers may be included")
    one.add_argument("--all-cases", action="store_true", help="go on after the first wrong result")
    one.add_argument("--build-timeout", metavar="S", type=float, default=300.0, help=text)
    _format(one)


def _format(ask: argparse.ArgumentParser) -> None:
    ask.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def main(argv: Sequence[str] | None = None) -> int:
    """`kbh problems`. Returns the exit code."""
    try:
        args = parser().parse_args(argv)
    except SystemExit as done:
        return int(done.code or 0)
    try:
        if args.command in show.COMMANDS:
            return show.COMMANDS[args.command](args)

        return run.COMMANDS[args.command](args)
    except (CommandError, DataError) as error:
        return _trouble(str(error))
    except KeyboardInterrupt:
        print("kbh problems: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return TROUBLE
    except OSError as error:
        return _trouble(f"{error.filename or 'a file'}: {(error.strerror or str(error)).lower()}")
    except Exception as error:
        # The checker's own classes, without importing torch to name them.
        if type(error).__name__ in ("DeckError", "CheckError", "CutlassError", "PromptError", "InterpreterRefusal"):
            return _trouble(str(error))
        raise


def _trouble(text: str) -> int:
    print(f"kbh problems: error: {text}", file=sys.stderr)
    return TROUBLE


if __name__ == "__main__":
    raise SystemExit(main())
