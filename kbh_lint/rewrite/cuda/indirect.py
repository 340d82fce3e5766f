"""Rewrites of CUDA text that put something between: types come from traits of a tag, launches are made in lambdas that
get constants and types as arguments, and kernels reach memory through views."""

from __future__ import annotations

import re
from random import Random

from kbh_lint.rewrite.cuda.packed import Kernel, is_member, kernels, only_launched
from kbh_lint.rewrite.cuda.parts import Launch, given_at, is_statement, launches
from kbh_lint.rewrite.cuda.text import Token, change_texts, texts, tokens, words_in
from kbh_lint.rewrite.cuda.text_names import (
    ELEMENTS,
    after_head,
    in_each_text,
    outside_words,
    significant,
    string_words,
)
from kbh_lint.rewrite.program import NotApplicable, Program, Rewrite
from kbh_lint.rewrite.tree import source_of


def traits(program: Program, rng: Random) -> Program:
    """Element types are what traits say of a tag: `traits<tag>::type`."""
    declared, written = rng.choice(_TRAITS)
    return in_each_text(program, rng, ELEMENTS, lambda old, new: declared.format(old=old, new=new), written)


# The lines that say what type a name stands for, and how the type is written then.
_TRAITS = (
    ("struct {new} {{ using type = {old}; }};\n", "{new}::type"),
    (
        "struct {new} {{}};\ntemplate <class Tag> struct {new}_of;\n"
        "template <> struct {new}_of<{new}> {{ using type = {old}; }};\n",
        "{new}_of<{new}>::type",
    ),
    (
        "template <int Bits, bool Wide> struct {new} {{ using type = void; }};\n"
        "template <bool Wide> struct {new}<1, Wide> {{ using type = {old}; }};\n",
        "{new}<1, false>::type",
    ),
    ("template <class Is> using {new} = Is;\n", "{new}<{old}>"),
    (
        "template <class First, class... Rest> struct {new} {{ using type = First; }};\n",
        "{new}<{old}, char, void*>::type",
    ),
)


def dispatchers(program: Program, rng: Random) -> Program:
    """Launches stand in lambdas, which a function calls with the kernel's template arguments as objects."""
    source = source_of(program)
    name, tag = source.fresh(rng), source.fresh(rng)
    form = rng.choice(_FORMS)

    def change(text: str) -> str:
        pieces = tokens(text)
        new: dict[int, str] = {}
        for launch in launches(pieces):
            if is_statement(pieces, launch):
                _within_lambda(pieces, launch, form, name, tag, new)
        if not new:
            return text
        changed = "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))
        return after_head(changed, _DISPATCHERS.replace("NAME", name)) or text

    return change_texts(program, source, change)


_FORMS = ("lambda", "argument")
_DISPATCHERS = """
#include <type_traits>
template <int N> struct NAME_number { static constexpr int value = N; };
template <class T> struct NAME_type { using type = T; };
template <class Body> static inline void NAME(Body&& body) { body(); }
template <int N, class Body> static inline void NAME_constant(Body&& body) { body(NAME_number<N>{}); }
template <bool B, class Body> static inline void NAME_truth(Body&& body) { body(std::integral_constant<bool, B>{}); }
template <class T, class Body> static inline void NAME_element(Body&& body) { body(NAME_type<T>{}); }
"""


def _within_lambda(pieces: list[Token], launch: Launch, form: str, name: str, tag: str, new: dict[int, str]) -> None:
    """Writes to `new` a lambda around a launch, and a call that hands it the last template argument where this is a
    number, a truth value or a type."""
    given, end = given_at(pieces, launch.named)
    last = given[-1] if given else ""
    begin, inside = f"{name}([&] {{ ", ""
    if form != "lambda" and re.fullmatch(r"\d+", last):
        begin, inside = f"{name}_constant<{last}>([&](auto {tag}) {{ ", f"decltype({tag})::value"
    elif form != "lambda" and last in ("true", "false"):
        begin, inside = f"{name}_truth<{last}>([&](auto {tag}) {{ ", f"decltype({tag})::value"
    elif form != "lambda" and last in ELEMENTS:
        begin = f"{name}_element<{last}>([&](auto {tag}) {{ using {tag}_t = typename decltype({tag})::type; "
        inside = f"{tag}_t"
    new[launch.at] = begin + new.get(launch.at, pieces[launch.at].text)
    if inside:
        new.update(dict.fromkeys(range(launch.named + 1, end + 1), ""))
        new[end] = f"<{', '.join([*given[:-1], inside])}>"
    new[launch.closed] = "); })"


