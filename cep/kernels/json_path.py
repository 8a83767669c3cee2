"""What stands in a JSON text at a path, in one walk over its bytes, which also says whether it is JSON at all (RFC 8259).

The walk knows how many containers are open, `depth`, and how many steps of the path the way to here has taken, `reached`: a value is on the
path where both are equal, and is the one that is looked for where the path is at its end. Of a name that an object has twice the last
counts, so a name that fits again takes back what was found before.
"""

from __future__ import annotations

import numpy as np

from cep.kernels.jit import inlined, kernel

#: Containers in each other; what is deeper is taken for no JSON.
DEPTH_MAX = 512
#: What was found: nothing, bytes that are the answer, bytes with escapes in them.
NOTHING, PLAIN, ESCAPED = 0, 1, 2
#: A step that is a name and no number.
NAME = -1

_BAD = -1
_VALUE, _FIRST, _NEXT, _BEHIND = 0, 1, 2, 3  # what is to come; a member or the end of a container; a member; what is behind a value
_QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _POINT, _ZERO, _NINE = 34, 92, 44, 58, 45, 46, 48, 57
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = 123, 125, 91, 93
_TRUE, _FALSE, _NULL = 116, 102, 110


@inlined
def _blank(byte: int) -> bool:
    return byte == 32 or byte == 10 or byte == 13 or byte == 9


@inlined
def _digit(byte: int) -> bool:
    return _ZERO <= byte <= _NINE


@inlined
def _hex(byte: int) -> int:
    """The value of a hexadecimal digit, or _BAD."""
    if _ZERO <= byte <= _NINE:
        return byte - _ZERO
    lower = byte | 32
    return lower - 87 if 97 <= lower <= 102 else _BAD


@inlined
def _unit(data: np.ndarray, at: int, stop: int) -> int:
    """What the four hexadecimal digits at `at` say, or _BAD."""
    if at + 4 > stop:
        return _BAD
    value = 0
    for place in range(4):
        digit = _hex(int(data[at + place]))
        if digit < 0:
            return _BAD
        value = value * 16 + digit
    return value


@inlined
def _string_end(data: np.ndarray, at: int, stop: int) -> tuple[int, bool]:
    """Where the closing quote of a string is whose first byte is at `at`, or _BAD; and whether it has escapes."""
    escaped = False
    while at < stop:
        byte = int(data[at])
        if byte == _QUOTE:
            return at, escaped
        if byte < 32:
            return _BAD, escaped
        at += 1
        if byte == _BACKSLASH:
            escaped = True
            if at >= stop:
                return _BAD, escaped
            byte = int(data[at])
            at += 1
            if byte == 117:  # u
                if _unit(data, at, stop) < 0:
                    return _BAD, escaped
                at += 4
            elif byte not in (_QUOTE, _BACKSLASH, 47, 98, 102, 110, 114, 116):  # / b f n r t
                return _BAD, escaped
    return _BAD, escaped


@inlined
def _digits_end(data: np.ndarray, at: int, stop: int) -> int:
    """Behind the digits at `at`, of which there has to be one, or _BAD."""
    begin = at
    while at < stop and _digit(int(data[at])):
        at += 1
    return at if at > begin else _BAD


@inlined
def _number_end(data: np.ndarray, at: int, stop: int) -> int:
    """Behind the number at `at`, or _BAD."""
    if data[at] == _MINUS:
        at += 1
    if at < stop and data[at] == _ZERO:
        at += 1
    else:
        at = _digits_end(data, at, stop)
    if at >= 0 and at < stop and data[at] == _POINT:
        at = _digits_end(data, at + 1, stop)
    if at >= 0 and at < stop and (int(data[at]) | 32) == 101:  # e
        at += 1
        if at < stop and (data[at] == 43 or data[at] == _MINUS):
            at += 1
        at = _digits_end(data, at, stop)
    return at


@inlined
def _word_end(data: np.ndarray, at: int, stop: int) -> int:
    """Behind `true`, `false` or `null` at `at`, or _BAD."""
    first = data[at]
    if first == _FALSE:
        if at + 5 <= stop and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115 and data[at + 4] == 101:
            return at + 5
        return _BAD
    if at + 4 > stop:
        return _BAD
    if first == _TRUE and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        return at + 4
    if first == _NULL and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
        return at + 4
    return _BAD


