"""What all paths of a file, and all GPUs of the deck, agree on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbh_lint.analyses.flow import last_call
from kbh_lint.analyses.seeds import ShapeFact, ShapeFacts
from kbh_lint.base.facts import Banned, L2Policy, LibraryWork, Product, Selection, Survivor, UnreadInput
from kbh_lint.host.values.decisions import Fastest
from kbh_lint.host.values.path_runs import PathRun
from kbh_lint.host.values.tensors import Unknown

FOGGY = "on a branch that the code alone does not decide, what forward returns is not known"
STALE = "on a branch that the code alone does not decide, a call returns what an earlier one computed"
OUTDATED = "on a branch that the code alone does not decide, a call uses what an earlier one derived from an input"
STORED = "on a branch that the code alone does not decide, a call returns what a file outside the submission holds"
UNDECIDED = "it depends on a branch that the code alone does not decide"
DRAWN = "the branch that it takes for the lengths of timed runs breaks it"
FASTEST = "one of several ways whose time is taken breaks it, and any of them may be the fastest"
UNTRIED = "more branches could not be decided than are followed both ways"


def agree(paths: list[PathRun], per_path: list[list[ShapeFacts]], drawn: Sequence[ShapeFacts] = ()) -> list[ShapeFacts]:
    """Merges the facts of several execution paths into one `ShapeFacts` a graded shape, with the facts that every path
    which ends shows.

    A promise is broken when every path breaks it, kept when every path keeps it, otherwise unproven: a branch that
    could not be decided must not decide a verdict. Of ways whose time a program takes, to keep the fastest, one that
    breaks it is enough: that it may be what runs is what the program says. So is one of the paths that breaks it where
    the lengths of timed runs lead there: `drawn` are the facts of a run that takes these, for each shape.
    """
    out: list[ShapeFacts] = []
    for i, first in enumerate(per_path[0]):
        ended = [
            (p, facts[i]) for p, facts in zip(paths, per_path, strict=True) if i < len(facts) and p.shapes[i].calls
        ]
        live = _live(ended) or [first]
        keys = [{seed.key() for seed in other.seeds} for other in live[1:]]
        kept = ShapeFacts(first.label, [s for s in live[0].seeds if all(s.key() in k for k in keys)])
        kept.seeds += _kept_in_l2(kept, live)
        kept.shares = live[0].shares
        apart = [facts for p, facts in ended if facts.empty and not p.left_over and not _by_data(p, paths[0])]
        if len(live) > 1 or apart:  # else all that the one path shows is kept
            agreed = {seed.key() for seed in kept.seeds}
            kept.doubtful = [seed for facts in (*live, *apart) for seed in facts.seeds if seed.key() not in agreed]
        doubts = [_fog(ended, i) or _stale(kept, live), UNTRIED if paths[0].untried else ""]
        timed = [facts for p, facts in ended if facts in live and _by_time(p, paths[0])]
        for name in live[0].states:
            _agree_on(name, kept, live)
            _may_be_the_fastest(name, kept, timed)
            _as_drawn(name, kept, drawn[i : i + 1])
            for reason in filter(None, doubts):
                if kept.states[name] != "broken":
                    kept.states[name] = "unproven"
                    kept.reasons.setdefault(name, reason)
        out.append(kept)
    return out


def _kept_in_l2(kept: ShapeFacts, live: list[ShapeFacts]) -> list[ShapeFact]:
    """What the cache is asked to keep on each path, of another input or weight on each: what is read several times
    there, if one of them is."""
    paths = [_asked(facts) for facts in live]
    known = _asked(kept)
    out: list[ShapeFact] = []
    for asked in paths[0]:
        seeds = [path[asked] for path in paths if asked in path]
        if asked not in known and len(seeds) == len(paths):
            out.append(min(seeds, key=lambda seed: seed.fact.attrs()["reads"] == "once"))
    return out


def _asked(facts: ShapeFacts) -> dict[tuple[str, str], ShapeFact]:
    """What asks the cache to keep something, by what it is and what that holds."""
    asked = ((seed.fact, seed) for seed in facts.seeds)
    return {(fact.kind, fact.what): seed for fact, seed in asked if isinstance(fact, L2Policy)}


Ended = list[tuple[PathRun, ShapeFacts]]


def _live(ended: Ended) -> list[ShapeFacts]:
    """What the paths show that count."""
    # builds start from nothing: a path that needs an earlier run's files is no path of a graded run
    live = [facts for p, facts in ended if not p.left_over] or [facts for _, facts in ended]
    # a path on which nothing makes the result (every group empty, say) shows nothing about the others
    return [facts for facts in live if not facts.empty] or live


def _fog(ended: Ended, at: int) -> str:
    """Why it is not known what a path returns."""
    if any(facts.empty and facts.unknown for p, facts in ended if not p.left_over):
        return FOGGY
    return STORED if any(_from_a_file(p, at) for p, _ in ended) else ""


def _stale(kept: ShapeFacts, live: list[ShapeFacts]) -> str:
    """What a path makes of an earlier call, where not all do."""
    if not _hands_out_again(kept) and any(map(_hands_out_again, live)):
        return STALE
    return OUTDATED if not _uses_the_former(kept) and any(map(_uses_the_former, live)) else ""


def _agree_on(name: str, kept: ShapeFacts, live: list[ShapeFacts]) -> None:
    """The state of one promise on all paths, with evidence and reason."""
    states = [other.states.get(name, "unproven") for other in live]
    kept.states[name] = states[0] if len(set(states)) == 1 else _weakest(states)
    kept.evidence[name] = live[0].evidence.get(name, [])
    reasons = [other.reasons[name] for other in live if name in other.reasons]
    if reasons:
        kept.reasons[name] = reasons[0]
    elif len(set(states)) > 1:
        kept.reasons[name] = UNDECIDED


def _may_be_the_fastest(name: str, kept: ShapeFacts, timed: list[ShapeFacts]) -> None:
    """Breaks a promise that one of several ways breaks, of which a program keeps the fastest: any may be it. What that
    way does the work with is told."""
    for facts in timed:
        _breaks(name, kept, facts, FASTEST)


def _as_drawn(name: str, kept: ShapeFacts, drawn: Sequence[ShapeFacts]) -> None:
    """Breaks a promise that the lengths of timed runs lead past, and leaves open one that only other lengths break.
    Where what breaks it is that they are not read, the test that led there read them. `drawn` are the facts of the run
    that takes these lengths, if there is one."""
    for facts in drawn:
        if kept.states[name] == "broken" and facts.states.get(name) == "kept":
            known = {seed.key() for seed in facts.seeds}
            kept.doubtful += [seed for seed in kept.seeds if seed.key() not in known]
            kept.seeds = [seed for seed in kept.seeds if seed.key() in known]
            kept.states[name], kept.reasons[name] = "unproven", UNDECIDED
        elif not any(isinstance(seed.fact, UnreadInput) for seed in facts.seeds):
            _breaks(name, kept, facts, DRAWN)
            kept.shares = facts.shares if kept.reasons.get(name) == DRAWN else kept.shares


def _breaks(name: str, kept: ShapeFacts, facts: ShapeFacts, reason: str) -> None:
    """Breaks a promise where a path breaks it of which `reason` says why it counts."""
    if kept.states[name] == "broken" or facts.states.get(name) != "broken":
        return
    kept.states[name], kept.evidence[name] = "broken", facts.evidence.get(name, [])
    kept.reasons[name] = reason
    known = {seed.key() for seed in kept.seeds}
    kept.seeds += [seed for seed in facts.seeds if isinstance(seed.fact, _WORK) and seed.key() not in known]


def _by_time(path: PathRun, first: PathRun) -> bool:
    """Whether nothing but the time that work took decides what this path is."""
    return len(first.measured) > 1 and all(isinstance(key, Fastest) for key in path.forced)


_WORK = (Banned, LibraryWork, Product, Selection)


def _by_data(path: PathRun, first: PathRun) -> bool:
    """Whether data had a part in what this path is: one on which nothing is done may be that of empty groups."""
    sites = path.sites | first.sites
    return any(sites[key].contents for key in path.forced or sites if key in sites)


def _from_a_file(path: PathRun, at: int) -> bool:
    """Whether what a call returns was never computed: a value that nobody knows, where a file that is not there was
    read. What earlier builds left may be missing in a graded run, but no build leaves results."""
    found = last_call(path.shapes[at])
    return path.absent and any(
        isinstance(v, Unknown) for v in (found if isinstance(found, (list, tuple)) else (found,))
    )


def _hands_out_again(facts: ShapeFacts) -> bool:
    """Whether a call returns what an earlier one computed."""
    found = (seed.fact for seed in facts.seeds)
    return any(isinstance(fact, Survivor) and fact.role == "output" and fact.what != "nothing" for fact in found)


def _uses_the_former(facts: ShapeFacts) -> bool:
    """Whether a call uses what an earlier one derived from an input, and the input holds something else now."""
    found = (seed.fact for seed in facts.seeds)
    return any(
        isinstance(fact, Survivor) and (fact.what, fact.role) == ("input", "derived") and fact.key not in _HELD
        for fact in found
    )


_HELD = ("contents", "address-and-version", "checksum")  # keys that tell other contents, or all but always do


def across_targets(per_target: list[list[ShapeFacts]]) -> list[ShapeFacts]:
    """Merges the facts of one file read for each GPU of the deck, for a file that names no target: facts must hold on
    every GPU; the state of a promise is the best that any GPU gives, as the file was written for one of them."""
    first, *others = per_target
    out: list[ShapeFacts] = []
    for i, shape in enumerate(first):
        same = [other[i] for other in others if i < len(other)]
        keys = [{seed.key() for seed in other.seeds} for other in same]
        merged = ShapeFacts(shape.label, [s for s in shape.seeds if all(s.key() in k for k in keys)])
        merged.shares = shape.shares
        open_ = [{seed.key() for seed in (*other[i].seeds, *other[i].doubtful)} for other in others if i < len(other)]
        merged.doubtful = [s for s in shape.doubtful if all(s.key() in k for k in open_)]
        for name in shape.states:
            best = min((shape, *same), key=lambda s: _PREFERENCE.index(s.states.get(name, "unproven")))
            merged.states[name] = best.states.get(name, "unproven")
            merged.evidence[name] = best.evidence.get(name, [])
            if name in best.reasons:
                merged.reasons[name] = best.reasons[name]
        out.append(merged)
    return out


_PREFERENCE = ("kept", "kept-by-precision", "emulated", "unproven", "broken")


def _weakest(states: list[str]) -> str:
    weakest = max(states, key=_PREFERENCE.index)
    return "unproven" if weakest == "broken" else weakest


def differing(per_target: Sequence[Sequence[ShapeFacts]], gpus: Sequence[tuple[int, int] | None]) -> Iterator[str]:
    """Yields a sentence for each promise that is broken on some GPUs of the deck and not on others."""
    for name in per_target[0][0].states if per_target and per_target[0] else ():
        states = [{shape.states.get(name, "unproven") for shape in shapes} for shapes in per_target]
        broken = [f"{gpu[0]}.{gpu[1]}" for gpu, found in zip(gpus, states, strict=False) if gpu and "broken" in found]
        if broken and any("broken" not in found for found in states):
            yield f"{name} is broken on GPUs of compute capability {', '.join(broken)}: name the graded one (--target)"
