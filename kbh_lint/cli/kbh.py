"""`kbh`, which hands its first word on: the table of commands, each loaded when it is asked for.

The linter needs neither grader nor harness.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from kbh_lint.base.version import __version__
from kbh_lint.cli import subcommands
from kbh_lint.cli.lint import main
from kbh_lint.cli.options import CLEAN, TROUBLE


def _kbh_lint(argv: Sequence[str]) -> int:
    return main(argv, prog="kbh lint")


def _kbh_evade(argv: Sequence[str]) -> int:
    return subcommands.rewriting(False, argv, "kbh evade")


def _kbh_leakify(argv: Sequence[str]) -> int:
    return subcommands.rewriting(True, argv, "kbh leakify")


def _later(module: str) -> Callable[[Sequence[str]], int]:
    """The `main` of a module that is loaded only when it is called: the linter needs neither grader nor harness.

    A module that says what to install where something is missing is quoted in one line.
    """

    def command(argv: Sequence[str]) -> int:
        try:
            found = import_module(module)
        except ImportError as error:
            if "pip install" not in str(error):
                raise
            print(f"kbh: error: {error}", file=sys.stderr)
            return TROUBLE
        return int(found.main(argv))

    return command


def _kbh_show(argv: Sequence[str]) -> int:
    """Bundles by their folders, or entries of an archive."""
    of_archive = any(word == "--archive" or word.startswith("--archive=") for word in argv)
    return _later("harness.archive.show_cli" if of_archive else "grader.cli.show")(argv)


# A subcommand of `kbh`: its function and one line of help.
COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "lint": (_kbh_lint, "say what a submission's score measures, from its source"),
    "evade": (_kbh_evade, "rewrite a submission so that it means the same, and see whether the linter agrees"),
    "leakify": (_kbh_leakify, "rewrite an honest submission so that it leaks, and see whether the linter notices"),
    "grade": (_later("grader.cli.grade"), "run a submission: is it right, how fast, and what does that number measure"),
    "show": (_kbh_show, "print what a grading found, or check its bundle"),
    "run": (
        _later("harness.running.cli"),
        "let a coding agent work on a problem in a sealed room, and grade what it made",
    ),
    "view": (_later("harness.view.cli"), "make a page of a run: steps, solution, findings, score over time"),
    "agents": (_later("harness.agents.cli"), "list, install and check the coding CLIs that can be run"),
    "sweep": (_later("harness.sweep.cli"), "run a matrix of agents, models, problems and targets, each cell once"),
    "replay": (_later("harness.running.replay_cli"), "run an agent against a conversation that was written down"),
    "archive": (_later("harness.archive.cli"), "keep runs and gradings where they cannot change, and merge archives"),
    "ls": (_later("harness.archive.ls_cli"), "list the runs and gradings of an archive"),
    "site": (_later("harness.site.cli"), "write the public pages of an archive: leaderboard, heatmap, runs, problems"),
    "stats": (_later("harness.board.stats_cli"), "say what the runs of an archive allow to say of their models"),
    "verify": (_later("harness.release.verify_cli"), "check every file of an archive, or all that a release says"),
    "release": (_later("harness.release.cli"), "make of an archive what others can check without a GPU"),
    "regrade": (_later("harness.archive.regrade_cli"), "grade what an archive holds again, and say what changed"),
    "audit": (_later("harness.audit.cli"), "lint a published archive, and hold its annotations against the result"),
    "problems": (_later("grader.cli.problems"), "list, show, write, render and check the problems of the deck"),
    "hardware": (_later("grader.cli.hardware"), "list the targets, and measure this machine"),
    "sass": (_later("grader.cli.sass"), "say what kernels can execute, from their machine code"),
}


def kbh_main(argv: Sequence[str] | None = None) -> int:
    """`kbh`: hands the rest of the command line to the subcommand that the first word names."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        return COMMANDS[words[0]][0](words[1:])
    if words and words[0] == "--version":
        print(f"kbh {__version__}")
        return CLEAN
    usage = "usage: kbh COMMAND [OPTIONS]\n\ncommands:\n"
    usage += "".join(f"  {name:<10} {text}\n" for name, (_, text) in COMMANDS.items())
    usage += "\nkbh COMMAND --help says more about one.\n"
    if words and words[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage)
        return CLEAN
    sys.stderr.write(f"kbh: error: there is no command {words[0]!r}\n\n{usage}" if words else usage)
    return TROUBLE
