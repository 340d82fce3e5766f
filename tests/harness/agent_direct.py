"""Runs a CLI straight against the scripted upstream, without a room: for tests of adapters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.agents.base import Adapter, Job, Said
from harness.agents.install import Installed
from harness.record.usage import Usage
from harness.scripted.script import Case, Script, Shell, Turn, Write
from harness.scripted.server import Served, Upstream

SOLUTION = "import os\n\n# \u00fcn\u00efcode & <tags> $HOME `x` \"q\" 'q' \\n\n\nanswer = 42\n"
RAN = "it-ran-well"


def works() -> Script:
    """Writes a file, runs it, and ends by what came of that."""
    write = Case("", "I write it.", "Let me think.", (Write("solution.py", SOLUTION),), Usage(1200, 340, 100, 0, 20))
    check = Case("", "I run it.", "", (Shell(f"python3 solution.py && echo {RAN}"),), Usage(1500, 50, 1200))
    done = Case(RAN, "Done: it ran.", usage=Usage(1700, 30, 1500))
    return Script((Turn((write,)), Turn((check,)), Turn((done, Case("", "It failed.", usage=Usage(1, 1))))))


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run. `status` is None where it was ended for its time."""

    status: int | None
    said: tuple[Said, ...]
    usage: Usage | None
    served: tuple[Served, ...]
    told: Usage
    workspace: Path
    errors: str


def run(
    adapter: Adapter, script: Script, base: Path, there: Installed | None = None, *, seconds: float = 90.0,
    prompt: str = "Write solution.py and run it.", arguments: Sequence[str] = (),
) -> Ran:  # fmt: skip
    """Starts it once. What it started is gone afterwards."""
    workspace, home = base / "workspace", base / "home"
    for folder in (workspace, home, base / "tmp"):
        folder.mkdir(parents=True)
    prefix = there.folder if there else base
    node = there.node if there and there.node else base
    with Upstream(script, workspace=str(workspace)) as upstream:
        job = Job(
            "kbh-model", prompt, upstream.url, "stand-in-key", "", PurePosixPath(workspace), PurePosixPath(home),
            PurePosixPath(prefix), PurePosixPath(node), tuple(arguments),
        )  # fmt: skip
        launch = adapter.launch(job)
        for name, data in launch.files.items():
            place = home / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        env = {**launch.env, "PATH": f"{Path(sys.executable).parent}:{launch.env['PATH']}"}
        with (base / "out").open("wb") as out, (base / "err").open("wb") as err:
            child = subprocess.Popen(
                launch.argv, env=env, cwd=workspace, stdin=subprocess.PIPE, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
            try:
                child.communicate(launch.stdin, timeout=seconds)
                status: int | None = child.returncode
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
        served, told = upstream.served, upstream.usage
    lines = (base / "out").read_text(errors="replace").splitlines()
    said = tuple(item for line in lines for item in adapter.read(line))

    def files(pattern: str) -> Iterable[tuple[str, bytes]]:
        for path in sorted(home.glob(pattern)):
            yield str(path.relative_to(home)), path.read_bytes()

    errors = (base / "err").read_text(errors="replace")[-2000:]
    return Ran(status, said, adapter.usage(said, files), served, told, workspace, errors)
