"""The commands `kbh-lint` and `kbh`, and what the parsers of all commands share (`options`)."""

from __future__ import annotations

from kbh_lint.cli.kbh import COMMANDS, kbh_main
from kbh_lint.cli.lint import main, parser
from kbh_lint.cli.options import use_colour

__all__ = ["COMMANDS", "kbh_main", "main", "parser", "use_colour"]
