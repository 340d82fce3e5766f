"""Grades hostile submissions and their twins by the real path, and looks at what they left behind.

A case is `cases/NAME.py`, its twin `cases/NAME_twin.py`; what must happen is in cases.yaml. Submissions that try to
reach something outside read from facts.json, beside them, where it is: they print BREACH when they got there and TRIED
when they did not.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
CASES = HERE / "cases"
DECK = HERE / "deck"
PROBLEM = "h_product"
PROOFS = {
    "value": "compared with the oracle",
    "contract": "the output contract",
    "clock": "the judge's clock",
    "stack": "a stack without the grader's frames",
    "sandbox": "the sandbox",
    "budget": "a limit of time or memory",
    "channel": "the channel",
    "snapshot": "the read-only snapshot and private caches",
    "evidence": "the evidence pass",
}
# What is true of every twin, and no accusation here: torch makes the product.
TORCH_RULES = frozenset({"KBH110", "KBH112", "KBH113", "KBH114", "KBH115", "KBH116", "KBH117"})
NOISE = 0.75  # on a busy machine the overhead that is taken off may have been measured in a worse moment
SLOW = "far more than its"  # what is said of an honest twin that was charged too much
BUSY_MS = 40.0  # that a twin of little work may be charged there: processes wait for each other that long
MARKER = "KBH_HOSTILE"


@dataclass(frozen=True)
class HostileCase:
    """A submission and what must become of it.

    `outcomes` are the ones allowed; `reason` must match what the cell says. Where the attack is on time, no shape may
    get less than `least_ms`, or less than that share of what the twin gets. Of work that is `shown_alone`, what a call
    alone denies on this host counts: less where an empty one costs more. With `tried`, its log must show that the
    attack was made. `each_kind` has it graded in every closed kind of sandbox, and `control` run without one, where it
    must get through. Where a time is too long or held against the twin's, or all memory is taken, the case is `alone`
    on a GPU, which others would disturb. `scratch_gib` is how much it may have on the disk, where that is less than
    usual.
    """

    name: str
    outcomes: tuple[str, ...]
    proof: str
    reason: str = ""
    device: str = "cpu"
    least_ms: float = 0.0
    shown_alone: bool = False
    share_of_twin: float = 0.0
    tried: bool = False
    evidence: bool = False
    strict: bool = False
    each_kind: bool = False
    control: bool = False
    alone: bool = False
    scratch_gib: float = 0.0
    timeout: float = 60.0
    samples: int = 4

    @property
    def file(self) -> Path:
        """The attack."""
        return CASES / f"{self.name}.py"

    @property
    def twin(self) -> Path:
        """The honest submission that looks like it."""
        return CASES / f"{self.name}_twin.py"

    @property
    def idea(self) -> str:
        """What it tries, in one sentence."""
        return idea(self.file)


def idea(file: Path) -> str:
    """The first line of a submission's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()[0]


def load_cases() -> tuple[HostileCase, ...]:
    """The cases of cases.yaml, in its order."""
    rows: list[dict[str, Any]] = yaml.safe_load((HERE / "cases.yaml").read_text())
    return tuple(HostileCase(**{**row, "outcomes": tuple(row["outcomes"].split())}) for row in rows)


@dataclass(frozen=True)
class Graded:
    """A cell, all bytes of its bundle, what the submission printed, and what it should not have left behind."""

    cell: Any
    data: bytes
    log: str
    left: tuple[str, ...]


