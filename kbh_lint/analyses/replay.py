"""What the second call finds from the first although its inputs or weights changed in between."""

from __future__ import annotations

from kbh_lint import ir
from kbh_lint.analyses.flow import MAX_CONTENTS, Reach, last_call, result_contents
from kbh_lint.analyses.seeds import Seed, launched_from
from kbh_lint.host.run import PathRun, ShapeRun
from kbh_lint.host.tensors import Content, Event


def survivors(path: PathRun, run: ShapeRun, found: Reach) -> list[Seed]:
    """Facts `survivor`: values derived from contents that are no longer there."""
    if len(run.calls) < 2:
        return []
    stale = _stale(run)
    if not stale:
        return []
    pointer_keyed = {
        a["storage"] for kind, a, _ in path.notes if kind == "pointer-read" and a.get("call") == len(run.calls)
    }
    out: list[Seed] = []
    # handing out a copy of the old result is handing out the old result
    fresh = any(e.call == len(run.calls) and e.kind != "copy" for e in found.events)
    for what in ("input", "state"):
        held = [(c, maker) for c, maker in stale if c.label.startswith(f"{what}:")]
        if not held:
            continue
        names = tuple(dict.fromkeys(c.label.partition(":")[2] for c, _ in held))
        by_pointer = any(c.storage.ident in pointer_keyed for c, _ in held)
        makers = [m for _, m in held if m is not None]
        attrs = {
            "what": what, "names": names, "role": "derived" if fresh else "output",
            "key": "pointer" if by_pointer and what == "input" else "identity",
        }  # fmt: skip
        related: list[tuple[ir.Loc | None, str]] = []
        for maker in makers[:4]:
            related += [
                (loc, "made in the first call, from what the input held then") for loc, _ in launched_from(maker)
            ]
        first = makers[0].loc if makers else None
        place = _call_site(makers[0]) if makers else None
        out.append(Seed("survivor", attrs, place or first, tuple(related)))
    return out


def _call_site(event: Event) -> ir.Loc | None:
    """The innermost place in Python where an event was started."""
    for loc in (event.loc, *reversed(event.stack)):
        if loc is not None and loc[0].language == "python":
            return loc
    return event.loc


def _stale(run: ShapeRun) -> list[tuple[Content, Event | None]]:
    """Outside contents of before the change that the last result depends on, with the first event that read them.

    A buffer that a kernel both reads and writes (a counter, an accumulator) carries nothing over by itself: that read
    is not followed.
    """
    out: dict[int, tuple[Content, Event | None]] = {}
    seen: set[int] = set()
    stack: list[tuple[Content, Event | None]] = [(c, None) for c in result_contents(last_call(run))]
    while stack and len(seen) < MAX_CONTENTS:
        content, reader = stack.pop()
        if content.ident in seen:
            continue
        seen.add(content.ident)
        if content.label.startswith(("input:", "state:")):
            if (
                content is not content.storage.content
                and content.call == 0
                and content.storage.content.label == content.label
            ):
                out.setdefault(content.ident, (content, reader))
            continue
        event = content.event
        if event is None:
            continue
        written = {w.storage.ident for w in event.writes}
        for read, _ in event.reads:
            if read.storage.ident not in written:
                stack.append((read, event))
        stack.extend((c, event) for c in event.attrs.get("steer", ()))
        if content.previous is not None:
            stack.append((content.previous, event))
    return list(out.values())
