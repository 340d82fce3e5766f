"""Geometry of the page's two pictures: tokens and cost by step, and scores over time. Templates draw it as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.record.events import Graded, JudgeUsed
from harness.view.entries import seconds
from harness.view.model import Called, Snapshot, Timed

__all__ = ["Bar", "Chart", "Mark", "Tick", "WIDTHS", "money", "score_chart", "split_bar", "tokens", "usage_chart"]

WIDTHS = (("wide", 760), ("narrow", 340))
LEFT, RIGHT, TOP, HEIGHT, FOOT = 46, 46, 14, 190, 30
LANES = 40  # below the axis: checks, and snapshots
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
MOST_MARKS = 400
CLOCK = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 86_400)  # seconds


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle; `kind` is its class."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with what it stands for; `anchor` is where more is told."""

    kind: str
    x: float
    y: float
    title: str
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture in its own units, which are pixels where there is room. `line` are the points of a polyline."""

    name: str
    width: int
    height: int
    left: float
    right: float
    top: float
    base: float
    title: str
    told: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    line: str = ""
    across: tuple[Tick, ...] = ()
    up: tuple[Tick, ...] = ()
    up_right: tuple[Tick, ...] = ()
    limit: Tick | None = None


def tokens(count: float) -> str:
    """A number of tokens in few characters."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def money(dollars: float | None) -> str:
    """A cost in US dollars; words where it is not known."""
    if dollars is None:
        return "cost not known"
    return f"${dollars:,.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.2g}"


def usage_chart(called: Sequence[Called], name: str, width: int) -> Chart | None:
    """Tokens by step, stacked, with the cost so far; steps share a bar where there are more than bars."""
    if not called:
        return None
    room = width - LEFT - RIGHT
    per = math.ceil(len(called) / (room / 4))
    groups = [called[at : at + per] for at in range(0, len(called), per)]
    stacks = [_stack(group) for group in groups]
    top = _above(max(sum(stack) for stack in stacks))
    base, wide = TOP + HEIGHT, room / len(groups)
    known = [one.usage.cost_usd for one in called]
    total = sum(cost or 0.0 for cost in known)
    bars: list[Bar] = []
    points: list[str] = []
    spent = 0.0
    for index, (group, stack) in enumerate(zip(groups, stacks, strict=True)):
        x, y = LEFT + index * wide, float(base)
        for kind, count in zip(("cached", "sent", "answered"), stack, strict=True):
            height = HEIGHT * count / top
            y -= height
            if height > 0:
                bars.append(_bar(kind, x, y, min(max(wide - 1, 0.8), 36), height, _said(group, stack)))
        spent += sum(one.usage.cost_usd or 0.0 for one in group)
        points.append(f"{round(x + min(wide, 36) / 2, 1)},{round(base - HEIGHT * spent / _above(total), 1)}")
    prompt = sum(one.usage.prompt_tokens for one in called)
    answered = sum(one.usage.output_tokens for one in called)
    missing = sum(one.usage.cost_usd is None and one.usage.prompt_tokens > 0 for one in called)
    calls = "1 call" if len(called) == 1 else f"{len(called):,} calls"
    told = f"{calls}; {tokens(prompt)} tokens sent, {tokens(answered)} answered; "
    told += money(total) if any(cost is not None for cost in known) else money(None)
    told += f"; the cost of {missing:,} of them is not known" if 0 < missing < len(called) else ""
    return Chart(
        name, width, TOP + HEIGHT + FOOT, LEFT, width - RIGHT, TOP, base, "Tokens by step, and cost so far", told,
        tuple(bars), (), " ".join(points) if total > 0 else "", _steps(groups, wide), _ups(top, tokens),
        _ups(_above(total), money) if total > 0 else (),
    )  # fmt: skip


def _stack(group: Sequence[Called]) -> tuple[float, float, float]:
    """Tokens of a bar, for one step: read from a cache, sent otherwise, answered."""
    count = len(group)
    return (
        sum(one.usage.cache_read_tokens for one in group) / count,
        sum(one.usage.input_tokens + one.usage.cache_write_tokens for one in group) / count,
        sum(one.usage.output_tokens for one in group) / count,
    )


def _said(group: Sequence[Called], stack: tuple[float, float, float]) -> str:
    first, last = group[0].step, group[-1].step
    which = f"step {first}" if first == last else f"steps {first} to {last}, on average"
    return f"{which}: {tokens(stack[0])} from a cache, {tokens(stack[1])} sent, {tokens(stack[2])} answered"


def _steps(groups: Sequence[Sequence[Called]], wide: float) -> tuple[Tick, ...]:
    """A few step numbers beneath their bars."""
    every = max(math.ceil(len(groups) / 8), math.ceil(34 / wide))
    return tuple(
        Tick(round(LEFT + index * wide + min(wide, 36) / 2, 1), str(groups[index][0].step))
        for index in range(0, len(groups), every)
    )


