"""The hash is frozen: buckets in snapshots and in mixed clusters depend on it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.kernels.jit import interpreted
from cep.kernels.tables.hashing import LONG, fold_origins, hash64, hash_of, hash_words, mix64
from cep.kernels.tables.partition import bucket_targets

MASK = 2**64 - 1
WORDS = st.integers(0, MASK)

FROZEN_WORDS = {
    (0, 0): 0x0000000000000000,
    (1, 0): 0x1D0782065D81F7C6,
    (0, 1): 0x9C8C8577591FA396,
    (MASK, MASK): 0x7C86A6C2FC53A685,
    (0x0123456789ABCDEF, 0x0F00000000000000): 0x3DEF469F4968C01F,
    (7, LONG << 56): 0xFDA3071096697C76,
    (7, LONG << 56 | 12345): 0xFDA3071096697C76,
}
FROZEN_BYTES = {
    b"": 0x0000000000000000,
    b"a": 0xFAF96C8F173D6A3C,
    b"12345678": 0x1871B53A7F746358,
    b"per-ip/window/0>1": 0x10E22C582D954992,
}

#: Of two joined tuples whose sides have the origins (1, 2), (-3, 4) and (5, 6, 7), (8, 9, -1); of the left alone; of it as the right.
FROZEN_FOLDS = [
    [[-8586046734976555582, 2090631031851556701], [-1130121114472169333, -3585395589045819447]],
    [[-2531952596212760298, -4035127511604596864], [-2019377206208167951, -8659657046870817495]],
    [[-1150933591963608633, 6688273931341856352], [-8316190847135761609, -7107769197239112614]],
]


def specified_mix(a: int, b: int) -> int:
    """The specification in `cep.kernels.tables.hashing`, in plain integers."""
    x = (a ^ a >> 32) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 29) + (b ^ b >> 32) & MASK
    x = x * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 31) * 0x94D049BB133111EB & MASK
    return x ^ x >> 32


def specified_key(w0: int, w1: int) -> int:
    return specified_mix(w0, LONG << 56 if w1 >> 56 == LONG else w1)


def specified_bytes(data: bytes) -> int:
    h = len(data)
    for at in range(0, len(data), 8):
        h = specified_mix(h, int.from_bytes(data[at : at + 8], "little"))
    return h


def words(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def hashed(w0: np.ndarray, w1: np.ndarray) -> np.ndarray:
    out = np.empty(len(w0), np.uint64)
    hash_words(w0, w1, out)
    return out


def test_frozen_vectors_of_words() -> None:
    for (w0, w1), wanted in FROZEN_WORDS.items():
        assert hashed(words(w0), words(w1))[0] == wanted == specified_key(w0, w1)


def test_frozen_vectors_of_bytes() -> None:
    for data, wanted in FROZEN_BYTES.items():
        assert hash_of(np.frombuffer(data, np.uint8)) == wanted == specified_bytes(data)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_compiled_is_python_is_specified(w0: int, w1: int) -> None:
    wanted = specified_key(w0, w1)
    assert hashed(words(w0), words(w1))[0] == wanted
    with np.errstate(over="ignore"):
        assert hash64(np.uint64(w0), np.uint64(w1)) == wanted
        assert mix64(np.uint64(w0), np.uint64(w1)) == specified_mix(w0, w1)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_bytes_compiled_is_python_is_specified(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    assert hash_of(array) == specified_bytes(data)
    with interpreted():
        assert hash_of(array) == specified_bytes(data)


def test_every_bit_depends_on_every_bit() -> None:
    random = np.random.default_rng(1)
    w0, w1 = random.integers(0, MASK, (2, 4000), np.uint64, endpoint=True)
    w1 >>= np.uint64(1)  # not long
    before = hashed(w0, w1)
    for bit in map(np.uint64, range(127)):
        one = np.uint64(1) << bit % np.uint64(64)
        after = hashed(w0 ^ one, w1) if bit < 64 else hashed(w0, w1 ^ one)
        flipped = np.unpackbits((before ^ after).view(np.uint8).reshape(-1, 8), axis=1, bitorder="little").mean(axis=0)
        assert np.abs(flipped - 0.5).max() < 0.06  # seven standard deviations


def chi_square(parts: np.ndarray, count: int) -> float:
    """In standard deviations from what chance gives."""
    expected = len(parts) / count
    statistic = ((np.bincount(parts, minlength=count) - expected) ** 2).sum() / expected
    return float((statistic - (count - 1)) / np.sqrt(2 * (count - 1)))


def test_bits_of_bucket_and_slot_are_independent() -> None:
    """Keys as they come: dotted addresses in two words, small numbers in one."""
    numbers = np.arange(200_000, dtype=np.uint64)
    addresses = np.array([f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}" for i in range(200_000)], "S16").view(np.uint64)
    for h in (hashed(numbers, numbers * np.uint64(0)), hashed(*addresses.reshape(-1, 2).T.copy())):
        bucket, slot = (h & np.uint64(63)).astype(int), (h >> np.uint64(58)).astype(int)
        assert abs(chi_square(bucket, 64)) < 5
        assert abs(chi_square(slot, 64)) < 5
        assert abs(chi_square(bucket * 64 + slot, 4096)) < 5


def test_bucket_targets_take_the_low_bits() -> None:
    w0, w1 = words(1, 2, 3, 7), words(0, 9, 2**60, LONG << 56 | 5)
    table, out = np.arange(4096, dtype=np.int32), np.empty(4, np.int32)
    bucket_targets(w0, w1, table, out)
    assert out.tolist() == (hashed(w0, w1) % 4096).tolist()


def specified_fold(left: list[int] | None, right: list[int] | None) -> list[int]:
    folded = []
    for h in (0, 1):
        top = (1 - h) << 63
        for side in (left or [], right or []):
            h = specified_mix(h, len(side))
            for word in side:
                h = specified_mix(h, word & MASK)
        h |= top
        folded.append(h - (h >> 63 << 64))
    return folded


def test_origins_of_joined_tuples_are_frozen() -> None:
    left, right = np.array([[1, 2], [-3, 4]]), np.array([[5, 6, 7], [8, 9, -1]])
    cases = ((left, right), (left, None), (None, left))
    assert [fold_origins(*case).tolist() for case in cases] == FROZEN_FOLDS
    with interpreted():
        assert [fold_origins(*case).tolist() for case in cases] == FROZEN_FOLDS
    for case, folded in zip(cases, FROZEN_FOLDS, strict=True):
        each = [[None, None] if side is None else side.tolist() for side in case]
        assert [specified_fold(*row) for row in zip(*each, strict=True)] == folded
