"""Rewrites that put kernels and device functions of CUDA text elsewhere: into namespaces, and into objects that a
kernel calls."""

from __future__ import annotations

import re
from random import Random

from kbh_lint.base.records import dataclass
from kbh_lint.rewrite.cuda.parts import (
    Function,
    Parameter,
    functions,
    given_at,
    head_names,
    launches,
    own_functions,
    parameters,
    substituted,
    uses,
)
from kbh_lint.rewrite.cuda.text import Token, change_texts, join, texts, tokens
from kbh_lint.rewrite.cuda.text_names import outside_words, significant, string_words
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import Source, source_of


def namespaces(program: Program, rng: Random) -> Program:
    """Kernels and device functions stand in namespaces, and are named by all ways that lead there."""
    source = source_of(program)
    parts = [tokens(text) for text in texts(program, source)]
    found = own_functions(parts, outside_words(program, source) | string_words(source))
    if not found:
        raise NotApplicable("no function can stand in a namespace")
    ways = {name: rng.choice(_WAYS) for name in found}
    names = [source.fresh(rng) for _ in range(4)]
    return change_texts(program, source, lambda text: _in_namespaces(text, ways, names))


# What opens the namespace, what closes it, and how the name is written then: {0}, {1}, {2}, {4} are namespaces.
_WAYS = (
    ("namespace {0} {{", "}}", "{0}::{3}"),
    ("namespace {0}::{1} {{", "}}", "{0}::{1}::{3}"),
    ("namespace {0} {{ namespace {1} {{", "}} using {1}::{3}; }}", "{0}::{3}"),
    ("namespace {{", "}}", "{3}"),
    ("namespace {0} {{", "}} using {0}::{3};", "{3}"),
    ("inline namespace {1} {{", "}}", "{3}"),
    ("namespace {0} {{ namespace {1} {{", "}} }} namespace {2} {{ using {0}::{1}::{3}; }}", "{2}::{3}"),
    ("namespace {0} {{ inline namespace {4} {{", "}} }}", "{0}::{4}::{3}"),
)  # fmt: skip


def _in_namespaces(text: str, ways: dict[str, tuple[str, str, str]], names: list[str]) -> str:
    pieces = tokens(text)
    new: dict[int, str] = {}
    for function in functions(pieces):
        if function.name in ways:
            opening, end, _ = ways[function.name]
            new[function.begin] = (
                f"{opening.format(*names[:3], function.name, names[3])}\n{pieces[function.begin].text}"
            )
            new[function.end] = f"}}\n{end.format(*names[:3], function.name, names[3])}"
    for name, (_, _, written) in ways.items():
        for at in uses(pieces, name) or []:
            new[at] = written.format(*names[:3], name, names[3])
    return "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))


@dataclass(frozen=True, slots=True)
class Object:
    """What a kernel becomes: the class whose objects do its work, the kernel that calls them, and how (`_FORMS`)."""

    kernel: Function
    parameters: tuple[Parameter, ...]
    struct: str
    entry: str
    form: str


_QUALIFIER = re.compile(r"\s*#\s*define\s+__(?:device|global|forceinline)__")
_FORMS = ("static", "call", "fields")
_BOUNDS = re.compile(r"__launch_bounds__\s*\((.*)\)\s*$", re.S)


def functors(program: Program, rng: Random) -> Program:
    """The work of kernels is done by objects of a class, which a thin kernel is a template of, given or makes."""
    source = source_of(program)
    parts = [tokens(text) for text in texts(program, source)]
    fixed = outside_words(program, source) | string_words(source)
    if any(p.kind == "directive" and _QUALIFIER.match(p.text) for pieces in parts for p in pieces):
        raise NotApplicable("the text gives its qualifiers a meaning of its own")
    found = {}
    own = own_functions(parts, fixed)
    for pieces in parts:
        here = list(functions(pieces))
        for name, defined in own.items():
            made = _object(pieces, defined, source, rng) if defined[0] in here else None
            if made is not None:
                found[name] = made
    if not found:
        raise NotApplicable("no kernel can be an object's method")
    return change_texts(program, source, lambda text: _by_objects(text, found))