def score_chart(
    timed: Sequence[Timed], changes: Sequence[Snapshot], budget: float, ended: float, name: str, width: int
) -> Chart | None:
    """Practice scores and gradings by elapsed time, with checks and snapshots in lanes beneath the axis."""
    if not timed and not changes:
        return None
    within = [one.elapsed for one in timed if isinstance(one.data, JudgeUsed)]
    last = max([ended, *within, *(one.elapsed for one in changes), 1.0])
    span = 1.02 * max(last, budget if budget < 2.5 * last else 0.0)
    scores = [s for one in timed if (s := one.data.score) is not None and math.isfinite(s)]
    top = _above(max(scores, default=0.95) * 1.05)
    base, right = TOP + HEIGHT, width - 14
    first = {change.sha256: change.elapsed for change in reversed(changes)}

    def x(at: float) -> float:
        return round(LEFT + (right - LEFT) * min(max(at, 0.0), span) / span, 1)

    def y(score: float) -> float:
        return round(base - HEIGHT * min(max(score, 0.0), top) / top, 1)

    marks = [Mark("snapshot", x(one.elapsed), base + 34, f"snapshot {one.number} at {seconds(one.elapsed)}",
                  f"snapshot-{one.number}") for one in changes[:MOST_MARKS]]  # fmt: skip
    best = 0.0
    points: list[str] = []
    for one in timed[:MOST_MARKS]:
        data = one.data
        at = first.get(data.solution, one.elapsed) if isinstance(data, Graded) else one.elapsed
        marks.append(_mark(one, x(at), y(data.score) if data.score is not None else base + 16.0))
        if isinstance(data, JudgeUsed) and data.score is not None and data.score > best:
            points += [f"{x(at)},{y(best)}"] * bool(points) + [f"{x(at)},{y(data.score)}"]
            best = data.score
    if points:
        points.append(f"{x(ended or last)},{y(best)}")
    uses = sum(isinstance(one.data, JudgeUsed) for one in timed)
    counted = ((len(changes), "snapshot", "s"), (uses, "use", "s of the judge"), (len(timed) - uses, "grading", "s"))
    told = ", ".join(f"{n} {word}{more if n != 1 else more[1:]}" for n, word, more in counted)
    told += f"; best practice score {best:.3g}" if best else ""
    told += f"; budget {seconds(budget)}" if budget > span else ""
    limit = Tick(x(budget), f"budget {seconds(budget)}") if 0 < budget <= span else None
    step = next((s for s in CLOCK if s * (8 if width > 500 else 4) >= span), _above(span / 4))
    times = tuple(Tick(x(index * step), seconds(index * step)) for index in range(int(span / step) + 1))
    return Chart(
        name, width, TOP + HEIGHT + LANES + FOOT, LEFT, right, TOP, base, "Score over time", told, (), tuple(marks),
        " ".join(points), times, _ups(top, lambda value: f"{value:.3g}"), (), limit,
    )  # fmt: skip


def _mark(one: Timed, x: float, y: float) -> Mark:
    data = one.data
    score = "no score" if data.score is None else f"score {data.score:.3g}"
    if isinstance(data, Graded):
        kind = "final" if data.final else "graded"
        title = (
            f"graded{'' if data.final else ' for the curve'}: {data.outcome[:40]}, verdict {data.verdict[:40]}, {score}"
        )
    else:
        kind = "practice" if data.score is not None else "right" if data.outcome == "passed" else "wrong"
        title = f"{data.what} at {seconds(one.elapsed)}: {data.outcome[:40]}, {score}"
    return Mark(kind, x, y, title, f"step-{one.step}")


def split_bar(parts: Sequence[tuple[str, float]], width: int) -> tuple[Bar, ...]:
    """Parts of a whole along one bar of `width`; a part that is not 0 stays visible, however small."""
    total = sum(value for _, value in parts)
    if total <= 0:
        return ()
    least = 3.0
    some = [(name, value) for name, value in parts if value > 0]
    room = width - least * len(some)
    bars, x = [], 0.0
    for name, value in some:
        wide = least + room * value / total
        bars.append(_bar(name, x, 0, wide, 18, f"{name}: {seconds(value)}, {value / total:.0%}"))
        x += wide
    return tuple(bars)


def _bar(kind: str, x: float, y: float, width: float, height: float, title: str) -> Bar:
    return Bar(kind, round(x, 1), round(y, 1), round(width, 1), round(height, 2), title)


def _above(value: float) -> float:
    """A round number that is not less."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in STEPS if step * power >= value * 0.999999)


def _round_steps(end: float, about: int) -> list[float]:
    """Round numbers from 0 to `end`."""
    rough = end / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in STEPS if s * power >= rough * 0.999)
    return [round(index * step, 9) for index in range(int(end / step * 1.000001) + 1)]


def _ups(top: float, said: object) -> tuple[Tick, ...]:
    assert callable(said)
    return tuple(Tick(round(TOP + HEIGHT - HEIGHT * value / top, 1), said(value)) for value in _round_steps(top, 4))
