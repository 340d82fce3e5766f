"""An engine for tests: it reads directives such as `# fact: ...` from a file and does as they say.

Directives: `fact KIND {json attrs}` on the line of the fact, `promise ID STATE`, `unread REASON`, `crash`, `hang`,
`raise`, `malformed FILE`, `contract NAME` (`deck` where there is none; `contract` alone: no contract).
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from kbh_lint.findings import Analysis, Fact, PromiseState, Unread
from kbh_lint.marked import DataError
from kbh_lint.source.spans import Span

_DIRECTIVE = re.compile(r"# do: (\w+) ?(.*)")


def analyse(submission: Any, *, problems_dir: Path, trace: bool, raise_errors: bool) -> Analysis:
    log = os.environ.get("FAKE_ENGINE_LOG")
    if log:
        with open(log, "a") as stream:
            stream.write(f"{submission.path}\n")
    facts: list[Fact] = []
    promises: list[PromiseState] = []
    unread: list[Unread] = []
    contract: str | None = "deck"
    for number, line in enumerate(submission.text.split("\n"), 1):
        found = _DIRECTIVE.search(line)
        if found is None:
            continue
        word, rest = found[1], found[2]
        if word == "crash":
            os._exit(7)
        elif word == "hang":
            time.sleep(60)
        elif word == "raise":
            raise KeyError(rest)
        elif word == "malformed":
            raise DataError(rest, 3, "it makes no sense")
        elif word == "contract":
            contract = rest or None
        elif word == "unread":
            unread.append(Unread(rest))
        elif word == "promise":
            name, state = rest.split()
            promises.append(PromiseState(name, state, {"shape one": state, "shape two": state}))  # type: ignore[arg-type]
        elif word == "fact":
            kind, _, attrs = rest.partition(" ")
            span = Span(str(submission.path), number, 1, number, max(2, found.start()))
            shapes = ("shape one",)
            facts.append(Fact(kind, json.loads(attrs or "{}"), span, shapes=shapes, total=2))
    lines = ("launch one", "launch two") if trace else None
    return Analysis(tuple(facts), tuple(promises), tuple(unread), contract, (), lines)