def _object(pieces: list[Token], defined: list[Function], source: Source, rng: Random) -> Object | None:
    kernel = defined[0]
    within = join(pieces[kernel.opened : kernel.closed])
    if len(defined) != 1 or pieces[kernel.at].text != "__global__" or "__grid_constant__" in within:
        return None
    given = parameters(pieces[kernel.opened + 1 : kernel.closed])
    before = join(pieces[kernel.at : kernel.named])
    plain = re.fullmatch(r"__global__\s+(void\s*)?(__launch_bounds__\s*\([^;{}]*\)\s*)?(void\s*)?", before)
    if given is None or plain is None or "..." in kernel.head or "=" in kernel.head:
        return None
    names = head_names(kernel.head)
    for at in uses(pieces, kernel.name) or []:
        if len(given_at(pieces, at)[0]) != len(names):
            return None
    form = rng.choice(_FORMS)
    own = {one.name for one in given}
    caught = re.findall(r"[(\[,=]\s*\[([^\[\]]*)\]\s*(?:__device__|\()", join(pieces[kernel.start : kernel.end]))
    if form == "fields" and any(own & set(re.findall(r"\w+", words)) for words in caught):
        form = "static"
    launched = {launch.named for launch in launches(pieces)}
    if not all(at in launched or _is_setting(pieces, at) for at in uses(pieces, kernel.name) or []):
        form = "static"  # something else may launch it, with the arguments that it has
    return Object(kernel, given, source.fresh(rng), source.fresh(rng), form)


def _is_setting(pieces: list[Token], at: int) -> bool:
    """Whether a kernel is named where one of its attributes is set."""
    opened = next((i for i in range(at, -1, -1) if pieces[i].text in ("(", ";", "{")), 0)
    named = significant(pieces, opened, -1)
    return pieces[opened].text == "(" and named is not None and named.text.startswith("cudaFuncSetAttribute")


def _by_objects(text: str, found: dict[str, Object]) -> str:
    pieces = tokens(text)
    new: dict[int, str] = {}
    for function in functions(pieces):
        if function.name in found:
            _define(pieces, function, found[function.name], new)
    at_launch = {launch.named: launch for launch in launches(pieces)}
    for name, made in found.items():
        for at in uses(pieces, name) or []:
            given, end = given_at(pieces, at)
            kind = made.struct + (f"<{', '.join(given)}>" if given else "")
            apart = ", ".join([kind, *(given if made.form != "fields" else [])])
            new.update(dict.fromkeys(range(at, end + 1), ""))
            new[at] = f"{made.entry}<{apart}>"
            launch = at_launch.get(at)
            if launch is None or made.form == "static":
                continue
            values = launch.arguments
            if made.form == "call":
                new[launch.opened] = f"({kind}{{}}" + (", " if values else "")
                continue
            kinds = [substituted(one.kind, made.kernel.head, given) for one in made.parameters]
            listed = ", ".join(
                v if "*" in k or v.startswith("{") else f"({k})({v})" for k, v in zip(kinds, values, strict=False)
            )
            new.update(dict.fromkeys(range(launch.opened + 1, launch.closed), ""))
            new[launch.opened] = f"({kind}{{{listed}}}"
    return "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))


def _define(pieces: list[Token], kernel: Function, made: Object, new: dict[int, str]) -> None:
    """Writes to `new` the class that does a kernel's work, and the kernel that calls it."""
    listed = join(pieces[kernel.opened + 1 : kernel.closed])
    names = ", ".join(one.name for one in made.parameters)
    before = join(pieces[kernel.at : kernel.named]).replace("void", " ")
    bounds = _BOUNDS.search(before)
    inside = kernel.head[kernel.head.index("<") + 1 : kernel.head.rindex(">")] if kernel.head else ""
    attributes = f"__launch_bounds__({bounds[1]})" if bounds else ""
    fields = ""
    if made.form == "static":
        method, call, taken = f"static __device__ __forceinline__ void run({listed})", f"Op::run({names});", listed
    elif made.form == "call":
        method, call = f"__device__ __forceinline__ void operator()({listed}) const", f"op({names});"
        taken = "Op op" + (f", {listed}" if listed.strip() else "")
    else:
        fields = " ".join(f"{one.kind} {one.name};" for one in made.parameters)
        method, call, taken = "__device__ __forceinline__ void operator()()", "op();", "Op op"
        if bounds:
            fields += f" static constexpr int bound = {bounds[1].split(',')[0]};"
            attributes = "__launch_bounds__(Op::bound)"
    head = "template <class Op" + (f", {inside}" if inside and made.form != "fields" else "") + ">"
    entry = f"{head}\n__global__ void {attributes} {made.entry}({taken}) {{ {call} }}"
    new.update(dict.fromkeys(range(kernel.begin, kernel.start), ""))
    new[kernel.begin] = f"{kernel.head}\nstruct {made.struct} {{ {fields}\n{method} "
    new[kernel.end] = f"}}\n}};\n{entry}"


REWRITES = (
    Rewrite("cuda-namespace", "kernels and device functions in CUDA text stand in namespaces", namespaces),
    Rewrite("cuda-functor", "the work of kernels in CUDA text is done by objects of a class", functors),
)
