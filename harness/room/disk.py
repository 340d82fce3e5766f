"""Bounds the number of files in a folder of memory (tmpfs) that a sandbox made.

The kernel bounds the bytes of files and not what it keeps about each: about 1 KiB for an empty one, and by default as
many as half of the machine's pages. Bubblewrap cannot set another bound when it makes the folder; root can afterwards,
through a descriptor, wherever the folder is seen.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["BYTES_FOR_FILE", "bound_files"]

BYTES_FOR_FILE = 8 << 10  # so that what the kernel keeps of files is an eighth of what they hold, at most
SYS_FSCONFIG, SYS_FSPICK = 431, 433
FSPICK_CLOEXEC, FSPICK_EMPTY_PATH = 1, 8
FSCONFIG_SET_STRING, FSCONFIG_CMD_RECONFIGURE = 1, 7

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long


def bound_files(folder: int, files: int) -> bool:
    """Sets how many files and folders the file system of a descriptor may hold; False where this is not allowed."""
    try:
        picked = _call(SYS_FSPICK, folder, b"", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH)
    except OSError:
        return False
    try:
        _call(SYS_FSCONFIG, picked, FSCONFIG_SET_STRING, b"nr_inodes", str(files).encode(), 0)
        _call(SYS_FSCONFIG, picked, FSCONFIG_CMD_RECONFIGURE, None, None, 0)
    except OSError:
        return False
    finally:
        os.close(picked)
    return True


def _call(number: int, *arguments: int | bytes | None) -> int:
    converted = (ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments)
    result: int = _LIBC.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
