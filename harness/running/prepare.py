"""What all trials of a request share, found out and checked before the first room is opened."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.grading.request import GradeError, graded_problem
from harness.agents.base import NODE, PREFIX, Adapter
from harness.agents.install import Installed, InstallError, installed
from harness.agents.registry import adapter_named
from harness.judging.workspace import workspace_files
from harness.proxy.base import Route
from harness.proxy.bodies import load_exchange
from harness.proxy.keys import KeyFault, read_key
from harness.proxy.routes import RouteError, find_route
from harness.record.archive import RunFolder, is_run
from harness.record.exchange import Dialect
from harness.room import need_sealed
from harness.room.base import Mount
from harness.running.request import RunError, RunRequest
from harness.running.target import CPU, Here, here
from harness.running.workspace import Template
from harness.scripted.script import Script, load_script
from kbh_lint import __version__
from kbh_lint.base import paths
from kbh_lint.problems import Problem, load_targets

__all__ = ["Prepared", "path_inside", "prepare", "scripted_route"]

SCRIPTED = "scripted"
ALL: tuple[Dialect, ...] = ("anthropic-messages", "openai-responses", "openai-chat", "gemini")


@dataclass(frozen=True, slots=True)
class Prepared:
    """`route` is None where a script stands in for the model; then each run makes a route to its own server."""

    request: RunRequest
    problem: Problem
    adapter: Adapter
    version: str
    mounts: tuple[Mount, ...]
    route: Route | None
    script: Script | None
    model: str
    template: Template
    prompt: str
    here: Here
    versions: Mapping[str, str]

    @property
    def gpu_in_room(self) -> bool:
        """Whether the room has a GPU's device nodes."""
        return bool(self.here.gpus) and self.request.gpu == "room"

    def device(self, gpu: str) -> str:
        """The device that the judge uses for a run that has this GPU."""
        return CPU if self.here.target == CPU else gpu


def prepare(request: RunRequest) -> Prepared:
    """Checks a request and gathers what all its trials share.

    Raises RunError, RouteError, ScriptError, PromptError, ProblemError, RoomError or OSError: one sentence each.
    """
    problem = _problem(request)
    try:
        adapter = adapter_named(request.agent)
    except ValueError as error:
        raise RunError(str(error)) from None
    if request.effort and request.effort not in adapter.efforts:
        known = ", ".join(adapter.efforts) or "none"
        raise RunError(f"{adapter.name} does not know the effort {request.effort[:40]!r}; it knows: {known}")
    hardware = paths.hardware_file(paths.problems_dir(request.problems_dir))
    found = here(request.target, hardware)
    script = _script(request)
    route, model = _model(request, adapter) if script is None else (None, _scripted_model(request))
    cli = _installed(request, adapter)
    template = Template(_files(problem, request, found, hardware))
    if request.sealed:
        need_sealed()
    version = adapter.package.version if adapter.package is not None else __version__
    return Prepared(
        request, problem, adapter, version, _mounts(request, cli), route, script, model, template,
        template.files["prompt.md"].decode(), found, _versions(adapter, cli),
    )  # fmt: skip


def _problem(request: RunRequest) -> Problem:
    try:
        return graded_problem(request.problem, request.problems_dir)
    except GradeError as error:
        raise RunError(str(error)) from None


def _script(request: RunRequest) -> Script | None:
    """What stands in for the model: a script's file, or the answers that a run's archive holds."""
    if request.script is None:
        return None
    if not is_run(request.script):
        return load_script(request.script)
    folder = RunFolder(request.script)
    return Script.from_calls((load_exchange(folder, call) for call in folder.calls()), name=folder.path.name)


def _model(request: RunRequest, adapter: Adapter) -> tuple[Route, str]:
    route, model = find_route(request.model, request.routes)
    if not set(adapter.dialects) & set(route.urls):
        speaks = ", ".join(adapter.dialects)
        raise RunError(f"{adapter.name} speaks {speaks}, which the route {route.name} does not offer")
    try:
        read_key(route)
    except KeyFault as error:
        raise RouteError(str(error)) from None
    return route, model


def _scripted_model(request: RunRequest) -> str:
    return request.model.removeprefix(f"{SCRIPTED}/")


def scripted_route(url: str) -> Route:
    """The route to a scripted upstream, which speaks every dialect and wants no key."""
    return Route(SCRIPTED, dict.fromkeys(ALL, url))


def _installed(request: RunRequest, adapter: Adapter) -> Installed | None:
    if adapter.package is None:
        return None
    try:
        return installed(adapter, request.prefix)
    except InstallError as error:
        raise RunError(str(error)) from None


def _mounts(request: RunRequest, cli: Installed | None) -> tuple[Mount, ...]:
    from pathlib import PurePosixPath

    found = []
    for path in request.mounts:
        if not path.exists() or path.resolve() == Path("/"):
            raise RunError(f"{path} cannot be shown in the room: it is not there, or it is everything")
        found.append(Mount(path.resolve(), PurePosixPath(path.absolute())))
    if cli is not None:
        found.append(Mount(cli.folder, PREFIX))
        if cli.node is not None:
            found.append(Mount(cli.node, NODE))
    return tuple(found)


def _files(problem: Problem, request: RunRequest, found: Here, hardware: Path) -> dict[str, bytes]:
    product = "" if found.target == CPU else load_targets(hardware)[found.target].product
    in_room = bool(found.gpus) and request.gpu == "room"
    return workspace_files(
        problem, budget_s=request.budget_s, target=found.target, product=product, gpu_in_room=in_room
    )  # fmt: skip


def _versions(adapter: Adapter, cli: Installed | None) -> dict[str, str]:
    found = {"kbh": __version__, "python": platform.python_version(), "kernel": platform.release()}
    if adapter.package is not None:
        found[adapter.package.name] = adapter.package.version
    if cli is not None and cli.node_version:
        found["node"] = cli.node_version
    return found


def path_inside(env: Mapping[str, str]) -> dict[str, str]:
    """An adapter's environment with this machine's Python, compilers and CUDA on the PATH, as a room shows them."""
    mine = [str(Path(sys.executable).parent)]
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            mine.append(str(Path(os.environ[name]) / "bin"))
    mine += [path for path in ("/usr/local/cuda/bin",) if Path(path).is_dir()]
    kept = {name: os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH") if os.environ.get(name)}
    return {**kept, **env, "PATH": ":".join([*mine, env.get("PATH", "/usr/bin:/bin")])}
