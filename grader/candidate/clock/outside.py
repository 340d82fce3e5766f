"""Calls what a submission wrote, or could have replaced, with nothing of ours below it on the stack.

What does so is a generator that yields each such call and is suspended while it runs: its frame, and those that called
it, are then on no stack. A loop in C pulls the calls out of it. Below a submission's frames lie that of `run`, which
holds an iterator, and those of the interpreter's start.

This takes away what `sys._getframe` finds. The collector still lists what this process holds, and native code reads all
of it: what a submission may say in our name the judge bounds by its own clock and its own copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from itertools import starmap
from operator import call
from threading import get_ident
from typing import Any, TypeAlias, TypeVar, cast

__all__ = ["Steps", "outside", "run"]

T = TypeVar("T")
Steps: TypeAlias = Generator[Callable[[], Any], None, T]
_RAISED: dict[int, BaseException] = {}  # by thread: what the last call raised, until its generator hears of it


def outside(function: Callable[..., T], *arguments: object) -> Steps[T]:
    """Has `function` called with nothing of ours on the stack; gives what it returns and raises what it raises.

    `result = yield from outside(function, argument)`
    """
    given: list[T] = []
    yield partial(given.extend, starmap(function, (arguments,)))
    if get_ident() in _RAISED:
        raise _RAISED.pop(get_ident())  # under no name: it would hold this frame, which would hold it and what it saw
    if not given:  # a loop in C ends at this without a word
        raise RuntimeError("it raised StopIteration")
    return given[0]


def run(steps: Steps[T]) -> T:
    """Drives a generator made of `outside` calls: makes each call, and returns or raises what the generator does."""
    ended: list[T | None] = []
    pulled = map(call, _noting(steps, ended))
    del steps
    while not ended:
        try:
            deque(pulled, 0)
        except BaseException as error:
            if ended:  # it came out of the generator
                raise
            _RAISED[get_ident()] = error
    return cast(T, ended[0])


def _noting(steps: Steps[T], ended: list[T | None]) -> Steps[None]:
    """The same calls; what the generator returned is noted, and None when it raised."""
    try:
        ended.append((yield from steps))
    except BaseException:
        ended.append(None)
        raise
