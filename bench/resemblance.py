"""Prints how alike independent solutions of one problem are, and what is left of a solution after rewriting it.

    python bench/resemblance.py [CORPUS]

CORPUS is a folder of submissions whose names end in their problem's id. Pairs beyond the bounds of
harness.contamination.resemblance are named: between independent solutions there must be none. The deck's own honest
solutions and decoys are by one author, and often one is the other with a change.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import io
import keyword
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from harness.contamination.resemblance import (
    ALIKE,
    HELD,
    LEAST_HELD,
    LEAST_PRINTS,
    Library,
    known_library,
    prints,
    shares,
)
from kbh_lint.base.paths import problems_dir

Prints = Mapping[str, frozenset[int]]
BINS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0001)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns 0."""
    parser = argparse.ArgumentParser(description="How alike solutions are.")
    parser.add_argument("corpus", type=Path, nargs="?", help="a folder of submissions, named by their problems")
    args = parser.parse_args(argv)
    ids = sorted(path.parent.name for path in problems_dir().glob("*/reference.py"))
    libraries = {name: known_library(name) for name in ids}
    print(f"bounds: alike {ALIKE} with {LEAST_PRINTS} prints, held {HELD} with {LEAST_HELD} prints\n")
    print(_head())
    ours = {name: {k.label: k.prints - lib.given for k in lib.known} for name, lib in libraries.items()}
    honest = {name: {k: v for k, v in of.items() if k.startswith("honest")} for name, of in ours.items()}
    beyond = _row("our honest solutions", _pairs(honest))
    beyond += _row("our honest ones and decoys", _pairs(ours))
    if args.corpus is not None:
        theirs: dict[str, dict[str, frozenset[int]]] = defaultdict(dict)
        for file in sorted(args.corpus.glob("*.py")):
            name = next((name for name in ids if file.stem.endswith(name)), "")
            if name:
                text = file.read_text(encoding="utf-8", errors="replace")
                theirs[name][file.stem] = prints(text) - libraries[name].given
        beyond += _row("the corpus among itself", _pairs(theirs))
        across = [(a, b, x, y) for n in theirs for a, x in theirs[n].items() for b, y in ours[n].items()]
        beyond += _row("the corpus and ours", across)
    print("\nbeyond the bounds:")
    print("\n".join(f"  {line}" for line in beyond if "decoy" not in line) or "  none", "\n")
    _rewrites(libraries)
    return 0


def _pairs(groups: Mapping[str, Prints]) -> list[tuple[str, str, frozenset[int], frozenset[int]]]:
    return [(a, b, x, y) for of in groups.values() for (a, x), (b, y) in combinations(of.items(), 2)]


def _head() -> str:
    return (
        f"{'pairs by the share of the larger one':36}"
        + "".join(f"{low:>6.1f}" for low in BINS[:-1])
        + "   most  most held"
    )


def _row(what: str, pairs: Iterable[tuple[str, str, frozenset[int], frozenset[int]]]) -> list[str]:
    """Prints how many pairs are how much alike; returns those beyond the bounds."""
    counts, beyond, most, most_held = [0] * (len(BINS) - 1), [], 0.0, 0.0
    for a, b, x, y in pairs:
        first, alike, least = shares(x, y)
        held = max(first if len(y) >= LEAST_HELD else 0.0, shares(y, x)[0] if len(x) >= LEAST_HELD else 0.0)
        if least < LEAST_PRINTS:
            continue
        counts[next(at for at in range(len(counts)) if alike < BINS[at + 1])] += 1
        if alike >= ALIKE or (held >= HELD and least >= LEAST_HELD):
            beyond.append(f"{alike:.2f} alike, {held:.2f} held: {a} | {b}")
        else:
            most, most_held = max(most, alike), max(most_held, held if least >= LEAST_HELD else 0.0)
    print(f"{what:36}" + "".join(f"{count:6}" for count in counts) + f"   {most:.2f}  {most_held:.2f}")
    return beyond


# --- rewrites ----------------------------------------------------------------------------------------------


