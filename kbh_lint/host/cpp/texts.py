"""The texts of an extension: one scope over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kbh_lint.base import ir
from kbh_lint.base.values import CppType, Env, Overloads, Value
from kbh_lint.frontends import cuda
from kbh_lint.source.embedded import Text

if TYPE_CHECKING:
    from kbh_lint.host.run import Run


def build_env(interp: Run, sources: list[str], flags: list[str], arch: int | None) -> tuple[Env, list[ir.Module]]:
    """Lowers the source texts of an extension, with its `-D` flags applied; returns the scope that all of them share,
    and their modules. Runs of a submission share both."""
    defines = {"HANDLE_TH_ERRORS": "", "END_HANDLE_TH_ERRORS": ""}
    for flag in flags:
        if flag.startswith("-D"):
            name, _, value = flag[2:].partition("=")
            defines[name] = value or "1"
    asked = [(text, tuple(sorted(defines.items())), getattr(text, "pieces", ())[:1]) for text in sources]
    known = interp.session.extensions.get((*asked, arch))
    if known is None:
        lowered = [_lowered(interp, text, of, defines, arch) for text, of in zip(sources, asked, strict=True)]
        known = interp.session.extensions[*asked, arch] = _env(lowered), lowered
    return known[0], list(known[1])


def _lowered(interp: Run, text: str, asked: tuple[Value, ...], defines: dict[str, str], arch: int | None) -> ir.Module:
    """One text, lowered once a file for what its conditions leave of it."""
    key, cache = (*asked, arch), interp.session.lowered
    if key not in cache:
        before: dict[Any, ir.Module] = interp.session.shared.lowered.setdefault(asked, {})
        cache[key] = cuda.lower(str(text), _origin(text), defines=defines, cuda_arch=arch, known=before)
    return cache[key]


def _env(lowered: list[ir.Module]) -> Env:
    """One scope over texts. What functions and classes of the one name is looked for in the others, too."""
    env = Env()
    files: list[Env] = []
    for module in lowered:
        made = cuda.module_env(module)
        files.append(made)
        env.uses = {**(env.uses or {}), **(made.uses or {})}
        for name, value in made.vars.items():
            known = env.vars.get(name)
            if isinstance(known, Overloads) and isinstance(value, Overloads):
                there = {_place(f.node) for f in known.funcs}  # what a header brought into both texts is one function
                more = [f for f in value.funcs if f.node.body is not None or not known.funcs]
                known.funcs.extend(f for f in more if _place(f.node) not in there)
            else:
                env.vars[name] = value
    for value in env.vars.values():
        for func in value.funcs if isinstance(value, Overloads) else ():
            func.env = _placed(func.env, files, env)
        if isinstance(value, CppType):
            for special in value.special:
                special.env = _placed(special.env, files, env)
            value.env = _placed(value.env, files, env)
    return env


def _placed(scope: Env, files: list[Env], env: Env) -> Env:
    """A scope of one of the texts as a scope of all of them: a namespace's stays its own."""
    inner = scope
    while inner.parent is not None and inner.parent is not env:
        if any(inner.parent is made for made in files):
            inner.parent = env
            break
        inner = inner.parent
    return env if any(scope is made for made in files) else scope


def _place(node: ir.FuncDef) -> object:
    """Where a function is written, and what stands there: a macro may write several in one place."""
    unit, start, end = node.loc
    span = unit.span(node.loc)
    return span.path, span.line, span.column, unit.text[start:end]


def _origin(text: str) -> Callable[[int], tuple[str, int, int]]:
    if isinstance(text, Text):
        return lambda offset: text.origin(offset) or ("<text>", 1, 1)
    return cuda.lines_origin("<text>", text)
