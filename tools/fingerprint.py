"""Makes kbh_lint/fingerprints/libraries.bin: hashes of the functions of published libraries, never their text.

usage: fingerprint.py [--sources DIR] [-o FILE] [CONFIG.yaml]      fingerprint.py --list

The configuration, tools/fingerprint.yaml, lists libraries, and texts whose code is common property (tutorials):

    libraries:
      - {name: fla, version: "0.6.0", imports: [fla], licence: MIT, folders: [path, ...], skip: [folder names]}
      - {name: torch, imports: [torch], licence: BSD-3-Clause, parts: [paths in the package]}
    common: [path, ...]

`folders` and `common` are paths in --sources, where the libraries' sources were unpacked; `ours` are paths in this
repository. With neither, the installed package is read, or only `parts` of it, under its installed version.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
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
    ask.add_argument("--list", action="store_true", help="print what the committed file holds")
    ask.add_argument("-o", "--out", type=Path, default=DATA)
    args = ask.parse_args(argv)
    if args.list:
        sys.stdout.write(listing(load()))
        return 0
    config = yaml.safe_load(args.config.read_text(encoding="utf-8"))
    libraries: list[Library] = []
    found: list[tuple[int, Function]] = []
    for number, entry in enumerate(config["libraries"]):
        library, folders = _library(entry, args.sources)
        libraries.append(library)
        before = len(found)
        for folder in folders:
            _must_exist(folder)
            found += [(number, function) for function in functions(folder, tuple(entry.get("skip", ())))]
        print(f"{len(found) - before:6} functions of {library.name} {library.version}", file=sys.stderr)
    tutorials = [_must_exist(args.sources / folder) for folder in config.get("common", ())]
    common = {value for folder in tutorials for function in functions(folder) for value in grams(function)}
    data = make(libraries, found, common)
    args.out.write_bytes(data)
    print(f"{args.out}: {len(data):,} bytes", file=sys.stderr)
    return 0


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


def functions(folder: Path, skip: Sequence[str] = ()) -> Iterator[Function]:
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
                if function.tokens >= MIN_TOKENS:
                    name = path.name.partition(".")[0] if function.name == "kernel" else function.name
                    yield replace(function, name=name)


def _rendered(template: str) -> str:
    """A kernel template of torch.compile as Python: its head is a call in double braces, its choices are comments."""
    text = re.sub(r"\{%.*?%\}|\{#.*?#\}", "", template, flags=re.S)
    return re.sub(
        r"\{\{(.*?)\}\}", r"\1", re.sub(r"\{\{def_kernel\(.*?\)\}\}", "def kernel():", text, flags=re.S), flags=re.S
    )


def make(libraries: Sequence[Library], found: Sequence[tuple[int, Function]], common: set[int]) -> bytes:
    """The store of all functions that are still recognisable without what is common."""
    sets = [grams(function) - common for _, function in found]
    counts = Counter(value for values in sets for value in values)
    known: list[Known] = []
    owned: dict[int, list[int]] = {}
    seen: set[tuple[int, ...]] = set()
    for (library, function), values in zip(found, sets, strict=True):
        own = {value for value in values if counts[value] < EVERYBODY}
        kept = sketch(own)
        # half of it must be its own, and a copy of a function that is there already adds nothing
        if len(kept) < SKETCH or 2 * len(own) < len(grams(function)) or tuple(kept) in seen:
            continue
        seen.add(tuple(kept))
        owned[len(known)] = kept
        known.append(Known(library, function.name, function.tokens, len(kept)))
    return pack(libraries, known, owned)


if __name__ == "__main__":
    raise SystemExit(main())
