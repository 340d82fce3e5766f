"""The first words of `kbh-lint` that are no paths; each loads what it needs when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial


def lsp(argv: Sequence[str], prog: str) -> int:
    """Runs `kbh-lint lsp`; returns the exit code."""
    from kbh_lint.lsp import command  # start-up: `--help` does without it

    return command.main(argv, prog)


def rewriting(leaks: bool, argv: Sequence[str], prog: str) -> int:
    """Runs `kbh-lint leakify` where `leaks` is true, else `kbh-lint evade`; returns the exit code."""
    from kbh_lint.rewrite import cli  # start-up: `--help` does without it

    return (cli.leakify if leaks else cli.evade)(argv, prog)


# First words that are no paths; a file or folder of such a name is written `./evade`.
SUBCOMMANDS: dict[str, Callable[[Sequence[str], str], int]] = {
    "evade": partial(rewriting, False),
    "leakify": partial(rewriting, True),
    "lsp": lsp,
}