def _rewrites(libraries: Mapping[str, Library]) -> None:
    files = sorted(problems_dir().glob("*/honest/**/*.py"))
    print(
        f"{len(files)} honest solutions after a rewrite: share of prints kept (least, median), and how many are caught"
    )
    for what, rewrite in REWRITES.items():
        kept, caught = [], 0
        for file in files:
            name = next(part for part in file.parts if part in libraries)
            given = libraries[name].given
            text = file.read_text(encoding="utf-8")
            before, after = prints(text) - given, prints(rewrite(text)) - given
            held, alike, least = shares(after, before)
            kept.append(held)
            caught += alike >= ALIKE or (held >= HELD and least >= LEAST_HELD)
        kept.sort()
        print(f"  {what:44} {kept[0]:.2f}  {kept[len(kept) // 2]:.2f}  {caught} of {len(files)}")


def without_comments(text: str) -> str:
    """The text with other layout and no comments: Python's own printing of its syntax tree, C++ without comments."""
    return ast.unparse(_in_strings(ast.parse(text), lambda code: re.sub(r"//[^\n]*|/\*.*?\*/", "", code, flags=re.S)))


def renamed(text: str) -> str:
    """Every name that the file makes up gets another, in Python and in the CUDA inside."""
    tree = ast.parse(text)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} - {"self"}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)} - {"forward", "__init__"}
    known = set(dir(builtins)) | set(keyword.kwlist)
    new = {name: f"v{at}_{name[::-1]}" for at, name in enumerate(sorted(names - known)) if not name.startswith("__")}
    out: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        attribute = bool(out) and out[-1][1] == "."  # of torch, of the problem's state: they stay
        word = new.get(token.string, token.string) if token.type == tokenize.NAME and not attribute else token.string
        if token.type == tokenize.STRING and "{" in word:
            word = _renamed_cpp(word)
        out.append((token.type, word))
    return tokenize.untokenize(out)


def _renamed_cpp(code: str) -> str:
    names = set(re.findall(r"\b(?:const|auto|int|float|unsigned|uint32_t|int64_t|bool)[ *&]+([a-z]\w*)", code))
    names -= set("float int unsigned auto bool half char long const short double void".split())
    parts = re.split(r'("(?:\\.|[^"\\])*")', code)  # what stands in strings is PTX
    new = [
        re.sub(r"(?<![.:])(?<!->)\b[a-z]\w*\b", lambda m: f"z_{m[0]}" if m[0] in names else m[0], part)
        for part in parts
    ]
    return "".join(part if at % 2 else new[at] for at, part in enumerate(parts))


def other_numbers(text: str) -> str:
    """Every whole number above 1 is another one, in Python and in the CUDA inside."""

    def more(code: str) -> str:
        return re.sub(r"(?<![\w.])[2-9]\d*(?![\w.])", lambda m: str(int(m[0]) * 2 + 1), code)

    tree = _in_strings(ast.parse(text), more)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            node.value = node.value * 2 + 1
    return ast.unparse(tree)


def with_prints(text: str) -> str:
    """A statement that does nothing stands after every sixth statement of every function."""
    tree = ast.parse(text)
    idle = ast.parse("_ = (0, 'x')").body[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = [[one, idle] if at % 6 == 5 else [one] for at, one in enumerate(node.body)]
            node.body = [one for some in body for one in some]
    return ast.unparse(tree)


def functions_reordered(text: str) -> str:
    """Functions and methods stand in reverse order."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            at = [i for i, one in enumerate(node.body) if isinstance(one, ast.FunctionDef)]
            for i, one in zip(at, [node.body[i] for i in reversed(at)], strict=True):
                node.body[i] = one
    return ast.unparse(tree)


def _in_strings(tree: ast.Module, change: Callable[[str], str]) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" in node.value:
            node.value = change(node.value)
    return tree


REWRITES: Mapping[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "other layout, no comments": without_comments,
    "other names": renamed,
    "other numbers": other_numbers,
    "functions in another order": functions_reordered,
    "names, layout, comments, numbers together": lambda text: other_numbers(without_comments(renamed(text))),
    "an idle statement after every sixth": with_prints,
}

if __name__ == "__main__":
    sys.exit(main())
