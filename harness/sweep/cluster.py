"""A Ray cluster as a placement: it says on which node a cell is run, and nothing else.

An order travels to a node, the id of a run travels back; the run itself lies in the sweep's folder, which all nodes
share. Ray makes no attempt of its own (`max_retries=0`). A node takes as many cells of a target at a time as it was
started with: `ray start --resources '{"kbh-h100": 8}'`, or `kbh-cpu`. On the node a run is as it is in the local pool:
it waits for a GPU by its UUID, and is refused where the machine has another one than its row names.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grader.sandbox import harden_judge
from harness.record.archive import RunFolder
from harness.running.request import RunError
from harness.sweep.cells import deck_digest
from harness.sweep.placement import Gone, LocalPool, Order, Placed, Say
from kbh_lint import __version__

__all__ = ["RayCluster", "resource_of"]

TOKEN = "shared-folder"  # a file beside the runs' folder, by which a node shows that it sees the same one
PLAIN = ("AgentError", "ArchiveError", "CommandError", "DataError", "DeckError", "InstallError", "ProblemError",
         "PromptError", "RoomError", "RouteError", "RunError", "SandboxError", "ScriptError",
         "TargetError")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sent:
    """What travels to a node."""

    order: Order
    token: str
    version: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """What travels back: a run's id, or why there is none. `gone` says that another process has the run."""

    run_id: str = ""
    trouble: str = ""
    gone: bool = False


def resource_of(target: str) -> str:
    """The name of the Ray resource of nodes that take cells of a target."""
    return f"kbh-{target}"


class RayCluster:
    """The nodes of a cluster, which is joined at `address` ("auto": the one that this machine belongs to)."""

    def __init__(self, address: str, targets: Iterable[str], out: Path, jobs: int | None = None) -> None:
        """Joins it. Raises RunError where Ray is not installed, there is no cluster, or no node takes a target."""
        if find_spec("ray") is None:
            raise RunError("a cluster needs Ray, which is not installed; in a checkout: pip install '.[cluster]'")
        import ray

        self._ray: Any = ray
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="kbh",
                     runtime_env={"env_vars": {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}})  # fmt: skip
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RunError(f"no cluster could be joined at {address}: {str(error).splitlines()[0][:300]}") from None
        offered = ray.cluster_resources()
        missing = [target for target in dict.fromkeys(targets) if offered.get(resource_of(target), 0) < 1]
        if missing:
            ray.shutdown()
            name = resource_of(missing[0])
            raise RunError(
                f"no node of the cluster takes cells of {missing[0]}; start one with "
                f"ray start --resources '{{\"{name}\": 1}}'"
            )
        most = int(sum(offered[resource_of(target)] for target in dict.fromkeys(targets)))
        self._jobs = min(jobs or most, most)
        self._token = secrets.token_hex(16)
        (out.parent / TOKEN).write_text(self._token)

    @property
    def jobs(self) -> int:
        """How many orders it works on at a time."""
        return self._jobs

    async def place(self, order: Order, say: Say) -> Placed:
        """See `Placement`."""
        kind = self._ray.remote(max_retries=0, num_cpus=0, resources={resource_of(order.request.target): 1})
        answer = kind(_worked).remote(_Sent(order, self._token, __version__))
        try:
            found = await answer
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):  # whatever Ray says of it, the run is recovered by its key
                self._ray.cancel(answer, force=True)
            raise
        except self._ray.exceptions.RayTaskError as error:
            raise RunError(f"a fault of kbh itself on a node: {str(error.cause)[:300]}") from None
        except self._ray.exceptions.RayError as error:
            said = str(error).splitlines()
            raise Gone(
                f"its node or process is gone ({type(error).__name__}: {said[0][:160] if said else ''})"
            ) from None
        if found.gone:
            raise Gone(found.trouble)
        if found.trouble:
            raise RunError(found.trouble)
        folder = order.request.out / found.run_id
        return Placed(RunFolder(folder).load(), folder)

    async def close(self) -> None:
        """See `Placement`."""
        self._ray.shutdown()


def _worked(sent: _Sent) -> _Answer:
    """Does an order, on a node."""
    order, node = sent.order, socket.gethostname()
    try:
        token = (order.request.out.parent / TOKEN).read_text()
    except OSError:
        token = ""
    if token != sent.token:
        return _Answer(trouble=f"the node {node} does not see {order.request.out}; all nodes share the sweep's folder")
    if sent.version != __version__:
        return _Answer(trouble=f"the node {node} has kbh {__version__}, not {sent.version}")
    try:
        if deck_digest(order.request) != order.deck:
            return _Answer(trouble=f"the node {node} has another version of the problem {order.request.problem}")
        harden_judge()
        return _Answer(asyncio.run(_run(order)))
    except Gone as error:
        return _Answer(trouble=str(error), gone=True)
    except Exception as error:
        if type(error).__name__ not in PLAIN and not isinstance(error, OSError):
            raise
        return _Answer(trouble=f"the node {node}: {error}")


async def _run(order: Order) -> str:
    pool = LocalPool(1)
    try:
        return (await pool.place(order, lambda text: None)).record.run_id
    finally:
        await pool.close()
