"""Makes kbh_lint/fingerprints/libraries.bin: hashes of the functions of published libraries, never their text.

usage: fingerprint.py [--add] [--sources DIR] [-o FILE] [CONFIG.yaml]      fingerprint.py --list

The configuration, tools/fingerprint.yaml, lists libraries, and texts whose code is common property (tutorials):

    libraries:
      - {name: fla, version: "0.6.0", imports: [fla], licence: MIT, folders: [path, ...], skip: [folder names]}
      - {name: torch, imports: [torch], licence: BSD-3-Clause, parts: [paths in the package]}
    common: [path, ...]

A library with `copied: true` is one that others copy from: what their functions have of it is not theirs, and a text
that holds it is named after its first author. --add reads these, and of the others only what the committed file lacks.

`folders` and `common` are paths in --sources, where the libraries' sources were unpacked; `ours` are paths in this
repository. With neither, the installed package is read, or only `parts` of it, under its installed version.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from kbh_lint.fingerprints.functions import CPP_SUFFIXES, Function, cpp_functions, python_functions
from kbh_lint.fingerprints.store import DATA, MIN_TOKENS, SKETCH, Known, Library, Store, grams, load, pack, sketch

ROOT = Path(__file__).resolve().parent.parent
MAX_BYTES = 4_000_000
SKIPPED = frozenset({"test", "tests", "testing", "benchmark", "benchmarks", "examples", "3rdparty", "third_party"})
EVERYBODY = 12  # a run of tokens that this many functions have says nothing about whose code it is


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    ask = argparse.ArgumentParser(description="Makes the fingerprints of libraries.")
    ask.add_argument("config", type=Path, nargs="?", default=ROOT / "tools/fingerprint.yaml")
    ask.add_argument("--sources", type=Path, default=Path("sources"), help="where the sources are (default: sources)")
    ask.add_argument("--add", action="store_true", help="keep what the committed file holds, and add what it lacks")
    ask.add_argument("--list", action="store_true", help="print what the committed file holds")
    ask.add_argument("-o", "--out", type=Path, default=DATA)
    args = ask.parse_args(argv)
    if args.list:
        sys.stdout.write(listing(load()))
        return 0
    config = yaml.safe_load(args.config.read_text(encoding="utf-8"))
    known = load() if args.add else None
    libraries: list[Library] = list(known.libraries) if known is not None else []
    found: list[tuple[int, Function]] = []
    lent: set[int] = set()
    for entry in config["libraries"]:
        if known is not None and not entry.get("copied") and _held(entry, known):
            continue
        library, folders = _library(entry, args.sources)
        every = [one for folder in folders for one in functions(_must_exist(folder), tuple(entry.get("skip", ())), 0)]
        if entry.get("copied"):
            lent |= {value for function in every for value in grams(function)}
        if known is None or library not in known.libraries:
            found += [(len(libraries), function) for function in every if function.tokens >= MIN_TOKENS]
            libraries.append(library)
        print(f"{len(every):6} functions of {library.name} {library.version}", file=sys.stderr)
    tutorials = [_must_exist(args.sources / folder) for folder in config.get("common", ()) if not args.add]
    common = {value for folder in tutorials for function in functions(folder) for value in grams(function)}
    copied = {entry["name"] for entry in config["libraries"] if entry.get("copied")}
    data = make(libraries, found, common, lent, copied, known)
    args.out.write_bytes(data)
    print(f"{args.out}: {len(data):,} bytes", file=sys.stderr)
    return 0


def _held(entry: dict[str, Any], store: Store) -> bool:
    """Whether a store has a library of the configuration; one that is read as it is installed, in any version."""
    return any(
        (one.name, list(one.imports)) == (entry["name"], entry["imports"])
        and entry.get("version") in (None, one.version)
        for one in store.libraries
    )


def listing(store: Store) -> str:
    """One line a library: name, version, licence, functions."""
    counts = Counter(known.origin for known in store.functions)
    rows = sorted((item.name, item.version, item.licence, counts[i]) for i, item in enumerate(store.libraries))
    return "".join(f"{name:<24} {version:<14} {licence:<14} {count:5}\n" for name, version, licence, count in rows)


def _must_exist(path: Path) -> Path:
    if not path.exists():
        raise SystemExit(f"{path}: there is nothing to read; unpack the sources there, or name another --sources")
    return path


def _library(entry: dict[str, Any], sources: Path) -> tuple[Library, list[Path]]:
    """A library of the configuration, and the folders to read."""
    imports = tuple(entry["imports"])
    folders = [sources / folder for folder in entry.get("folders", ())]
    folders += [ROOT / folder for folder in entry.get("ours", ())]
    version = entry.get("version")
    if not folders:
        spec = find_spec(imports[0])
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"{imports[0]} is not installed, and no folders were given for it")
        root = Path(spec.submodule_search_locations[0])
        folders = [root / part for part in entry.get("parts", [""])]
        version = metadata.version(entry.get("package", entry["name"]))
    return Library(entry["name"], str(version), imports, entry["licence"]), folders


def functions(folder: Path, skip: Sequence[str] = (), least: int = MIN_TOKENS) -> Iterator[Function]:
    """The functions of a folder's sources that are long enough, in the order of files; a file may be given too."""
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    for path in paths:
        inside = set(path.relative_to(folder).parts[:-1]) if path != folder else set()
        if inside & (SKIPPED | set(skip)) or not path.is_file() or path.stat().st_size > MAX_BYTES:
            continue
        if path.suffix in (".py", ".jinja", *CPP_SUFFIXES):
            text = path.read_text(encoding="utf-8", errors="replace")
            text = _rendered(text) if path.suffix == ".jinja" else text
            read = cpp_functions if path.suffix in CPP_SUFFIXES else python_functions
            for function in read(text):
                if function.tokens >= least:
                    name = path.name.partition(".")[0] if function.name == "kernel" else function.name
                    yield replace(function, name=name)


