"""Messages that only pass through: taken as they lie where they were received, written as they leave, in one call.

A message of a batch whose columns are all eight bytes wide and without NULLs is a row of words: its size, its header, metadata that grow
with the number of rows as lines (`cep.transport.ipc.MessageLayout.lines`), and the columns one behind the other. So an instance that only
picks, renames and counts tuples needs no objects for them. `pass_on` takes as many such messages as lie behind each other and are all
that they are expected to be; at the first that is not it stops, before it has changed anything for that one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cep.kernels.jit import inlined, kernel
from cep.kernels.lateness import is_late
from cep.kernels.machine.memory import copy_bytes, load_word, store_word

HEADER_WORDS = 10
HEAD_WORDS = 1 + HEADER_WORDS  # the size of the body stands before the header
#: Words of a message before its metadata: the size of the body, then the header.
SIZE, KIND, CHANNEL, SEQUENCE, STREAM, FINGERPRINT, WATERMARK, CREATED, STAMP, SINCE, RECORD = range(HEAD_WORDS)
#: Rows of a message that is worth it; `CLASSES` of latencies.
ROWS_MAX, CLASSES = 2048, 19

#: The words of `state`: what is expected of the next message and of the channel that it leaves by, and what has been counted.
(
    NEXT,  # sequence number of the next message
    NEXT_OUT,
    PROMISED,  # the watermark of all that has passed
    SENT_UNTIL,  # the greatest event time that has passed
    NUMBERED,  # the number of the next row of the publisher
    OWED,  # bytes that may still be taken before credit is due
    SENT,
    CONSUMED,
    LIMIT,  # credit: as in `cep.dataflow.channel.Credit`
    READ_TO,  # behind the last message that was taken
    MESSAGES,
    ROWS,
    BYTES,  # of bodies taken
    LATENCY,  # the sum, µs
    COUNTS,  # tuples by class of latency
) = range(15)
STATE_WORDS = COUNTS + CLASSES

#: Instead of the number of a column: the two words of the origins of a publisher's rows, one word for all and their numbers.
OF_PARTITION, OF_RECORD = -1, -2

#: `JUDGED`: by its stamps alone; besides, none may come behind the watermark of a reader that goes on from a checkpoint.
BY_STAMP, BY_WATERMARK = 1, 2

#: The words of `form`, which do not change: of a publisher how it is `JUDGED`, its `DISORDER`, the first and last event time, `LEAST` and
#: `MOST`, and `PARTITION`, the first word of its rows' origins; `WEIGHT` and `ROW_WEIGHT`: bytes of a message and of each of its rows that
#: credit has to allow; `TIMED`: latencies are noted; `TIME`: the number of the column of event times; `ROWS_AT`: where the metadata say how
#: many rows there are. Then the heads of what comes and leaves (words that vary are passed over), the bounds of the classes of latencies,
#: the number of the column that each column which leaves comes from, and the lines of both metadata.
JUDGED, DISORDER, LEAST, MOST, PARTITION, WEIGHT, ROW_WEIGHT, TIMED = range(8)
TIME, COLUMNS_IN, COLUMNS_OUT, WORDS_IN, WORDS_OUT, ROWS_AT, HEAD_IN = range(8, 15)
HEAD_OUT = HEAD_IN + HEAD_WORDS
BOUNDS = HEAD_OUT + HEAD_WORDS
PICKED = BOUNDS + CLASSES - 1

_MAX_TIME, _MIN_TIME = 2**63 - 1, -(2**63)


@inlined
def _word(data: np.ndarray, at: Any) -> Any:
    return np.int64(load_word(data, at))


@inlined
def _column(at: Any, number: Any, rows: Any, form: np.ndarray) -> Any:
    """Where a column begins, of the message at `at`."""
    return at + 8 * (HEAD_WORDS + form[WORDS_IN] + rows * number)


@inlined
def _rows(staging: np.ndarray, at: int, end: int, state: np.ndarray, form: np.ndarray) -> int:
    """How many rows the message at `at` has; 0 if it is not what is expected."""
    head = form[HEAD_IN + KIND] == _word(staging, at + 8 * KIND) and form[HEAD_IN + CHANNEL] == _word(staging, at + 8 * CHANNEL)
    head = head and state[NEXT] == _word(staging, at + 8 * SEQUENCE)
    head = head and form[HEAD_IN + FINGERPRINT] == _word(staging, at + 8 * FINGERPRINT) and _word(staging, at + 8 * WATERMARK) < _MAX_TIME
    if not head or _word(staging, at + 8 * SINCE) > form[HEAD_IN + SINCE]:
        return 0
    begin, words, lines = at + 8 * HEAD_WORDS, form[WORDS_IN], PICKED + form[COLUMNS_OUT]
    rows = _word(staging, begin + 8 * form[ROWS_AT])
    if not 0 < rows <= ROWS_MAX:
        return 0
    size = 8 * (words + rows * form[COLUMNS_IN])
    if _word(staging, at) != size or begin + size > end:
        return 0
    same = True
    for i in range(words):
        same &= _word(staging, begin + 8 * i) == form[lines + 2 * i] + rows * form[lines + 2 * i + 1]
    return int(rows) if same else 0


@inlined
def _in_time(staging: np.ndarray, begin: int, rows: int, stamp: int, state: np.ndarray, form: np.ndarray) -> bool:
    """Is no row of a publisher late, and every event time one?"""
    good, floor = True, state[PROMISED] if form[JUDGED] == BY_WATERMARK else _MIN_TIME
    for i in range(rows):
        time = _word(staging, begin + 8 * i)
        good &= form[LEAST] <= time <= form[MOST] and not is_late(time, stamp, form[DISORDER])
        good &= time >= floor
        stamp = max(stamp, time)
    return good


@inlined
def _affordable(rows: int, state: np.ndarray, form: np.ndarray) -> bool:
    """Is no credit due after it, and does credit allow what it becomes?"""
    size = form[WEIGHT] + rows * form[ROW_WEIGHT]
    allowed = state[SENT] - state[CONSUMED] <= (state[LIMIT] - state[CONSUMED]) >> 3 or state[SENT] + size <= state[LIMIT]
    return bool(allowed and 8 * (form[WORDS_IN] + rows * form[COLUMNS_IN]) <= state[OWED])


@inlined
def _write(staging: np.ndarray, at: int, rows: int, state: np.ndarray, form: np.ndarray, out: np.ndarray, to: int) -> int:
    """Writes the message that leaves to `to`; where it ends. `state` is already that after it."""
    words, columns = form[WORDS_OUT], form[COLUMNS_OUT]
    for i in range(HEAD_WORDS):
        store_word(out, to + 8 * i, np.uint64(form[HEAD_OUT + i]))
    store_word(out, to + 8 * SIZE, np.uint64(8 * (words + rows * columns)))
    store_word(out, to + 8 * SEQUENCE, np.uint64(state[NEXT_OUT]))
    store_word(out, to + 8 * WATERMARK, np.uint64(state[PROMISED]))
    store_word(out, to + 8 * CREATED, load_word(staging, at + 8 * CREATED))
    to += 8 * HEAD_WORDS
    lines = PICKED + columns + 2 * form[WORDS_IN]
    for i in range(words):
        store_word(out, to + 8 * i, np.uint64(form[lines + 2 * i] + rows * form[lines + 2 * i + 1]))
    to += 8 * words
    for k in range(columns):
        picked = form[PICKED + k]
        if picked >= 0:
            copy_bytes(staging, _column(at, picked, rows, form), out, to, 8 * rows)
        else:
            first, step = (form[PARTITION], 0) if picked == OF_PARTITION else (_word(staging, at + 8 * RECORD), 1)
            for i in range(rows):
                store_word(out, to + 8 * i, np.uint64(first + step * i))
        to += 8 * rows
    return int(to)


@inlined
def count_message(staging: np.ndarray, at: int, rows: int, now: int, state: np.ndarray, form: np.ndarray) -> None:
    """What the message at `at` changes, but for the sequence numbers."""
    body = 8 * (form[WORDS_IN] + rows * form[COLUMNS_IN])
    times = _column(at, form[TIME], rows, form)
    for i in range(rows):
        state[SENT_UNTIL] = max(state[SENT_UNTIL], _word(staging, times + 8 * i))
    state[PROMISED] = max(state[PROMISED], _word(staging, at + 8 * WATERMARK))
    state[NUMBERED] = max(state[NUMBERED], _word(staging, at + 8 * RECORD) + rows)
    state[OWED] -= body
    state[SENT] += 8 * (form[WORDS_OUT] + rows * form[COLUMNS_OUT])
    state[BYTES] += body
    state[ROWS] += rows
    state[MESSAGES] += 1
    created = _word(staging, at + 8 * CREATED)
    if form[TIMED] and created != 0:
        latency = max(0, now - created // 1000)
        class_ = 0
        while class_ < CLASSES - 1 and form[BOUNDS + class_] < latency:
            class_ += 1
        state[COUNTS + class_] += rows
        state[LATENCY] += latency * rows


@kernel("int64(const uint8[:], int64, int64, int64, int64[:], const int64[:], uint8[:])")
def pass_on(staging: np.ndarray, at: int, end: int, now: int, state: np.ndarray, form: np.ndarray, out: np.ndarray) -> int:
    """Takes messages from `staging[at:end]` and writes to `out` what leaves for them; how many bytes that is, 0 if none is as expected.

    `state[READ_TO]` says where the first lies that was not taken. `now`: µs since the epoch.
    """
    to, shortest, longest = 0, 8 * (HEAD_WORDS + form[WORDS_IN]), 8 * (HEAD_WORDS + form[WORDS_OUT] + ROWS_MAX * form[COLUMNS_OUT])
    while at + shortest <= end and to + longest <= len(out):
        rows = _rows(staging, at, end, state, form)
        behind = at + shortest + 8 * rows * form[COLUMNS_IN]
        if rows == 0 or not _affordable(rows, state, form):
            break
        if form[JUDGED] and not _in_time(staging, _column(at, form[TIME], rows, form), rows, _word(staging, at + 8 * STAMP), state, form):
            break
        count_message(staging, at, rows, now, state, form)
        to = _write(staging, at, rows, state, form, out, to)
        state[NEXT] += 1
        state[NEXT_OUT] += 1
        at = behind
    state[READ_TO] = at
    return to