def views(program: Program, rng: Random) -> Program:
    """Pointers that kernels are given are objects of a class that has `operator[]`."""
    source = source_of(program)
    parts = [tokens(text) for text in texts(program, source)]
    outside, directives = outside_words(program, source) | string_words(source), words_in(parts, "directive", "raw")
    found = {
        kernel.name: taken
        for pieces in parts
        for kernel in kernels(pieces)
        if kernel.name not in outside | directives
        and all(only_launched(other, kernel) for other in parts)
        and (taken := _viewed(pieces, kernel) - directives)
    }
    if not found:
        raise NotApplicable("no kernel takes a pointer that an object can hold")
    form, name = rng.choice(_VIEWS), source.fresh(rng)

    def change(text: str) -> str:
        pieces = tokens(text)
        new: dict[int, str] = {}
        for kernel in kernels(pieces):
            if kernel.name in found:
                _by_views(pieces, kernel, found[kernel.name], name, new)
        if not new:
            return text
        changed = "".join(new.get(at, piece.text) for at, piece in enumerate(pieces))
        return after_head(changed, form.replace("NAME", name)) or text

    return change_texts(program, source, change)


_VIEWS = (
    """
template <class T> struct NAME {
  T* base;
  __host__ __device__ NAME(T* p) : base(p) {}
  __device__ __forceinline__ T& operator[](long long at) const { return base[at]; }
  __device__ __forceinline__ T* data() const { return base; }
};
""",
    """
template <class T> class NAME {
 public:
  using element = T;
  template <class From> __host__ __device__ constexpr NAME(From* p) : first_(static_cast<element*>(p)) {}
  template <class I> __device__ constexpr element& operator[](I at) const noexcept { return *(data() + at); }
  __device__ constexpr element* data() const noexcept { return first_; }
 private:
  element* first_;
};
""",
    """
template <class T> struct NAME_base {
  T* held = nullptr;
  __device__ T* data() const { return this->held; }
};
template <class T> struct NAME : NAME_base<T> {
  __host__ __device__ NAME(T* p) { this->held = p; }
  __device__ T& operator[](long long at) const { return this->data()[at]; }
};
""",
)


def _viewed(pieces: list[Token], kernel: Kernel) -> set[str]:
    """The parameters of a kernel that are pointers which it never changes."""
    names = {name for kind, name in kernel.parameters if "*" in kind and "void" not in kind}
    for at in range(kernel.opened, kernel.end):
        if pieces[at].text not in names or pieces[at].kind != "word" or is_member(pieces, at):
            continue
        before, after = significant(pieces, at, -1), significant(pieces, at, 1)
        changed = after is not None and after.text in ("=", "+", "-") and _changes(pieces, at)
        if changed or before is not None and before.text == "&":
            names.discard(pieces[at].text)
    return names


def _changes(pieces: list[Token], at: int) -> bool:
    """Whether an assignment, or a step by one, follows the name at `at`."""
    text = "".join(p.text for p in pieces[at + 1 : at + 6] if p.kind not in ("space", "comment"))
    return re.match(r"=(?!=)|[+-]=|\+\+|--", text) is not None


def _by_views(pieces: list[Token], kernel: Kernel, names: set[str], view: str, new: dict[int, str]) -> None:
    """Writes to `new` a kernel whose pointers `names` are views."""
    body = next(at for at in range(kernel.opened, kernel.end) if pieces[at].text == "{")
    listed = ", ".join(
        f"{view}<{kind.partition('*')[0].strip()}> {name}" if name in names else f"{kind} {name}"
        for kind, name in kernel.parameters
    )
    closed = max(at for at in range(kernel.opened, body) if pieces[at].text == ")")
    new.update(dict.fromkeys(range(kernel.opened + 1, closed), ""))
    new[kernel.opened] = f"({listed}"
    for at in range(body, kernel.end):
        if pieces[at].kind != "word" or pieces[at].text not in names or is_member(pieces, at):
            continue
        after = significant(pieces, at, 1)
        if after is None or after.text != "[":
            new[at] = f"{pieces[at].text}.data()"


REWRITES = (
    Rewrite("cuda-traits", "element types in CUDA text are what traits say of a tag", traits),
    Rewrite("cuda-dispatch", "launches in CUDA text stand in lambdas that a dispatcher calls", dispatchers),
    Rewrite("cuda-views", "kernels in CUDA text reach memory through objects with operator[]", views),
)
