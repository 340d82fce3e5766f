"""A small problem, submissions to it, and judges on loopback, for tests of the judge for agents."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientResponse, ClientSession, ClientTimeout, web

from harness.judging.base import JudgeLimits
from harness.judging.pool import JudgePool
from harness.judging.service import JudgeService
from harness.record.archive import RunFolder
from harness.record.events import JudgeUsed
from kbh_lint.problems import Problem, load_problem

PROBLEM = """\
id: 98_rows
title: A product with a factor for each row
status: graded
regime: compute
precision: fp32
operation: y = (x @ w) * scale
flops: 2*M*N*K
bytes: 4*(M*K + K*N + M*N)
targets: [h200]
shapes:
  - {M: 64, N: 16, K: 32}
reduced:
  - {M: 8, N: 4, K: 6}
contracts:
  deck:
    init: {M: M, N: N, K: K}
    forward:
      - {name: x, dtype: f32, shape: [M, K], domain: {kind: normal, std: 1}}
      - {name: scale, dtype: f32, shape: [M], domain: {kind: uniform, low: 1, high: 2}}
    state:
      - {name: w, dtype: f32, shape: [K, N], domain: {kind: normal, std: 1}}
    output:
      - {dtype: f32, shape: [M, N]}
    compare: {metric: scaled, over: [-1]}
    tolerance: {f32: 1.0e-4}
promises: []
stress:
  - {id: large, scale: {x: 100}}
"""

REFERENCE = """\
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, M, N, K):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(K, N))

    def forward(self, x, scale):
        return (x @ self.w) * scale[:, None]

def oracle(init, inputs, state):
    return ((inputs["x"].double() @ state["w"].double()) * inputs["scale"].double()[:, None],)
"""

RIGHT = REFERENCE.partition("def oracle")[0]
WRONG = RIGHT.replace("* scale", "+ scale")
RAISES = RIGHT.replace(
    "        return", '        raise ValueError("the key is sk-abcdefghijklmnopqrst0123")\n        return'
)
EXITS = RIGHT.replace("        return", "        import os; os._exit(3)\n        return")
ENDLESS = RIGHT.replace("        return", "        while True: pass\n        return")
LOADS = RIGHT.replace("* scale", "* factor(scale)").replace("import nn\n", "import nn\nfrom helper import factor\n")
HELPER = "def factor(scale):\n    return scale\n"

# A process for what the pool does: it finds everything right at once, but what never ends.
QUICK = """
import base64, json, os, sys, time
def tell(**event):
    print(json.dumps(event), flush=True)
for line in sys.stdin:
    text = base64.b64decode(json.loads(line)["files"]["solution.py"]).decode()
    for standing in ("asked", "held"):
        tell(event="turn", standing=standing)
    tell(event="say", text=f"call 1 of 1 in {os.getpid()}")
    if "while True" in text:
        sys.stdin.read()
    tell(event="turn", standing="free")
    tell(event="answer", outcome="passed", code=0, message="", text="", score=None, error=None, shapes={})
"""


def rows_problem(folder: Path) -> Problem:
    """Writes the problem below `folder` and reads it."""
    here = folder / "deck" / "98_rows"
    here.mkdir(parents=True)
    (here / "problem.yaml").write_text(PROBLEM)
    (here / "reference.py").write_text(REFERENCE)
    (here / "prompt.in.md").write_text("Make {{operation}} fast.\n")
    return load_problem(here / "problem.yaml")


def body(text: str | dict[str, str]) -> bytes:
    """A request about one file, or several."""
    files = {"solution.py": text} if isinstance(text, str) else text
    return json.dumps({"files": {name: b64encode(data.encode()).decode() for name, data in files.items()}}).encode()


class Loop:
    """An event loop in a thread of its own, so that tests of one file share the processes of a pool."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 60.0) -> Any:
        """What a coroutine gives."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def close(self) -> None:
        """Ends the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


@dataclass
class Judge:
    """The judge of one run, served on loopback."""

    service: JudgeService
    folder: RunFolder
    uses: list[JudgeUsed] = field(default_factory=list)
    used: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""
    runner: web.AppRunner | None = None

    @classmethod
    async def start(
        cls, problem: Problem, place: Path, pool: JudgePool | None, *, device: str = "cpu", target: str = "cpu",
        **limits: Any,
    ) -> Judge:  # fmt: skip
        """A judge whose archive lies at `place`; one seed and no linter unless `limits` say otherwise."""
        (place / "record" / "objects").mkdir(parents=True)
        found: list[Judge] = []

        def on_use(use: JudgeUsed) -> None:
            found[0].uses.append(use)
            found[0].used.set()

        folder = RunFolder(place)
        limited = JudgeLimits(**{"seeds": (42,), "lint": False, **limits})
        service = JudgeService(
            problem, device=device, target=target, folder=folder, on_use=on_use, limits=limited, pool=pool
        )  # fmt: skip
        judge = cls(service, folder)
        found.append(judge)
        app = web.Application()
        app.add_routes(service.routes())
        judge.runner = web.AppRunner(app, lingering_time=1.0)
        await judge.runner.setup()
        await web.TCPSite(judge.runner, "127.0.0.1", 0).start()
        judge.url = f"http://127.0.0.1:{judge.runner.addresses[0][1]}"
        return judge

    async def close(self) -> None:
        """Ends the service, then the server."""
        await self.service.close()
        assert self.runner is not None
        await self.runner.cleanup()

    async def ask(
        self, data: bytes, what: str = "check", *, on: Callable[[dict[str, Any]], None] = lambda _: None
    ) -> dict[str, Any]:
        """The last event of a request, or the error with its status; `on` is told of each event."""
        event: dict[str, Any] = {"event": "none"}
        async with self.session() as session, session.post(f"{self.url}/judge/{what}", data=data) as answer:
            if answer.status != 200:
                return {**json.loads(await answer.read()), "status": answer.status}
            async for event in events(answer):
                on(event)
        return event

    def session(self) -> ClientSession:
        """A client that waits for a minute."""
        return ClientSession(timeout=ClientTimeout(300))

    async def until(self, data: bytes, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Asks, and hangs up as soon as there is an event that is wanted."""
        async with self.session() as session, session.post(f"{self.url}/judge/check", data=data) as answer:
            async for event in events(answer):
                if wanted(event):
                    answer.close()
                    return
        raise AssertionError("there was no such event")

    async def use(self) -> JudgeUsed:
        """The next use that is told, or the last one that was."""
        await asyncio.wait_for(self.used.wait(), 30)
        self.used.clear()
        return self.uses[-1]

    def sent(self, use: JudgeUsed) -> list[dict[str, Any]]:
        """What was sent back, as the archive has it."""
        return [json.loads(line) for line in self.folder.get(use.answer).splitlines()]


async def events(answer: ClientResponse) -> Any:
    """The lines of an answer."""
    async for line in answer.content:
        yield json.loads(line)


async def client(workspace: Path, what: str, url: str, *arguments: str) -> tuple[int, str, str]:
    """Runs check.py or benchmark.py of a workspace as an agent does: exit status, standard output and error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", f"{what}.py", *arguments, cwd=workspace, env={"KBH_JUDGE": url, "PATH": os.defpath},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()
