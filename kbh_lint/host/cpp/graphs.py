"""CUDA graphs through the functions of the runtime and the driver: captured from a stream, or made node by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import Sym, Value
from kbh_lint.host.cpp import copies as cpp_copies
from kbh_lint.host.cpp import lambdas as cpp_lambdas
from kbh_lint.host.gpu.graphs import replay
from kbh_lint.host.values.cpp_objects import Slot
from kbh_lint.host.values.objects import Graph, LibObject
from kbh_lint.host.values.tensors import Unknown

if TYPE_CHECKING:
    from kbh_lint.host.cpp.interpreter import Cpp

_NODES = "__nodes__"  # of a graph that is made node by node, in their order; an executable has each with what it does
_DOES = "__does__"


def call(run: Cpp, name: str, args: list[Any], loc: ir.Loc | None) -> Any:
    """Models a function of the CUDA runtime or driver about graphs, stream captures and graph nodes."""
    plain = [a.get() if isinstance(a, Slot) else a for a in args]
    graphs = [value for value in plain if isinstance(value, Graph)]
    if "BeginCapture" in name:
        run.capture = Graph()
        run.interp.capturing.append(run.capture)
    elif "EndCapture" in name:
        if run.capture in run.interp.capturing:
            run.interp.capturing.remove(run.capture)
        _set([a for a in args if isinstance(a, Slot)][-1:], run.capture)
    elif name.removeprefix("cu").removeprefix("da") == "GraphCreate":
        _set(args, Graph())
    elif "Instantiate" in name or name.endswith("GraphClone"):
        source = plain[1] if len(plain) > 1 and isinstance(plain[1], Graph) else None
        source = source or (graphs[0] if graphs else run.capture)
        _set(args, None if source is None else _copied(source))
    elif "GraphExecUpdate" in name and len(graphs) > 1:
        made = _copied(graphs[1])
        graphs[0].events, graphs[0].attrs = made.events, made.attrs
    elif "Node" in name:
        _node(run, name, args, plain, loc)
    elif "GraphLaunch" in name and graphs:
        replay(run.interp, graphs[0], loc)
        for _, does in graphs[0].attrs.get(_NODES, ()):
            _do(run, does, loc)
    return Sym("cudaSuccess")


def _set(args: Sequence[Value], value: Graph | LibObject | None) -> None:
    if args and isinstance(args[0], Slot) and value is not None:
        args[0].set(value)


def _copied(graph: Graph) -> Graph:
    """A graph of its own, whose nodes do what they are to do now."""
    made = Graph(list(graph.events), dict(graph.attrs))
    if _NODES in graph.attrs:
        made.attrs[_NODES] = [(node, node.attrs.get(_DOES) if does is None else does) for node, does in _nodes(graph)]
    return made


def _nodes(graph: Graph) -> list[tuple[LibObject, Any]]:
    found: list[tuple[LibObject, Any]] = graph.attrs.setdefault(_NODES, [])
    return found


def _node(run: Cpp, name: str, args: Sequence[Value], plain: Sequence[Value], loc: ir.Loc | None) -> None:
    """Nodes that are added, and what those that are there are to do from now on."""
    graph = next((value for value in plain if isinstance(value, Graph)), None)
    node = next((value for value in plain if isinstance(value, LibObject) and _DOES in value.attrs), None)
    if "Add" in name and graph is not None:
        does = _does(run, name, plain)
        if does is None:
            run.interp.lost(f"what {name} adds to a graph could not be read", loc)
            does = {"unread": list(plain), "name": name}
        made = LibObject("cpp.graph_node", {_DOES: does})
        _set(args, made)
        _nodes(graph).append((made, None))
    elif "SetParams" in name:
        does = _does(run, name, plain)
        if does is None or node is None:
            run.interp.lost(f"which node of a graph {name} changes could not be read", loc)
        elif graph is None:
            node.attrs[_DOES] = does
        else:
            held = _nodes(graph)
            held[:] = [(one, does if one is node else before) for one, before in held]
    elif "GetNodes" in name or "GetParams" in name:
        for value in args:
            if isinstance(value, Slot):
                value.set(Unknown((), name))


def _does(run: Cpp, name: str, plain: Sequence[Value]) -> dict[str, Value] | None:
    """What a node is to do, with the arguments that it is given here; None where that is not known."""
    if "Empty" in name or "Memset" in name or "Event" in name or "Dependencies" in name:
        return {}
    if "Memcpy" in name:
        return {"copy": list(plain)} if "1D" in name else None
    params = next((v for v in reversed(plain) if isinstance(v, LibObject) and _DOES not in v.attrs), None)
    if params is not None and "Host" in name:
        called = cpp_lambdas.of_node(params.attrs)
        return None if called is None else {"called": called}
    return None if params is None else _launch_of(params)


def _launch_of(params: LibObject) -> dict[str, Value] | None:
    """The launch that a node of a kernel does, by its parameters; None where the kernel is not known."""
    inner = params.attrs.get("kernel")
    held = inner.attrs if isinstance(inner, LibObject) else params.attrs
    func, given = held.get("func", held.get("kern")), held.get("kernelParams")
    func = func.get() if isinstance(func, Slot) else func
    if func is None or not isinstance(given, (list, tuple)):
        return None
    sizes = [held.get(f"{of}Dim", tuple(held.get(f"{of}Dim{axis}", 1) for axis in "XYZ")) for of in ("grid", "block")]
    return {"func": func, "args": [a.get() if isinstance(a, Slot) else a for a in given], "dims": sizes}


def _do(run: Cpp, does: dict[str, Any] | None, loc: ir.Loc | None) -> None:
    if does and "unread" in does:
        run.opaque(does["name"], does["unread"], loc)
    elif does and "called" in does:
        cpp_lambdas.invoke(run, does["called"][0], does["called"][1:], loc)
    elif does and "copy" in does:
        cpp_copies.copied(run, "cudaMemcpyAsync", does["copy"], loc)
    elif does:
        run.launch_value(does["func"], does["args"], does["dims"], loc)
