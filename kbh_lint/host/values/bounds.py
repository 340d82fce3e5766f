"""What one step of an interpreted program may cost.

Most steps are small and are paid for one by one. Those whose cost lies in a number (`[0] * n`, `a + a`, `str.zfill`,
`10 ** n`) are paid for by size, and refused past a bound: the statement then counts as not followed.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from kbh_lint.base.values import Value

if TYPE_CHECKING:
    from kbh_lint.host.run import Run

MAX_ITEMS = 1_000_000
MAX_ELEMENTS = 1 << 17  # of a container of C++ that is told how many it has
MAX_BITS = 32_768  # of an integer
MAX_WIDTH = 10_000  # of a padded or formatted text
MAX_NODES = 20_000  # of a container that is shown, hashed or compared whole
MAX_NESTING = 100
MAX_ARGUMENT = 1_000  # of a factorial or a binomial
FREE_ITEMS = 256
FREE_CHARACTERS = 4_096

_LONG_NUMBER = re.compile(r"\d{5}")


class TooLarge(ValueError):
    """Raised for a value past its bound; the text says which bound."""


def items(interp: Run, count: int) -> None:
    """Pays fuel for making or visiting `count` items at once; raises TooLarge past the bound."""
    if count > MAX_ITEMS:
        raise TooLarge("a container grew past the bound")
    if count > FREE_ITEMS:
        interp.burn(count // 8)


def steps(interp: Run, count: int) -> None:
    """Pays fuel for a loop of the interpreter's own over `count` items."""
    if count > FREE_ITEMS:
        interp.burn(count // 2)


def visited(interp: Run, found: Value) -> Any:
    """Returns `found`, after paying fuel for its items when it is a container."""
    if isinstance(found, Sized):
        items(interp, len(found))
    return found


def text(interp: Run, *values: Value) -> None:
    """Pays fuel for walking or copying texts."""
    size = sum(len(v) + 16 * len(getattr(v, "pieces", ())) for v in values if isinstance(v, (str, bytes, bytearray)))
    if size > FREE_CHARACTERS:
        interp.burn(size // 512)


def width(value: Value) -> None:
    """Raises TooLarge where `value`, the length of a text to be made, is past the bound."""
    if isinstance(value, int) and abs(value) > MAX_WIDTH:
        raise TooLarge("a text grew past the bound")


def format_spec(spec: str) -> str:
    """Returns a format specification; raises TooLarge where it asks for a long text."""
    if _LONG_NUMBER.search(spec):
        raise TooLarge("a text grew past the bound")
    return spec


def product(left: Value, right: Value) -> None:
    """Raises TooLarge where the product of two integers may have more than MAX_BITS bits."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
        raise TooLarge("a number grew past the bound")


def power(left: Value, right: Value) -> None:
    """Raises TooLarge where a power or a shift of integers may have more than MAX_BITS bits."""
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() * max(abs(right), 1) > MAX_BITS:
        raise TooLarge("a number grew past the bound")


def modular(interp: Run, base: Value, exponent: Value, modulus: Value) -> None:
    """Pays fuel for `pow(base, exponent, modulus)`: a product of the modulus' length for each bit of the exponent."""
    sizes = [abs(value).bit_length() for value in (base, exponent, modulus) if isinstance(value, int)]
    if len(sizes) < 3 or max(sizes) > MAX_BITS:
        raise TooLarge("a number grew past the bound")
    interp.burn(sizes[1] * (1 + sizes[2] // 64) ** 2 // 500)


def digits(*values: Value) -> None:
    """Raises TooLarge for a text of too many digits, or a number too long to be written."""
    for value in values:
        size = value.bit_length() if isinstance(value, int) else 4 * len(value) if isinstance(value, Sized) else 0
        if size > 4 * MAX_BITS:
            raise TooLarge("a number grew past the bound")


def argument(*values: Value) -> None:
    """Raises TooLarge for large arguments of a function that grows faster than a power."""
    if any(isinstance(v, int) and abs(v) > MAX_ARGUMENT for v in values):
        raise TooLarge("a number grew past the bound")


def is_small(value: Value) -> bool:
    """Whether a value can be shown, hashed and compared whole: not nested too deep, and not too large with shared parts
    counted each time."""
    if not isinstance(value, (tuple, list, dict, set, frozenset)):
        return True
    left = MAX_NODES
    level: list[Any] = [value]
    for _ in range(MAX_NESTING):
        below: list[Any] = []
        for item in level:
            left -= 1 + len(item)
            if left < 0:
                return False
            inner = (*item.keys(), *item.values()) if isinstance(item, dict) else item
            below.extend(i for i in inner if isinstance(i, (tuple, list, dict, set, frozenset)))
        if not below:
            return True
        level = below
    return False
