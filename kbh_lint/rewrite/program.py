"""What a rewrite works on, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from random import Random

from kbh_lint.base.records import dataclass
from kbh_lint.source.sidecars import split_bundle


class NotApplicable(Exception):
    """The rewrite finds nothing to change in this program, or cannot change it safely; the text says why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A solution and the files it loads, by name; `problem` and `contract` are ids, where they are known."""

    main: str
    sidecars: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    contract: str | None = None

    def with_main(self, text: str) -> Program:
        """The same program with another solution text."""
        return replace(self, main=text)

    def with_sidecar(self, name: str, text: str) -> Program:
        """The same program with one more file beside it."""
        return replace(self, sidecars={**self.sidecars, name: text})

    def bundle(self) -> str:
        """The whole program as one text, its sidecars in the blocks that `split_bundle` reads."""
        parts = [self.main if self.main.endswith("\n") or not self.sidecars else self.main + "\n"]
        for name, text in self.sidecars.items():
            size = len(text.encode())
            parts.append(f"# ===== sidecar: {name} ({size} bytes, loaded by solution.py) =====\n{text}")
            if not text.endswith("\n"):
                parts.append("\n")
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One way to rewrite. `apply` returns another program, or raises NotApplicable.

    `kinds` are the kinds of promise of which a program must keep one for a `leakify` rewrite to make sense
    (none: any program).
    """

    name: str
    text: str
    apply: Callable[[Program, Random], Program]
    kinds: frozenset[str] = frozenset()


def read_program(text: str, path: str) -> Program:
    """Reads a program from the text of a file, which may be a bundle."""
    main, sidecars, _ = split_bundle(text, path)
    return Program(main, {name: sidecar.text for name, sidecar in sidecars.items() if not sidecar.binary})
