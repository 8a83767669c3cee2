"""Are the buffers of a column of text what they say they are? Asked of all that comes from outside (`cep.admission`)."""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import kernel

#: What texts are: bytes below 128 alone, so UTF-8 whatever their bounds; any bytes; not to be read, for they lie outside.
ASCII, ANY, OUTSIDE = range(3)


@kernel("int64(const int32[:], const uint8[:])")
def texts_are(offsets: np.ndarray, body: np.ndarray) -> int:
    """Of texts in `body`, from and to `offsets`, int32[n + 1]."""
    n = len(offsets) - 1
    descending = 0
    for i in range(n):
        descending |= offsets[i + 1] < offsets[i]
    if descending or offsets[0] < 0 or offsets[n] > len(body):
        return OUTSIDE
    bits = np.uint8(0)
    for i in range(len(body)):
        bits |= body[i]
    return ASCII if bits < 128 else ANY
