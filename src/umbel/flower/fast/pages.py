"""Keeps freed memory in the process, so that the next chunk of a large model finds it there.

The C library gives five freed megabytes back to the kernel, which clears them page by page when they
are asked for again a moment later: a fifth of what a large model costs.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES = 128 << 20
_LARGEST_BYTES = 32 << 20  # as much as the library takes


def keep() -> None:
    """Keep up to `KEPT_BYTES` of freed memory; says nothing where the library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
