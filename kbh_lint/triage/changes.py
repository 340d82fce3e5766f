"""Which files changed: since a revision of git, or by a unified diff.

The unit is a file, not a line. What a submission measures depends on all of its text: a cast that is added on one line
turns a product on another into a leak, so findings on unchanged lines of a changed file are news too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from kbh_lint.base.errors import UsageError

MAX_DIFF_BYTES = 64 * 1024**2
TIMEOUT_S = 60.0
SUFFIXES = (".diff", ".patch")
# No character fits two parts of a pattern: diffs come from strangers, and a search must not have to go back.
_HEADER = re.compile(r'^(?:\+\+\+ |--- |rename to )("?)([^\t\n"\\]*(?:\\.[^\t\n"\\]*)*)\1', re.M)
_GIT_HEADER = re.compile(r"^diff --git a/(.+)$", re.M)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")


class Changes:
    """A set of changed files by their real paths."""

    def __init__(self, files: Iterable[str | Path]) -> None:
        self._files = frozenset(os.path.realpath(file) for file in files)

    def has(self, path: Path) -> bool:
        """Whether this file changed."""
        return os.path.realpath(path) in self._files

    def below(self, folder: Path) -> bool:
        """Whether any file below a folder changed."""
        start = os.path.realpath(folder).rstrip(os.sep) + os.sep
        return any(file.startswith(start) for file in self._files)


def read(given: str, paths: Sequence[Path]) -> Changes:
    """The changes that `--diff` names: `-` (standard input) or a file *.diff or *.patch is a unified diff whose paths
    are relative to the current folder; anything else is a revision of git, compared with the files as they are.

    Raises UsageError: no such diff or revision, no git, or one of `paths` outside the work tree.
    """
    if given == "-" or (given.endswith(SUFFIXES) and Path(given).is_file()):
        return _of_diff(given)
    return _since(given, paths)


# --- a unified diff ----------------------------------------------------------------------------------------


def _of_diff(given: str) -> Changes:
    try:
        if given == "-":
            data = sys.stdin.buffer.read(MAX_DIFF_BYTES + 1)
        else:
            with open(given, "rb") as stream:
                data = stream.read(MAX_DIFF_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{given}: the diff cannot be read ({(error.strerror or 'unknown error').lower()})") from None
    if len(data) > MAX_DIFF_BYTES:
        raise UsageError(f"{given}: a diff may have at most {MAX_DIFF_BYTES // 1024**2} MB")
    names = diff_names(data.decode("utf-8", "surrogateescape"))
    files = [file for name in names for file in (Path(name), Path(name.partition("/")[2] or name)) if file.is_file()]
    if names and not files:
        raise UsageError(f"{given}: none of the {len(names)} files it names is there; run this where its paths begin")
    return Changes(files)


def diff_names(text: str) -> list[str]:
    """The paths that a unified diff names, prefixes such as `b/` still on; a line of a hunk that looks like a header
    only adds a name."""
    names = [_plain(match[2]) if match[1] else match[2].rstrip() for match in _HEADER.finditer(text)]
    for match in _GIT_HEADER.finditer(text):  # the same path twice, as nothing else says where the first one ends
        first, between, second = match[1][: (len(match[1]) - 3) // 2], " b/", match[1][(len(match[1]) + 3) // 2 :]
        names += [f"b/{first}"] if match[1] == first + between + second and first == second else []
    return [name for name in dict.fromkeys(names) if name and name != "/dev/null" and "\0" not in name]


def _plain(quoted: str) -> str:
    """A path that git put in quotes, with its escapes undone."""

    def byte(match: re.Match[bytes]) -> bytes:
        if match[1].isdigit():
            return bytes([int(match[1], 8) & 0xFF])
        return {b"n": b"\n", b"t": b"\t"}.get(match[1], match[1])

    return _ESCAPE.sub(byte, quoted.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


# --- git ---------------------------------------------------------------------------------------------------


def _since(revision: str, paths: Sequence[Path]) -> Changes:
    top = _git(["rev-parse", "--show-toplevel"], None)
    if top is None:
        raise UsageError(
            f"--diff {revision}: the current folder is in no git work tree; a file *.diff or *.patch needs none"
        )
    root = top.decode("utf-8", "surrogateescape").rstrip("\n")
    inside = os.path.realpath(root).rstrip(os.sep) + os.sep
    for path in paths:
        if not (os.path.realpath(path) + os.sep).startswith(inside):
            raise UsageError(f"--diff {revision}: {path} lies outside the git work tree {root}")
    commit = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], root)
    if commit is None:
        raise UsageError(f"--diff {revision}: git knows no such revision, and there is no such *.diff or *.patch file")
    asked = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "-z", commit.decode().strip()]
    changed = _git([*asked, "--"], root)
    new = _git(["ls-files", "--others", "--exclude-standard", "-z"], root)
    if changed is None or new is None:
        raise UsageError(f"--diff {revision}: git could not compare the files with it")
    names = [name.decode("utf-8", "surrogateescape") for name in (changed + new).split(b"\0") if name]
    return Changes(Path(root, name) for name in names)


def _git(command: list[str], folder: str | None) -> bytes | None:
    """What git answers; None when it refuses. Nothing that a repository's configuration names is run for us."""
    calm = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]
    try:
        done = subprocess.run(
            [*calm, *command], cwd=folder, env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UsageError("--diff with a revision needs git, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git took longer than {TIMEOUT_S:g} s to say what changed") from None
    return done.stdout if done.returncode == 0 else None