class World:
    """What a submission must not reach: a tree of files, a server, a process, an open file, a variable."""

    def __init__(self, out: Path) -> None:
        self.tree = Path(tempfile.mkdtemp(prefix="kbh-canary-", dir="/tmp"))
        self.scratch = Path(tempfile.mkdtemp(prefix="kbh-scratch-", dir="/tmp"))
        self.scratch.chmod(0o755)
        self.out, self.deck = out / "bundles", out / "deck"
        shutil.copytree(DECK, self.deck)
        shutil.copy(REPOSITORY / "problems" / "hardware.yaml", self.deck)
        (self.tree / "secret.txt").write_text(secrets.token_hex(16))
        (self.tree / "folder").mkdir()
        (self.tree / "folder" / "more.txt").write_text("more")
        for path in (self.tree, *self.tree.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        self.secret = (self.tree / "secret.txt").open("rb")
        os.set_inheritable(self.secret.fileno(), True)
        self.token = f"{MARKER}-{secrets.token_hex(16)}"
        os.environ["KBH_HOSTILE_TOKEN"] = self.token
        self.victim = subprocess.Popen(["sleep", "3600"], env={**os.environ}, start_new_session=True)
        self._listen()
        self.before = self._state()

    def _listen(self) -> None:
        tcp, udp, local = socket.socket(), socket.socket(type=socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
        tcp.bind(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", self.port))
        local.bind(f"\0kbh-hostile-{self.port}")
        for link in (tcp, local):
            link.listen()
        self.links = {"TCP": tcp, "UDP": udp, "a local socket": local}
        for link in self.links.values():
            link.setblocking(False)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Where all of it is, for the submissions."""
        return {
            "canary": str(self.tree), "port": self.port, "judge": os.getpid(), "victim": self.victim.pid,
            "deck": str(DECK), "problems": str(REPOSITORY / "problems"), "repository": str(REPOSITORY),
        }  # fmt: skip

    def close(self) -> None:
        """Ends the victim and removes the tree."""
        self.victim.kill()
        self.victim.wait()
        self.secret.close()
        for link in self.links.values():
            link.close()
        subprocess.run(["rm", "-rf", str(self.tree), str(self.scratch)], check=False)  # rmtree fails on deep trees
        os.environ.pop("KBH_HOSTILE_TOKEN", None)

    def recover(self) -> None:
        """Forgets what an attack outside a sandbox did on purpose."""
        list(self.left(0, frozenset()))
        self.before = self._state()

    def _state(self) -> str:
        """Names, modes, times and bytes of the tree."""
        digest = hashlib.sha256()
        for path in sorted(self.tree.rglob("*")):
            info = path.lstat()
            data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            digest.update(repr((str(path), info.st_mode, info.st_mtime_ns, info.st_nlink, data)).encode())
        return digest.hexdigest()

    def left(self, uid: int, before: Set[int]) -> Iterator[str]:
        """What was reached or left, one sentence each.

        `uid` is the user that the submission ran as, `before` the processes that were there before it.
        """
        if self._state() != self.before:
            yield "the files outside are not what they were"
        if self.victim.poll() is not None:
            yield "a process outside was ended"
        for name, link in self.links.items():
            try:
                while True:
                    link.recv(1) if name == "UDP" else link.accept()[0].close()
                    yield f"it connected by {name}"
            except BlockingIOError:
                continue
        for pid, parent, owner in processes():
            if pid in before:
                continue
            if parent == os.getpid() or (owner == uid and uid not in (0, os.getuid())):
                yield f"the process {pid} is left"
        for path in self.scratch.glob("*/*"):
            if path.name != ".lock":
                yield f"{path} is left in the scratch folder"
        for place in (REPOSITORY, HERE, Path("/var/tmp")):
            if (place / "kbh-hostile.txt").exists():
                yield f"it wrote to {place}"


def processes() -> Iterator[tuple[int, int, int]]:
    """(number, parent, real user) of every process that is no zombie."""
    for name in os.listdir("/proc"):
        try:
            lines = dict(re.findall(r"^(\w+):\t(.*)$", Path("/proc", name, "status").read_text(), re.M))
        except OSError:
            continue
        if name.isdigit() and not lines["State"].startswith("Z"):
            yield int(name), int(lines["PPid"]), int(lines["Uid"].split()[0])


def place(file: Path, world: World, folder: Path) -> Path:
    """A copy of a submission with the sidecars that it reads."""
    copy = folder / file.name
    text = file.read_text()
    copy.write_text(text)
    (folder / "facts.json").write_text(json.dumps(world.facts))
    for path in CASES.iterdir():
        if path.suffix == ".txt" or f"import {path.stem}\n" in text:
            (folder / path.name).write_text(path.read_text())
    return copy


@contextmanager
def scratch_in(folder: Path) -> Iterator[None]:
    """Has everything temporary of this process made below a folder."""
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before[0]
        os.environ.pop("TMPDIR")
        if before[1] is not None:
            os.environ["TMPDIR"] = before[1]


@contextmanager
def scratch_of(gib: float) -> Iterator[None]:
    """Has submissions have so much on the disk, and no more; 0 leaves it at what is usual."""
    from grader.sandbox.disk import SCRATCH_GIB

    if gib:
        os.environ[SCRATCH_GIB] = str(gib)
    try:
        yield
    finally:
        os.environ.pop(SCRATCH_GIB, None)


def grade_file(file: Path, case: HostileCase, world: World, folder: Path, sandbox: str = "auto") -> Graded:
    """Grades one submission by the real path."""
    from grader.grading.grade import Request, grade

    request = Request(
        submission=place(file, world, folder), problem=PROBLEM, target=case.device if case.device == "cpu" else "auto",
        strict=case.strict, samples=case.samples, evidence=case.evidence, sandbox=sandbox, timeout=case.timeout,
        build_timeout=case.timeout,
        out=world.out, problems_dir=world.deck, fresh=True,
    )  # fmt: skip
    before = frozenset(pid for pid, _, _ in processes())
    with scratch_in(world.scratch), scratch_of(case.scratch_gib):
        cell, bundle = grade(request)
    data = b"".join(path.read_bytes() for path in sorted(bundle.rglob("*")) if path.is_file())
    logs = [trial.log for trial in cell.trials if trial.log]
    log = "".join((bundle / "objects" / name[:2] / name).read_text("utf-8", "replace") for name in logs)
    uid = cell.trials[0].sandbox.uid if cell.trials else 0
    left = list(world.left(uid, before))
    if world.token.encode() in data:
        left.append("a secret of the judge's environment is in the bundle")
    return Graded(cell, data, log, tuple(left))


def faults(case: HostileCase, got: Graded) -> list[str]:
    """Why a hostile submission was not contained as its case says; none when it was."""
    cell = got.cell
    said = f"{cell.outcome}: {cell.reason} | " + " | ".join(
        f.message for f in cell.verdict.findings if f.layer in ("run", "sass")
    )
    said += " | ".join(words.decode() for words in re.findall(rb'"(?:lost":|notes":\[)"([^"]*)"', got.data))
    found = list(got.left)
    if cell.outcome not in case.outcomes:
        found.append(f"it was {said}")
    elif not re.search(case.reason, said):
        found.append(f"the reason is another: {said}")
    found += re.findall(r"BREACH [^\n\"\\]{1,80}", got.log)
    if case.tried and "TRIED" not in got.log:
        found.append("its log does not show that it tried")
    if case.least_ms and cell.scores is not None:
        found += [
            f"{shape.shape} got {shape.t_scored * 1e3:.3f} ms for {case.least_ms:g} ms of work"
            for shape in cell.shapes
            if shape.t_scored < NOISE * (_denied(case, cell, shape) if case.shown_alone else case.least_ms / 1e3)
        ]
    if cell.outcome not in ("accepted", "flagged") and cell.scores is not None:
        found.append("it has a score")
    for trial in cell.trials:
        texts = (cell.reason, trial.message, trial.detail, *(shape.message for shape in trial.shapes))
        if any(not c.isprintable() and c != "\n" for text in texts for c in text):
            found.append("a message holds control codes")
        if trial.master in got.log:
            found.append("it printed the judge's key")
    return found


def _denied(case: HostileCase, cell: Any, shape: Any) -> float:
    """Seconds below which a call alone that does its work denies what a shape gets (`grader.record.cell.denies`)."""
    from grader.record.cell import ALONE_OVERHEAD, ALONE_S, ALONE_SHARE, alone_of

    seen = [one for trial in cell.trials for one in trial.shapes if one.shape == shape.shape]
    alone = alone_of([one.timing for one in seen if one.timing is not None])
    empty = 0.0 if alone is None else alone.overhead
    allowed = max(ALONE_S[case.device], ALONE_OVERHEAD[case.device] * empty)
    return (case.least_ms / 1e3 - allowed) / ALONE_SHARE[case.device]


def gain(case: HostileCase, got: Graded, twin: Graded) -> list[str]:
    """Shapes at which a hostile submission got less than its share of the twin's time."""
    pairs = zip(got.cell.shapes, twin.cell.shapes, strict=True)
    return [
        f"{shape.shape} got {_times(shape)}, the twin {_times(honest)}"
        for shape, honest in pairs
        if shape.t_scored < case.share_of_twin * honest.t_scored
    ]


def _times(shape: Any) -> str:
    """What a shape scored, and by which clock."""
    sealed = "none" if shape.t_sealed is None else f"{shape.t_sealed * 1e6:.1f} us"
    return f"{shape.t_scored * 1e6:.1f} us (claimed {shape.t_event * 1e6:.1f} us, sealed {sealed})"


def accused(findings: Iterable[Any]) -> list[str]:
    """Findings, of the linter or of a cell, beyond those of TORCH_RULES."""
    return [f"{found.rule}: {found.message}" for found in findings if found.rule not in TORCH_RULES]


def twin_faults(case: HostileCase, got: Graded) -> list[str]:
    """Why an honest twin was not taken for honest."""
    cell = got.cell
    found = list(got.left)
    if cell.outcome not in ("accepted", "flagged"):
        found.append(f"it was {cell.outcome}: {cell.reason}")
    found += accused(cell.verdict.findings)
    most = max(8 * case.least_ms, BUSY_MS)  # machines that run tests are busy
    if case.least_ms and cell.outcome in ("accepted", "flagged"):
        work = f"{case.least_ms} ms of work"
        for shape in cell.shapes:
            ms = shape.t_scored * 1e3
            if ms < NOISE * case.least_ms:
                found.append(f"{shape.shape} got {ms:.3f} ms, less than its {work}")
            elif ms > most:
                found.append(f"{shape.shape} got {ms:.3f} ms, {SLOW} {work}")
    return found


def flock(cases: Sequence[HostileCase]) -> str:
    """A submission of many twins: each call runs them all, and hands out the output of one, in turn."""
    names = [case.twin.stem for case in cases]
    imports = "\n".join(f"import {name}" for name in names)
    return f"""import torch
from torch import nn

{imports}

PARTS = ({", ".join(names)},)
FILES = {[path.name for path in CASES.glob("*.txt")]}


class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))
        self.models = lambda kept=[part.Model(M, N, K) for part in PARTS]: kept
        self.turn = 0

    def load_state_dict(self, state, strict=True, assign=False):
        for model in self.models():
            model.load_state_dict(state, strict=strict)
            model.eval()
        return super().load_state_dict(state, strict=strict, assign=assign)

    def forward(self, x, used):
        results = [model(x, used) for model in self.models()]
        for part, result in zip(PARTS, results):
            if not torch.allclose(result, results[0], rtol=1e-3, atol=1e-3 * float(x.abs().max())):
                raise RuntimeError(part.__name__ + " gives another result")
        self.turn += 1
        return results[self.turn % len(results)]
"""
