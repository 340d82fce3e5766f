"""Functions of C++'s standard library, and methods of its containers, by whether they only read what they are given."""

from __future__ import annotations

SIZES = frozenset("size numel dim sizes stride get_device is_contiguous element_size nbytes".split())
READING = frozenset(
    "size empty begin end cbegin cend rbegin rend at front back data c_str count find contains length substr "
    "capacity first second has_value value value_or find_first_of find_last_of compare top operator[] max_size".split()
)
CHANGING = frozenset(
    "push_back emplace_back push_front emplace_front pop_back pop_front push emplace pop insert erase clear resize "
    "reserve assign append fill reset set flip swap try_emplace insert_or_assign shrink_to_fit replace".split()
)
COMPUTING = frozenset(
    "min max abs pow sqrt log2 log exp ceil floor round fabs fmin fmax fmod gcd lcm clamp move forward get make_pair "
    "make_tuple tie to_string size begin end distance popcount bit_ceil bit_floor bit_width has_single_bit "
    "countl_zero countr_zero min_element max_element accumulate lower_bound upper_bound find count midpoint".split()
)
WRITING = frozenset("swap exchange sort stable_sort fill iota copy copy_n reverse transform memset memcpy".split())
OF_EFFECT = frozenset(
    "abort exit open close read write malloc calloc realloc free posix_memalign nanosleep "
    "time clock_gettime gettimeofday getenv rand srand sleep usleep sched_yield setlocale".split()
)
CHECKS = (
    "TORCH_CHECK",
    "TORCH_INTERNAL_ASSERT",
    "assert",
    "static_assert",
    "AT_ASSERT",
    "sizeof",
    "alignof",
    "__builtin_",
)
OF_STREAMS = tuple("std::cout std::cerr std::clog std::endl std::flush std::hex std::dec std::setw".split())
# Types whose objects do more than hold what they are given.
ACTING = ("std::thread", "std::jthread", "std::future", "std::function", "std::ofstream", "std::async")


def is_constant(name: str) -> bool:
    """Whether a name outside the text is that of a number, of a stream of text or of a way to write to one."""
    return name.isupper() or name.startswith((*OF_STREAMS, "std::numeric_limits", "k"))
