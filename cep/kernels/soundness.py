"""Are the buffers of a column of text what they say they are? Asked of all that comes from outside (`cep.transport.admission`)."""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import kernel
from cep.kernels.machine.memory import load_word

_0, _HIGH_BITS = np.uint64(0), np.uint64(0x8080808080808080)

#: What texts are: bytes below 128 alone, so UTF-8 whatever their bounds; any bytes; not to be read, for they lie outside.
ASCII, ANY, OUTSIDE = range(3)


@kernel("int64(const int32[:], const uint8[:])")
def texts_are(offsets: np.ndarray, body: np.ndarray) -> int:
    """Checks texts in `body`, from and to `offsets`, int32[n + 1]."""
    n = len(offsets) - 1
    descending = 0
    for i in range(n):
        descending |= offsets[i + 1] < offsets[i]
    if descending or offsets[0] < 0 or offsets[n] > len(body):
        return OUTSIDE
    bits, words = np.uint64(0), len(body) // 8
    for i in range(words):
        bits |= load_word(body, 8 * i)
    for i in range(8 * words, len(body)):
        bits |= np.uint64(body[i])
    return ASCII if bits & _HIGH_BITS == _0 else ANY