def _rendered(template: str) -> str:
    """A kernel template of torch.compile as Python: its head is a call in double braces, its choices are comments."""
    text = re.sub(r"\{%.*?%\}|\{#.*?#\}", "", template, flags=re.S)
    return re.sub(
        r"\{\{(.*?)\}\}", r"\1", re.sub(r"\{\{def_kernel\(.*?\)\}\}", "def kernel():", text, flags=re.S), flags=re.S
    )


def make(
    libraries: Sequence[Library],
    found: Sequence[tuple[int, Function]],
    common: set[int],
    lent: Set[int] = frozenset(),
    lenders: Container[str] = (),
    base: Store | None = None,
) -> bytes:
    """The store of all functions that are still recognisable without what is common, and without what is `lent`: a part
    of the libraries named in `lenders`. What is in `base` stays in it, without what is lent."""
    sets = [grams(function) - common for _, function in found]
    counts = Counter(value for values in sets for value in values)
    known: list[Known] = []
    owned: dict[int, list[int]] = {}
    seen: set[tuple[int, ...]] = set()
    for one, kept in _held_by(base) if base is not None else ():
        own = kept if libraries[one.origin].name in lenders else [value for value in kept if value not in lent]
        if 2 * len(own) >= len(kept):
            seen.add(tuple(kept))
            owned[len(known)] = own
            known.append(one._replace(kept=len(own)))
    for (library, function), values in zip(found, sets, strict=True):
        theirs = values if libraries[library].name in lenders else values - lent
        rare = {value for value in theirs if counts[value] < EVERYBODY}
        kept = sketch(rare)
        # half of it must be its own, and a copy of a function that is there already adds nothing
        if len(kept) < SKETCH or 2 * len(rare) < len(grams(function)) or tuple(kept) in seen:
            continue
        seen.add(tuple(kept))
        owned[len(known)] = kept
        known.append(Known(library, function.name, function.tokens, len(kept)))
    return pack(libraries, known, owned)


def _held_by(store: Store) -> Iterator[tuple[Known, list[int]]]:
    """The functions of a store, each with its hashes in the order of a sketch."""
    owned: dict[int, list[int]] = {}
    for value, owner in zip(store.hashes, store.owners, strict=True):
        owned.setdefault(owner, []).append(value)
    return ((known, sketch(owned[index])) for index, known in enumerate(store.functions))


if __name__ == "__main__":
    raise SystemExit(main())
