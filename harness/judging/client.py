"""Asks the judge outside this room about solution.py: right or not (check.py), how fast (benchmark.py).

    python check.py               every case on public seeds, and what the linter says
    python benchmark.py           practice times on a public seed; only a grading gives a score that counts
    python check.py other.py      the same for another file, as if it were solution.py

Sends solution.py, CUDA and C++ sources beside it, and other sources that these name. Where it stands goes to standard
error, the result to standard output. Exit status: 0 right, 1 wrong, 2 it could not be judged.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

WHAT = "check"
JUDGE = os.environ.get("KBH_JUDGE", "http://127.0.0.1:4040")
RIGHT, WRONG, TROUBLE = 0, 1, 2
CUDA = {".cu", ".cuh", ".h", ".hpp", ".hh", ".hxx", ".inl", ".inc", ".c", ".cc", ".cpp", ".cxx", ".ptx"}
TEXTS = CUDA | {".metal", ".mm", ".txt", ".json", ".py"}
GIVEN = {"check.py", "benchmark.py", "reference.py", "run.json", "result.json", "check.log", "benchmark.log", "record"}
MOST_FILES, MOST_BYTES, MOST_TOTAL, MOST_FOLDERS, MOST_LISTED = 64, 2_000_000, 8_000_000, 6, 20_000
SILENT_S = 120.0
SAY_S = 10.0  # between lines that tell of progress within a stage


class Trouble(Exception):
    """It could not be judged; the text is one sentence."""


def main(argv: list[str]) -> int:
    """Asks, prints, and returns the exit status."""
    if len(argv) > 1 or argv[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return RIGHT if argv[:1] in (["-h"], ["--help"]) else TROUBLE
    try:
        return asked(submission(Path(argv[0] if argv else Path(__file__).resolve().parent / "solution.py")))
    except Trouble as error:
        print(f"{WHAT}: error: {error}", file=sys.stderr)
        return TROUBLE
    except KeyboardInterrupt:
        return 130


def submission(solution: Path) -> dict[str, bytes]:
    """The solution with the files beside it that it may load. Raises Trouble."""
    try:
        found = {"solution.py": solution.read_bytes()}
    except OSError as error:
        raise Trouble(f"{solution}: {(error.strerror or str(error)).lower()}") from None
    there = dict(sources(solution.resolve().parent))
    there.pop(solution.name, None)
    pending, total, left = [found["solution.py"]], 0, 0
    while pending:
        text = pending.pop()
        for name in sorted(there.keys() - found.keys()):
            if os.path.splitext(name)[1].lower() not in CUDA and not named(name, text):
                continue
            path = there.pop(name)
            size = path.stat().st_size if path.is_file() else 0
            if size > MOST_BYTES or total + size > MOST_TOTAL or len(found) > MOST_FILES or not name.isascii():
                left += 1
                continue
            found[name] = path.read_bytes()
            total += size
            pending.append(found[name])
    if left:
        print(f"{WHAT}: {left} files beside it are left out: too many, too large, or of odd names", file=sys.stderr)
    return found


def sources(folder: Path) -> list[tuple[str, Path]]:
    """(name relative to the folder, path) of each text file below it that a solution may load."""
    found: list[tuple[str, Path]] = []
    pending = [(folder, "", 0)]
    while pending and len(found) < MOST_LISTED:
        here, prefix, depth = pending.pop()
        for entry in sorted(os.scandir(here), key=lambda entry: entry.name):
            if entry.is_symlink() or entry.name.startswith(".") or (not prefix and entry.name in GIVEN):
                continue
            if entry.is_dir():
                if depth < MOST_FOLDERS and entry.name != "__pycache__":
                    pending.append((here / entry.name, f"{prefix}{entry.name}/", depth + 1))
            elif os.path.splitext(entry.name)[1].lower() in TEXTS and entry.is_file():
                found.append((prefix + entry.name, here / entry.name))
    return found


def named(name: str, text: bytes) -> bool:
    """Whether a text mentions a file, by its name or as a module."""
    base = os.path.basename(name).encode("utf-8", "replace")
    return base in text or (base.endswith(b".py") and base[:-3] in text)


def asked(files: dict[str, bytes]) -> int:
    """Sends the files and prints what comes back; the exit status. Raises Trouble."""
    place = urlsplit(JUDGE)
    body = json.dumps({"files": {name: base64.b64encode(data).decode() for name, data in files.items()}})
    link = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=SILENT_S)
    try:
        link.request("POST", f"{place.path.rstrip('/')}/judge/{WHAT}", body, {"Content-Type": "application/json"})
        answer = link.getresponse()
        if answer.status != 200:
            raise Trouble(refusal(answer))
        return followed(answer)
    except ConnectionRefusedError:
        raise Trouble(f"the judge cannot be reached at {JUDGE}; the run has ended, or KBH_JUDGE is wrong") from None
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Trouble(f"the judge at {JUDGE} did not answer ({' '.join(reason.split())[:200]}); ask again") from None
    finally:
        link.close()


def refusal(answer: http.client.HTTPResponse) -> str:
    """The reason why the judge refused, from its answer."""
    try:
        return str(json.loads(answer.read(1 << 20))["error"])
    except (ValueError, LookupError, TypeError):
        return f"the judge at {JUDGE} answered with HTTP status {answer.status}"


def followed(answer: http.client.HTTPResponse) -> int:
    """Prints events up to the result. Raises Trouble when there is none."""
    began, told, shown = time.monotonic(), "", -SAY_S
    for line in answer:
        event = json.loads(line)
        if event["event"] == "result":
            print(event["text"].rstrip("\n"), flush=True)
            return int(event["code"])
        now = time.monotonic() - began
        if event["event"] == "say":
            stage = event["text"].split(": ")[0]
            if stage != told or now > shown + SAY_S:
                told, shown = stage, now
                print(f"{WHAT}: {event['text']}", file=sys.stderr, flush=True)
        elif now > shown + SAY_S:
            shown = now
            print(f"{WHAT}: {'waiting' if event['waits'] else 'working'}, {now:.0f} s", file=sys.stderr, flush=True)
    raise Trouble("the judge ended before there was a result; ask again")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
