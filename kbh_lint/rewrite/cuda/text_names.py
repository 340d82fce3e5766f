"""Rewrites of CUDA text: names, macros, aliases, templates, comments and blanks, helpers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from random import Random

from kbh_lint.rewrite.cuda.text import Token, change_texts, cuda_strings, is_cuda, join, texts, tokens, words_in
from kbh_lint.rewrite.nodes import code
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import Source, source_of

_TYPES = frozenset(
    """float double int bool unsigned size_t uint32_t int32_t int64_t uint64_t uint8_t int8_t uint16_t half __half
    __nv_bfloat16 bf16 char short long auto float2 float4 int4 uint4""".split()
)
_COMPOUND = frozenset("unsigned signed long short".split())
_AFTER_TYPE = frozenset(("*", "&", "const", "__restrict__", "__restrict"))
ELEMENTS = ("float", "__nv_bfloat16", "half", "__half", "__nv_fp8_e4m3", "int8_t", "uint8_t", "uint32_t")
_CONVERSIONS = {
    "__float2bfloat16": ("__nv_bfloat16", "float"),
    "__bfloat162float": ("float", "__nv_bfloat16"),
    "__half2float": ("float", "__half"),
    "__float2half": ("__half", "float"),
    "__expf": ("float", "float"),
}
_HONEST = (
    "// The product runs on fp8 tensor cores; operands are never widened.",
    "// Kahan compensated: the rounding error is carried to the next addition.",
    "// int4 weights stay packed until they are in registers.",
    "// Every input is read on every call; nothing is kept.",
)


def significant(pieces: list[Token], at: int, step: int) -> Token | None:
    """The next token that is neither blank nor comment, in one direction."""
    at += step
    while 0 <= at < len(pieces):
        if pieces[at].kind not in ("space", "comment"):
            return pieces[at]
        at += step
    return None


def declared_functions(pieces: list[Token]) -> Iterator[tuple[int, int]]:
    """(index of the qualifier, index of the name) of every kernel and device function that is declared."""
    for at, piece in enumerate(pieces):
        if piece.text not in ("__global__", "__device__"):
            continue
        name, depth = -1, 0
        for next_at in range(at + 1, min(at + 120, len(pieces))):
            other = pieces[next_at]
            if other.text == "(":
                before = pieces[name].text if name >= 0 else ""
                if depth == 0 and before not in ("__launch_bounds__", "__align__", "alignas", "__cluster_dims__", ""):
                    yield at, name
                    break
                depth += 1
            elif other.text == ")":
                depth -= 1
            elif other.kind == "word" and depth == 0:
                name = next_at
            elif other.text in (";", "=", "{", "}"):
                break


def outside_words(program: Program, source: Source) -> set[str]:
    """Words of the Python text, its CUDA strings left out."""
    text = source.text
    for node in cuda_strings(source):
        text = text.replace(code(node), " ")
    return set(re.findall(r"[A-Za-z_]\w*", text))


def string_words(source: Source) -> set[str]:
    """Words of strings that are not CUDA text themselves: names, placeholders, declarations."""
    kept = [text for text in source.strings if not is_cuda(text)] + source.fragments
    return {word for text in kept for word in re.findall(r"[A-Za-z_]\w*", text)}


def rename_cuda(program: Program, rng: Random) -> Program:
    """Kernels, device functions, their arguments and locals get other names throughout the CUDA text."""
    source = source_of(program)
    parts = [tokens(text) for text in texts(program, source)]
    fixed = _fixed_words(parts) | string_words(source)
    names = {
        pieces[at].text
        for pieces in parts
        for _, at in declared_functions(pieces)
        if pieces[at].text not in source.attributes
    }
    functions_outside = names & outside_words(program, source)
    names = (names - functions_outside) | {name for pieces in parts for name in _locals(pieces)}
    names = {name for name in names - fixed - _TYPES if name not in source.attributes and name != "main"}
    if not names or any("##" in piece.text for pieces in parts for piece in pieces if piece.kind == "directive"):
        raise NotApplicable("the CUDA text has no name that can be changed")
    renaming = {name: source.fresh(rng) for name in sorted(names)}

    def change(text: str) -> str:
        return "".join(renaming.get(p.text, p.text) if p.kind == "word" else p.text for p in tokens(text))

    return change_texts(program, source, change)


def _fixed_words(parts: list[list[Token]]) -> set[str]:
    """Words that are members, qualified names, or in directives and strings: not ours alone to change."""
    fixed: set[str] = set()
    for pieces in parts:
        for at, piece in enumerate(pieces):
            if piece.kind in ("directive", "string", "raw"):
                fixed |= set(re.findall(r"[A-Za-z_]\w*", piece.text))
            elif piece.kind == "word":
                before = significant(pieces, at, -1)
                after = significant(pieces, at, 1)
                if (before and before.text in (".", ":", ">")) or (after and after.text == ":"):
                    fixed.add(piece.text)
    return fixed


def _locals(pieces: list[Token]) -> set[str]:
    """Names that a simple declaration introduces: `float s = 0`, `const int* p,`."""
    found: set[str] = set()
    solid = [piece for piece in pieces if piece.kind not in ("space", "comment")]
    for at, piece in enumerate(solid):
        if piece.text not in _TYPES:
            continue
        next_at = at + 1
        while next_at < len(solid) and (solid[next_at].text in _AFTER_TYPE or solid[next_at].text in _TYPES):
            next_at += 1
        if next_at + 1 < len(solid) and solid[next_at].kind == "word":
            if solid[next_at + 1].text in ("=", ";", ",", ")", "["):
                found.add(solid[next_at].text)
    return found


def after_head(text: str, addition: str) -> str | None:
    """The text with lines put after its leading includes; None when a conditional is open there."""
    pieces = tokens(text)
    place, depth = 0, 0
    for at, piece in enumerate(pieces):
        if piece.kind not in ("directive", "space", "comment"):
            break
        if piece.kind == "directive":
            word = piece.text.strip().lstrip("#").strip()
            depth += word.startswith("if")
            depth -= word.startswith("endif")
            if depth == 0:
                place = at + 1
    if any(piece.kind == "directive" and "include" in piece.text for piece in pieces[place:]):
        return None
    head, tail = join(pieces[:place]), join(pieces[place:])
    return (
        (head.rstrip("\n") + "\n" if head.strip() else "") + addition + ("" if tail.startswith("\n") else "\n") + tail
    )


def _replace_words(
    text: str, names: dict[str, str], lines: Callable[[str, str], str], written: str = "{new}"
) -> str:  # fmt: skip
    """The text with words replaced and, for each that occurs, a line after the head."""
    pieces = tokens(text)
    used: list[str] = []
    out = []
    for at, piece in enumerate(pieces):
        if piece.kind == "word" and piece.text in names and not _is_compound(pieces, at):
            if piece.text not in used:
                used.append(piece.text)
            out.append(written.format(old=piece.text, new=names[piece.text]))
        else:
            out.append(piece.text)
    if not used:
        return text
    return after_head("".join(out), "".join(lines(name, names[name]) for name in used)) or text


def _is_compound(pieces: list[Token], at: int) -> bool:
    before, after = significant(pieces, at, -1), significant(pieces, at, 1)
    if before is not None and before.text in (*_COMPOUND, ":", ".", "struct", "using", "typedef", "operator"):
        return True
    return after is not None and after.text in (*_COMPOUND, ":")


def in_each_text(
    program: Program, rng: Random, words: Iterable[str], lines: Callable[[str, str], str], written: str = "{new}"
) -> Program:
    """Every whole text with words replaced by a new name, as `written`, and before them the line that `lines` makes of
    word and name; names are new in each text, since texts may be joined later on."""
    source = source_of(program)

    def change(text: str) -> str:
        solid = [piece.text for piece in tokens(text) if piece.kind == "other"]
        if solid.count("{") != solid.count("}"):
            return text  # a part of a text, which may begin within a function
        return _replace_words(text, {word: source.fresh(rng) for word in words}, lines, written)

    return change_texts(program, source, change)


def cuda_using(program: Program, rng: Random) -> Program:
    """Element types get aliases: `using name = float;`."""
    return in_each_text(program, rng, ELEMENTS, lambda old, new: f"using {new} = {old};\n")


def cuda_macros(program: Program, rng: Random) -> Program:
    """Element types and conversions are macros: `#define name float`."""
    return in_each_text(program, rng, (*ELEMENTS, *_CONVERSIONS), lambda old, new: f"#define {new} {old}\n")


def cuda_helpers(program: Program, rng: Random) -> Program:
    """Conversions are made by device functions of the submission."""

    def line(old: str, new: str) -> str:
        result, argument = _CONVERSIONS[old]
        where = "__device__" if old == "__expf" else "__host__ __device__"
        return f"static {where} __forceinline__ {result} {new}({argument} v) {{ return {old}(v); }}\n"

    return in_each_text(program, rng, _CONVERSIONS, line)


def cuda_template(program: Program, rng: Random) -> Program:
    """Kernels become templates with a parameter that nothing depends on."""
    source = source_of(program)
    outside = outside_words(program, source) | string_words(source)
    parameter = source.fresh(rng)
    parts = [tokens(text) for text in texts(program, source)]
    fixed = words_in(parts, "directive", "string", "raw")
    if any(p.text == "extern" for pieces in parts for p in pieces):
        raise NotApplicable("the CUDA text has names with C linkage")
    declared: list[str] = []
    for pieces in parts:
        for at, name in declared_functions(pieces):
            before = significant(pieces, at, -1)
            if pieces[at].text == "__global__" and (
                before is None or before.text in (";", "}") or before.kind == "directive"
            ):
                declared.append(pieces[name].text)
    names = {name for name in declared if declared.count(name) == 1} - outside - fixed
    # A name that a text uses and does not declare may be declared elsewhere without the parameter.
    if not names:
        raise NotApplicable("no kernel can be a template")
    return change_texts(program, source, lambda text: _templated(text, names, parameter))


def _templated(text: str, names: set[str], parameter: str) -> str:
    pieces = tokens(text)
    starts = {
        at: name
        for at, name in declared_functions(pieces)
        if pieces[at].text == "__global__" and pieces[name].text in names
    }
    declared = set(starts.values())
    out = []
    for at, piece in enumerate(pieces):
        if at in starts:
            out.append(f"template <int {parameter} = 0>\n")
        out.append(piece.text)
        if piece.kind == "word" and piece.text in names and at not in declared:
            out.append("<0>")
    return "".join(out)


def cuda_compact(program: Program, rng: Random) -> Program:
    """Comments go, and so do blanks and line ends that C++ does not need."""
    source = source_of(program)
    return change_texts(program, source, _compact)


def _compact(text: str) -> str:
    out: list[str] = []
    for piece in tokens(text):
        if piece.kind == "directive":
            out.append(("" if not out or out[-1].endswith("\n") else "\n") + piece.text.strip() + "\n")
        elif piece.kind in ("space", "comment"):
            if out and not out[-1].endswith((" ", "\n")):
                out.append(" ")
        else:
            out.append(piece.text)
    # What stands before and after may be another text, and a directive there needs its own line.
    ends = ("\n" if text.startswith("\n") else "", "\n" if text.endswith("\n") else "")
    return ends[0] + "".join(out).rstrip("\n") + ends[1]


def cuda_comments(program: Program, rng: Random) -> Program:
    """Lines of CUDA text get comments that claim what an honest kernel does, and #line directives."""
    source = source_of(program)

    def change(text: str) -> str:
        out = []
        for piece in tokens(text):
            if piece.kind == "space" and "\n" in piece.text and rng.random() < 0.4:
                last = piece.text.rpartition("\n")
                out.append(f"{last[0]}\n{rng.choice(_HONEST)}\n{last[2]}")
            else:
                out.append(piece.text)
        with_line = after_head("".join(out), f'#line {rng.randint(100, 900)} "fp8_kahan.cu"\n')
        return with_line or "".join(out)

    return change_texts(program, source, change)


REWRITES = (
    Rewrite("cuda-rename", "kernels, device functions, arguments and locals of CUDA text get other names", rename_cuda),
    Rewrite("cuda-using", "element types in CUDA text are aliases", cuda_using),
    Rewrite("cuda-macros", "element types and conversions in CUDA text are macros", cuda_macros),
    Rewrite("cuda-helpers", "conversions in CUDA text are device functions of the submission", cuda_helpers),
    Rewrite("cuda-template", "kernels in CUDA text are templates", cuda_template),
    Rewrite("cuda-compact", "CUDA text without comments and on few lines", cuda_compact),
    Rewrite("cuda-comments", "honest-sounding comments and #line in CUDA text", cuda_comments),
)
