"""Methods of C++'s containers that are not followed."""

from __future__ import annotations

from kbh_lint.host.values.modelled import Site
from kbh_lint.host.values.tensors import Unknown

# What changes nothing of a container.
_LOOKING = frozenset(
    "reserve shrink_to_fit capacity max_size get_allocator key_comp value_comp hash_function key_eq load_factor "
    "max_load_factor rehash bucket_count bucket rbegin rend crbegin crend equal_range defined is_contiguous numel "
    "toVec vec slice equals get".split()
)


def method(site: Site) -> Unknown:
    """Calls a method of a container that is not followed, after which nobody knows what that holds."""
    if site.name not in _LOOKING:
        site.run.lost(f"{site.path}, which may change what it holds, is not followed", site.loc)
    return Unknown((), site.name)