@inlined
def _put_point(point: int, out: np.ndarray, to: int) -> int:
    """Writes a code point as UTF-8; returns where it ends."""
    if point < 0x80:
        out[to] = point
        return to + 1
    if point < 0x800:
        out[to] = 0xC0 | point >> 6
        out[to + 1] = 0x80 | point & 63
        return to + 2
    if point < 0x10000:
        out[to] = 0xE0 | point >> 12
        out[to + 1] = 0x80 | point >> 6 & 63
        out[to + 2] = 0x80 | point & 63
        return to + 3
    out[to] = 0xF0 | point >> 18
    out[to + 1] = 0x80 | point >> 12 & 63
    out[to + 2] = 0x80 | point >> 6 & 63
    out[to + 3] = 0x80 | point & 63
    return to + 4


@inlined
def _short_escape(byte: int) -> int:
    """What a backslash with this letter stands for."""
    if byte == 98:
        return 8
    if byte == 102:
        return 12
    if byte == 110:
        return 10
    if byte == 114:
        return 13
    return 9 if byte == 116 else byte


@inlined
def _unescape(data: np.ndarray, at: int, stop: int, out: np.ndarray, to: int) -> int:
    """Writes what a string's bytes say; returns where it ends, or _BAD: it has half of a surrogate pair, and is no text."""
    while at < stop:
        byte = int(data[at])
        at += 1
        if byte != _BACKSLASH:
            out[to] = byte
            to += 1
            continue
        byte = int(data[at])
        at += 1
        if byte != 117:
            out[to] = _short_escape(byte)
            to += 1
            continue
        point = _unit(data, at, stop)
        at += 4
        if 0xD800 <= point < 0xE000:
            low = _unit(data, at + 2, stop) if at + 6 <= stop and data[at] == _BACKSLASH and data[at + 1] == 117 else _BAD
            if point >= 0xDC00 or not 0xDC00 <= low < 0xE000:
                return _BAD
            point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
            at += 6
        to = _put_point(point, out, to)
    return to


@inlined
def _is_name(data: np.ndarray, at: int, stop: int, escaped: bool, names: np.ndarray, begin: int, end: int, scratch: np.ndarray) -> bool:
    """Do a string's bytes say the name that stands from `begin` to `end`?"""
    size = end - begin
    if escaped:  # of six bytes or fewer each byte of a text is made
        if stop - at > len(scratch) or _unescape(data, at, stop, scratch, 0) != size:
            return False
    elif stop - at != size:
        return False
    same = True
    for place in range(size):
        same &= (scratch[place] if escaped else data[at + place]) == names[begin + place]
    return same


@inlined
def _behind_blanks(data: np.ndarray, at: int, stop: int) -> int:
    while at < stop and _blank(int(data[at])):
        at += 1
    return at


@inlined
def _scalar(data: np.ndarray, at: int, stop: int) -> tuple[int, int, int, bool]:
    """Behind what is no container at `at`, or _BAD; where its bytes begin and end, a string's without its quotes; has it escapes?"""
    byte = int(data[at])
    if byte == _QUOTE:
        end, escaped = _string_end(data, at + 1, stop)
        return (end + 1 if end >= 0 else _BAD), at + 1, end, escaped
    end = _number_end(data, at, stop) if byte == _MINUS or _digit(byte) else _word_end(data, at, stop)
    return end, at, end, False


@inlined
def _name(
    data: np.ndarray, at: int, stop: int, step: int, steps: np.ndarray, names: np.ndarray, ends: np.ndarray, scratch: np.ndarray
) -> tuple[int, bool]:
    """Behind the name and the colon at `at`, or _BAD; is it that of `step`, if that is not negative?"""
    if data[at] != _QUOTE:
        return _BAD, False
    end, escaped = _string_end(data, at + 1, stop)
    if end < 0:
        return _BAD, False
    fits = False
    if step >= 0 and steps[step] == NAME:
        fits = _is_name(data, at + 1, end, escaped, names, ends[step - 1] if step > 0 else 0, ends[step], scratch)
    at = _behind_blanks(data, end + 1, stop)
    return (at + 1 if at < stop and data[at] == _COLON else _BAD), fits


