"""`with`: what entering a context manager does, and what leaving it undoes."""

from __future__ import annotations

from typing import Any

from kbh_lint import ir
from kbh_lint.host import exceptions, lanes, lib_objects
from kbh_lint.host.frames import Leave
from kbh_lint.host.interp import Interp
from kbh_lint.host.objects import Graph, Instance, LibObject, find_method


def enter(interp: Interp, manager: Any, exits: list[Leave], loc: ir.Loc | None) -> Any:
    """`with manager`: what `as` binds; `exits` collects what to undo."""
    if isinstance(manager, LibObject) and manager.path == "torch.cuda.graph":
        graph = manager.args[0] if manager.args else manager.kwargs.get("cuda_graph")
        if isinstance(graph, Graph):
            start_capture(interp, graph)
            exits.append(lambda raised: end_capture(interp, graph))
        return manager
    if isinstance(manager, LibObject) and (manager.path == "torch.cuda.stream" or lanes.is_stream(manager)):
        if lanes.enter(interp, manager):
            exits.append(lambda raised: lanes.leave(interp))
        return manager
    if isinstance(manager, LibObject) and (manager.path in lanes.POOLS or manager.path == "subprocess.Popen"):
        exits.append(lambda raised: lib_objects.object_method(interp, manager, "__exit__", [], {}, loc) and None)
        return manager
    if isinstance(manager, LibObject) and manager.path == "contextlib.suppress":
        exits.append(lambda raised: raised is not None and exceptions.catches(interp, manager.args, raised.value))
        return None
    if isinstance(manager, LibObject) and manager.path == "unittest.mock.patcher":
        return interp.call(manager.attrs["__enter__"], [], {}, loc)
    if isinstance(manager, Instance):
        entered = find_method(manager, "__enter__")
        leave = find_method(manager, "__exit__")
        if leave is not None:
            exits.append(lambda raised: interp.call(leave, exceptions.exception_parts(raised), {}, loc))
        return interp.call(entered, [], {}, loc) if entered is not None else manager
    if isinstance(manager, list):  # a @contextmanager generator: what it yields
        return manager[0] if manager else None
    return manager


def start_capture(interp: Interp, graph: Graph) -> None:
    graph.events = []
    interp.capturing.append(graph)


def end_capture(interp: Interp, graph: Graph) -> None:
    if graph in interp.capturing:
        interp.capturing.remove(graph)
