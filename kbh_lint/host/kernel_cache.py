"""Kernel facts, analysed once for all bindings that cannot differ in them."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import Any

from kbh_lint.host import bounds
from kbh_lint.kernels.analyze import analyze
from kbh_lint.kernels.facts import KernelFacts, Origin
from kbh_lint.values import Brief, Buffer, Descriptor, DType, Func, Made, Scalar, StructArg


def analyse(session: Any, kernel: Func, binding: dict[str, Any]) -> KernelFacts:
    """The facts of `kernel` at `binding`, with its storages."""
    numbers: dict[int, int] = {}
    normal = {name: _normal(value, numbers) for name, value in binding.items()}
    back = {local: real for real, local in numbers.items()}
    known = session.kernels.setdefault(identity(kernel), [])
    for other, decided, facts in known:
        if agree(normal, other, decided):
            return _renumber(facts, back)
    capability = session.capability
    arch = capability[0] * 10 + capability[1] if capability else None
    facts = analyze(kernel, normal, arch=arch, budget=session.budgets.kernels, outer=session.outer)
    if len(known) < 256:
        known.append((normal, facts.decided, facts))
    return _renumber(facts, back)


def identity(kernel: Func) -> Any:
    """A kernel as a key. One that closes over a function's variables is another kernel where they differ."""
    if not kernel.language or kernel.env.parent is None:
        return id(kernel.node)
    closed = []
    env: Any = kernel.env
    while env.parent is not None:
        closed += [(k, _exact(v)) for k, v in env.vars.items() if bounds.is_small(v) and _is_plain(v)]
        env = env.parent
    return (id(kernel.node), *closed)


def _is_plain(value: Any) -> bool:
    """Whether a value is its own text: a number, a type, a tuple of them."""
    if isinstance(value, tuple):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (int, float, str, DType, Made))


def agree(left: dict[str, Any], right: dict[str, Any], decided: frozenset[str]) -> bool:
    """Whether two bindings are the same but for numbers that decided nothing."""
    if left.keys() != right.keys():
        return False
    for name, value in left.items():
        other = right[name]
        if value is other:
            continue
        if name in decided or not _plain(value) or not _plain(other):
            if type(value) is not type(other) or value != other:
                return False
    return True


def _plain(value: Any) -> bool:
    return isinstance(value, (int, float, bool, Scalar))


def _normal(value: Any, numbers: dict[int, int]) -> Any:
    """Storages by order of appearance, so that equal launches on other tensors look equal."""
    if isinstance(value, (Buffer, Descriptor)):
        local = numbers.setdefault(value.storage, len(numbers) + 1)
        return replace(value, storage=local)
    if isinstance(value, tuple):
        return tuple(_normal(v, numbers) for v in value)
    if isinstance(value, StructArg):
        return StructArg(tuple((name, _normal(v, numbers)) for name, v in value.fields))
    if isinstance(value, Made):
        return Made(value.path, tuple((name, _normal(v, numbers)) for name, v in value.fields), value.methods)
    return value


@cache
def _kinds(made: Any) -> tuple[str, ...]:
    """For each field of a fact whether it holds origins, a storage, or neither."""
    kinds = {"origins": "origins", "a_origins": "origins", "b_origins": "origins", "storage": "storage"}
    return tuple(kinds.get(field.name, "") for field in fields(made))


def _renumber(facts: KernelFacts, back: dict[int, int]) -> KernelFacts:
    """The facts with the storages of this launch."""

    known: dict[frozenset[Origin], frozenset[Origin]] = {}

    def origins(values: frozenset[Origin]) -> frozenset[Origin]:
        made = known.get(values)
        if made is None:
            made = frozenset(Origin(o.param, back.get(o.storage, o.storage), o.dtype, o.flags) for o in values)
            known[values] = made
        return made

    def one(item: Any) -> Any:
        made: Any = type(item)
        kinds = _kinds(made)
        if not any(kinds):
            return item
        values = []
        for name, kind in zip(made.__dataclass_fields__, kinds, strict=True):
            value = getattr(item, name)
            if kind == "origins":
                value = origins(value)
            elif kind == "storage":
                value = back.get(value, value)
            values.append(value)
        return made(*values)

    return KernelFacts(
        facts.name,
        [one(x) for x in facts.loads],
        [one(x) for x in facts.stores],
        [one(x) for x in facts.products],
        [one(x) for x in facts.casts],
        [one(x) for x in facts.unpacks],
        facts.uses,
        [one(x) for x in facts.sums],
        facts.unread,
        facts.decided,
        [one(x) for x in facts.branches],
        [one(x) for x in facts.bounds],
        facts.arithmetic,
        [one(x) for x in facts.hints],
        facts.settings,
    )


def normal_key(binding: dict[str, Any]) -> tuple[Any, ...]:
    """A hashable form of a binding in which equal launches on other tensors are equal."""
    numbers: dict[int, int] = {}
    return tuple((name, _exact(_normal(value, numbers))) for name, value in binding.items())


def _exact(value: Any) -> Any:
    """A hashable form of an argument: numbers of different types differ, functions are those of one text, and other
    objects are equal only to themselves."""
    if isinstance(value, Func):
        return Func, id(value.node)
    if isinstance(value, Brief):
        return value
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_exact(item) for item in value)
    if isinstance(value, Scalar):
        return Scalar, _exact(value.value), value.dtype
    if isinstance(value, StructArg):
        return StructArg, tuple((name, _exact(item)) for name, item in value.fields)
    return (Made, value.path, _exact(value.fields)) if isinstance(value, Made) else repr(value)
