"""Patterns of `match`: an expression that says whether the subject matches, and binds what the pattern captures.

What no operator says is asked of built-ins whose names no text can spell; `host.patterns` answers.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kbh_lint.base import ir

if TYPE_CHECKING:
    from kbh_lint.frontends.python import Lowering

SUBJECT = "<match subject>"
SEQUENCE, LISTED = "<match sequence>", "<match list>"  # (subject, least, exactly), (part,)
MAPPING, REST = "<match mapping>", "<match rest>"  # (subject, *keys)
INSTANCE, HAS, PART = "<match class>", "<match has>", "<match part>"  # (subject, class), and a position or a name


def test(lowering: Lowering, subject: ir.Expr, pattern: ast.pattern, loc: ir.Loc) -> ir.Expr:
    """Lowers a pattern of a `match` statement to an expression that is true if the name `subject` matches, and that
    assigns what the pattern captures."""
    if isinstance(pattern, ast.MatchValue):
        return ir.Compare(subject, ("==",), (lowering.expr(pattern.value),), loc)
    if isinstance(pattern, ast.MatchSingleton):
        return ir.Compare(subject, ("is",), (ir.Const(pattern.value, loc),), loc)
    if isinstance(pattern, ast.MatchOr):
        return ir.Bool("or", tuple(test(lowering, subject, p, loc) for p in pattern.patterns), loc)
    if isinstance(pattern, ast.MatchAs):
        inner = [] if pattern.pattern is None else [test(lowering, subject, pattern.pattern, loc)]
        bound = [] if pattern.name is None else [_bound(pattern.name, subject)]
        return _all([*inner, *bound], loc)
    if isinstance(pattern, ast.MatchSequence):
        return _sequence(lowering, subject, pattern, loc)
    if isinstance(pattern, ast.MatchMapping):
        return _mapping(lowering, subject, pattern, loc)
    assert isinstance(pattern, ast.MatchClass), type(pattern)  # a star stands in sequences alone
    return _class(lowering, subject, pattern, loc)


def _sequence(lowering: Lowering, subject: ir.Expr, pattern: ast.MatchSequence, loc: ir.Loc) -> ir.Expr:
    parts = pattern.patterns
    star = next((i for i, part in enumerate(parts) if isinstance(part, ast.MatchStar)), None)
    least = len(parts) - (star is not None)
    tests = [_asked(SEQUENCE, loc, subject, ir.Const(least, loc), ir.Const(star is None, loc))]
    for i, part in enumerate(parts):
        if isinstance(part, ast.MatchStar):
            after = len(parts) - i - 1
            ends = ir.Const(i, loc), ir.Const(-after, loc) if after else None
            if part.name is not None:
                middle = ir.Index(subject, ir.SliceE(*ends, None, loc), loc)
                tests.append(_bound(part.name, _asked(LISTED, loc, middle)))
            continue
        at = i if star is None or i < star else i - len(parts)
        tests.append(_part(lowering, ir.Index(subject, ir.Const(at, loc), loc), part, loc))
    return _all(tests, loc)


def _mapping(lowering: Lowering, subject: ir.Expr, pattern: ast.MatchMapping, loc: ir.Loc) -> ir.Expr:
    keys = [lowering.expr(key) for key in pattern.keys]
    tests = [_asked(MAPPING, loc, subject, *keys)]
    for key, part in zip(keys, pattern.patterns, strict=True):
        tests.append(_part(lowering, ir.Index(subject, key, loc), part, loc))
    if pattern.rest is not None:
        tests.append(_bound(pattern.rest, _asked(REST, loc, subject, *keys)))
    return _all(tests, loc)


def _class(lowering: Lowering, subject: ir.Expr, pattern: ast.MatchClass, loc: ir.Loc) -> ir.Expr:
    cls = lowering.expr(pattern.cls)
    tests = [_asked(INSTANCE, loc, subject, cls)]
    places: list[tuple[int | str, ast.pattern]] = [*enumerate(pattern.patterns)]
    places += zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
    for place, part in places:
        given = subject, cls, ir.Const(place, loc)
        tests += [_asked(HAS, loc, *given), _part(lowering, _asked(PART, loc, *given), part, loc)]
    return _all(tests, loc)


def _part(lowering: Lowering, value: ir.Expr, pattern: ast.pattern, loc: ir.Loc) -> ir.Expr:
    """Whether a part of a subject matches, which gets a name of its own."""
    lowering.parts += 1
    name = ir.Name(f"{SUBJECT}{lowering.parts}", loc)
    return ir.Bool("and", (_bound(name.id, value), test(lowering, name, pattern, loc)), loc)


def _bound(name: str, value: ir.Expr) -> ir.Expr:
    """True, after binding a name to a value."""
    loc = value.loc
    bound = ir.AssignE(ir.Name(name, loc), "", value, loc)
    return ir.Index(ir.Seq("tuple", (ir.Const(True, loc), bound), loc), ir.Const(0, loc), loc)


def _asked(name: str, loc: ir.Loc, *args: ir.Expr) -> ir.Expr:
    return ir.Call(ir.Name(name, loc), args, (), loc)


def _all(tests: list[ir.Expr], loc: ir.Loc) -> ir.Expr:
    if len(tests) < 2:
        return tests[0] if tests else ir.Const(True, loc)
    return ir.Bool("and", tuple(tests), loc)