@inlined
def _walk(
    data: np.ndarray,
    at: int,
    stop: int,
    steps: np.ndarray,
    names: np.ndarray,
    ends: np.ndarray,
    kinds: np.ndarray,
    counts: np.ndarray,
    scratch: np.ndarray,
) -> tuple[int, int, int]:
    """What was found in one text, and where it begins and ends. `kinds` and `counts` are of containers that are open: what opened each, and
    how many members it has before this one."""
    depth, reached, begin, end, inside, state, found = 0, 0, 0, 0, _BAD, _VALUE, NOTHING
    while True:
        at = _behind_blanks(data, at, stop)
        if state == _BEHIND and depth == 0:
            return (found if at == stop else NOTHING), begin, end
        if at >= stop:
            return NOTHING, begin, end
        byte = int(data[at])
        if state == _VALUE:
            wanted = reached == depth and depth == len(steps)
            if byte in (_OPEN_OBJECT, _OPEN_ARRAY):
                if depth == DEPTH_MAX:
                    return NOTHING, begin, end
                if wanted:
                    begin, inside = at, depth
                kinds[depth], counts[depth] = byte, 0
                depth, at, state = depth + 1, at + 1, _FIRST
                continue
            behind, first, last, escaped = _scalar(data, at, stop)
            if behind < 0:
                return NOTHING, begin, end
            if wanted and byte != _NULL:
                found, begin, end = ESCAPED if escaped else PLAIN, first, last
            at, state = behind, _BEHIND
        elif state == _FIRST and byte == kinds[depth - 1] + 2:  # in ASCII what closes is two behind what opens
            state = _BEHIND
        elif state != _BEHIND:
            step = reached if reached == depth - 1 and reached < len(steps) else _BAD
            fits = step >= 0 and steps[step] == counts[depth - 1]
            if kinds[depth - 1] == _OPEN_OBJECT:
                at, fits = _name(data, at, stop, step, steps, names, ends, scratch)
                if at < 0:
                    return NOTHING, begin, end
            if fits:
                reached, found = depth, NOTHING
            state = _VALUE
        else:
            reached = min(reached, depth - 1)
            if byte == _COMMA:
                at, state = at + 1, _NEXT
                counts[depth - 1] += 1
                continue
            if byte != kinds[depth - 1] + 2:
                return NOTHING, begin, end
            at, depth = at + 1, depth - 1
            if depth == inside:
                found, end, inside = PLAIN, at, _BAD


@kernel(
    "void(const uint8[:], const int64[:], const int32[:], const uint8[:], const int64[:], const uint8[:], const int64[:], int64[:], "
    "int32[:], uint8[:])",
    on_demand=True,
)
def find_json(
    data: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    valid: np.ndarray,
    steps: np.ndarray,
    names: np.ndarray,
    ends: np.ndarray,
    out_starts: np.ndarray,
    out_lengths: np.ndarray,
    found: np.ndarray,
) -> None:
    """Sets found[i] to what text i has at the path, and where: a string without its quotes, others as they are written; null is nothing.
    `steps`: numbers, or NAME; the name of step k ends at ends[k] of `names`, where that of the next one begins."""
    kinds, counts = np.empty(DEPTH_MAX, np.uint8), np.empty(DEPTH_MAX, np.int64)
    scratch = np.empty(6 * len(names) + 6, np.uint8)
    for i in range(len(starts)):
        found[i], out_starts[i], out_lengths[i] = NOTHING, 0, 0
        if valid[i]:
            what, begin, end = _walk(data, starts[i], starts[i] + lengths[i], steps, names, ends, kinds, counts, scratch)
            if what != NOTHING:
                found[i], out_starts[i], out_lengths[i] = what, begin, end - begin


@kernel("void(const uint8[:], int64[:], int32[:], uint8[:], uint8[:])", on_demand=True)
def unescape_found(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, found: np.ndarray, out: np.ndarray) -> None:
    """Writes all that was found into `out`, one behind the other, and sets where; what is no text is found no more."""
    to = 0
    for i in range(len(starts)):
        begin, at, stop = to, starts[i], starts[i] + lengths[i]
        if found[i] == PLAIN:
            for place in range(at, stop):
                out[to + place - at] = data[place]
            to += stop - at
        elif found[i] == ESCAPED:
            end = _unescape(data, at, stop, out, to)
            if end < 0:
                found[i] = NOTHING
            else:
                to = end
        starts[i], lengths[i] = begin, to - begin
