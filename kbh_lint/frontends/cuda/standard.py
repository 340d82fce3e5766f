"""Classes of the standard library that texts derive from, as text of our own: constants that are types."""

from __future__ import annotations

from functools import lru_cache

from kbh_lint.base import ir, values
from kbh_lint.frontends.cuda.lowering import lower
from kbh_lint.frontends.cuda.unit import lines_origin

# `std::true_type` and its kin, for which a text writes no definition.
TEXT = """
template <class T, T V> struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return V; }
  constexpr T operator()() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
"""
NAMES = ("integral_constant", "bool_constant", "true_type", "false_type")
SPACES = ("std", "cuda::std")


def mentioned(text: str) -> bool:
    """Whether a text may use one of the classes defined here; a quick test, as most do not."""
    return "_type" in text and ("true_type" in text or "false_type" in text) or "l_constant" in text


@lru_cache(maxsize=1)
def definitions() -> ir.Module:
    """The definitions, lowered to IR."""
    return lower(TEXT, lines_origin(TEXT, "<the standard library>"))


def add(env: values.Env, made: values.Env) -> None:
    """Adds the definitions in `made` to the scope of a file, except for names that the file defines itself."""
    for space in SPACES:
        for name in NAMES:
            env.vars.setdefault(f"{space}::{name}", made.vars[name])
