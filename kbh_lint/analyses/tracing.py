"""The trace as text: what ran, on which shape, what it read and wrote."""

from __future__ import annotations

from collections.abc import Iterator

from kbh_lint.analyses.seeds import span_of
from kbh_lint.host.values.path_runs import PathRun
from kbh_lint.host.values.tensors import Content, Event, Tensor, Unknown

MAX_LINES = 2000


def trace_lines(path: PathRun) -> Iterator[str]:
    """Yields the trace as lines of text, one for each launch or call, under headings for shape and call."""
    count = 0
    for run in path.shapes:
        yield f"shape {run.label}" + (f": {run.stopped}" if run.stopped else "")
        for number, call in enumerate(run.calls, 1):
            yield f"  forward {number}"
            for event in call.events:
                count += 1
                if count > MAX_LINES:
                    yield "    (more left out)"
                    return
                yield "    " + line_of(event)
        for kept in run.survived:
            keys = f", found by {' and '.join(kept.keys)}" if kept.keys else ""
            yield f"  survives: {kept.path}, {kept.role}{keys}"


def line_of(event: Event) -> str:
    """One event as text: `launch gemm[(32, 64)] at 120: input:x e4m3, state:weight e4m3 -> #41 bf16`."""
    span = span_of(event.loc)
    place = f" at {span.line}" if span is not None else ""
    grid = event.attrs.get("grid")
    size = f"[{_grid(grid)}]" if grid is not None else ""
    reads = ", ".join(f"{_label(content)} {tensor.dtype}" for content, tensor in event.reads) or "nothing"
    writes = ", ".join(f"{_label(w)} {w.dtype}" for w in event.writes) or "nothing"
    times = f" x{event.weight}" if event.weight > 1 else ""
    again = " (graph replay)" if event.attrs.get("replayed") else ""
    return f"{event.kind} {event.name}{size}{place}{times}{again}: {reads} -> {writes}"


def _grid(grid: object) -> str:
    if isinstance(grid, (tuple, list)):
        return ", ".join("?" if isinstance(g, (Unknown, Tensor)) else str(g) for g in grid)
    return "?" if isinstance(grid, Unknown) else str(grid)


def _label(content: Content) -> str:
    return content.label or f"#{content.ident}"
