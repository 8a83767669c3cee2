"""Every bound on a number, or a text, that comes from outside, and why it is there.

REST's models, the documents of queries and streams, the driver's calls, and whatever reads ZooKeeper use these and no others: what one
of them lets in all of them can work with. `checked` and `checked_endpoint` are the checks for values that no model reads.
"""

from __future__ import annotations

import hashlib
import re

from cep.errors import QueryError

#: µs, 2,283 years. Event times of rows may be 2^61 µs from 1970; every operator on the way may add a span, and the sums fit into int64.
SPAN_US_MAX = 2**56

#: µs: which event times of rows are some, by what their stream says (`event_times`). Beyond the usual ones is what was meant in another
#: unit: today's milliseconds, read as seconds, are in the year 55,841, and close every window before them. "any": 73,000 years.
EVENT_TIMES = {"1900-2200": (-2_208_988_800_000_000, 7_258_118_399_999_999), "any": (-(2**61), 2**61)}

ANY_TIME = EVENT_TIMES["any"]
UNIT_HINT = "is the unit the one that the stream declares? If it is, let the stream say event_times='any'"

#: Bytes of a text or a list in a row (rule 7.4), and of a record in a file: what is longer is a dead letter.
VALUE_BYTES_MAX = 16 << 20

#: Rows; a window of so many is kept as so many small states.
WINDOW_ROWS_MAX = 1 << 20

#: Windows in which one row lies, unless a query's options say otherwise, and at most: each is an answer, and some 20 µs where windows have
#: many groups, ten times that where one has one.
WINDOWS_PER_ROW, WINDOWS_PER_ROW_MAX = 1_000_000, SPAN_US_MAX

#: Instances of a subquery, and whole copies of a query: a plan has a node in ZooKeeper for each, and an edge for each pair.
INSTANCES_MAX = 4096

#: Operators of a query: planning it takes time with their number, and nothing else of the cluster is decided meanwhile.
OPERATORS_MAX = 1000

#: Between the instances of a query; it is six times 288 that send to each of 288, the cores of a Bullion S16. Each has a name, a number and
#: credit at both of its ends.
CHANNELS_MAX = 1 << 19

#: Publishers, streams or names of queries in one request.
MANY_MAX = 20_000

#: A table of buckets is written out, in the plan and in every Barrier.
BUCKETS_MAX = 1 << 20

#: Seconds, a week: how long rows are held, in memory, for a reader that is gone. A time-out of the system ends at 292 years.
KEEP_S_MIN, KEEP_S_MAX = 0.001, 7 * 86_400.0

#: µs between two checkpoints of a query, as asked for. Less would be spent on nothing else.
CHECKPOINT_US, CHECKPOINT_US_MIN, CHECKPOINT_US_MAX = 1_000_000, 10_000, 86_400_000_000

#: Recoveries of a query by its own doing, without a checkpoint between two of them, before it has failed.
STRIKES_MAX = 3
KEPT_BYTES_MAX = 256 << 20  # by a publisher for a reader whose query recovers, until a commit covers it
RING_BYTES_MAX = 1 << 30  # of what all publishers of a process keep so, in shared memory

#: Seconds: no wait is longer in one go. Code that waits for something later looks again; so no deadline is too far for a system call.
WAIT_S_MAX = 3600.0

#: Bytes that are held for one reader, of one instance: as much as a large machine has.
HELD_BYTES_MAX = 1 << 40

#: Bytes of a file that one instance reads as one partition; record numbers within it take 47 bits.
BLOCK_BYTES_MIN, BLOCK_BYTES_MAX = 1024, 1 << 40

#: Processes, statuses and tables are counted: what counts them is an int64 wherever it goes.
COUNT_MAX = 2**63 - 1

#: Columns that may be a key together: their null bits share one word (`cep.kernels.tables.keys`).
KEY_FIELDS_MAX = 64

#: Operations inside each other, but for casts: what is made of an expression, and JSON, are as deep, and some is made by recursion.
NESTED_MAX = 100

#: Bytes that have to be free on the disk of the cluster's home before a new query is taken: ZooKeeper, whose data are there, ends where it
#: cannot write, and has some megabytes to write for a query of thousands of instances.
ROOM_BYTES_MIN = 32 << 20

#: Characters of a name: with what is put around it, and escaped, it is a segment of an address and of a ZooKeeper path.
NAME_CHARS_MAX = 1000

#: Bytes of a name, escaped, in the name of a file: some 60 stand around it, and a file system lets 255 be.
FILE_NAME_BYTES_MAX = 170

#: Characters of a path in ZooKeeper: three such names, escaped.
PATH_CHARS_MAX = 40_000

#: Bytes of an endpoint: a path of a Unix socket ends at 107, a host's name at 63, and its address at 253 and a port.
ENDPOINT_BYTES_MAX = 440

#: Characters of why something failed: a function's error may hold all that it was given, and it is written to ZooKeeper.
CAUSE_CHARS_MAX = 20_000

#: Subscriptions to one stream: every assignment of an instance that puts it out holds them all, and a node of ZooKeeper holds a megabyte.
SUBSCRIPTIONS_MAX = 2000

#: Bytes of all subscriptions to the outputs of a query, as ZooKeeper has them: some 190 each, and seven thousand where names are long.
SUBSCRIPTIONS_BYTES_MAX = 500_000

#: Applications of a cluster, and what each may have of a kind.
APPLICATIONS_MAX, APPLICATION_PARTS_MAX = 1000, 5000

#: A deployment's number is 32 bits of every message.
EPOCH_MAX = 2**31

PORT_MAX = 65_535

#: Digits of a whole number in a text: int64 has 19, and reading a longer one takes time with the square of its length.
DIGITS_MAX = 19

_ENDPOINT = re.compile(
    r"ipc://[^\x00-\x1f\x7f\ud800-\udfff]+"
    r"|link://[A-Za-z0-9][A-Za-z0-9._-]{0,62}@(?:[^\s/\x00-\x1f\x7f\ud800-\udfff]+:([0-9]{1,5}))?/[^\x00-\x1f\x7f\ud800-\udfff]+"
)


def odd_time(allowed: tuple[int, int]) -> str:
    """What is to be said of a row whose event time is outside."""
    if allowed == ANY_TIME:
        return f"event time: expected one within ±{ANY_TIME[1]} µs"
    return f"event time: expected a year from 1900 to 2199; {UNIT_HINT}"


def checked(value: float, what: str, least: float, most: float, pointer: str = "") -> float:
    """`value`, if it is a number from `least` to `most`. Raises QueryError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not least <= value <= most:
        raise QueryError(f"{what}: expected a number from {least:,} to {most:,}, got {shown(value)}", pointer)
    return value


def check_name(kind: str, name: str, pointer: str) -> None:
    """Raises QueryError where `name`, of `kind` ("a stream"), is no part of an address: REST's and ZooKeeper's paths are made of names."""
    if not name.strip(".") or "/" in name or not name.isprintable() or len(name) > NAME_CHARS_MAX:
        rule = f"expected no '/', nothing unprintable, not only dots, at most {NAME_CHARS_MAX} characters"
        raise QueryError(f"the name of {kind} is part of an address: {rule}; got {shown(name)}", pointer)


def name_in_files(name: str) -> str:
    """`name` as a part of a file's name, which may have 255 bytes with all that stands beside it: where it is longer than its share it is
    cut and told apart by a hash, and is then longer than any that is not cut, so that none can be taken for another."""
    whole = name.encode()
    if len(whole) <= FILE_NAME_BYTES_MAX:
        return name
    return f"{whole[:FILE_NAME_BYTES_MAX].decode(errors='ignore')}~{hashlib.sha256(whole).hexdigest()[:16]}"


def checked_endpoint(endpoint: str, pointer: str = "") -> str:
    """`endpoint`, if something could be reached there. Raises QueryError."""
    match = _ENDPOINT.fullmatch(endpoint) if isinstance(endpoint, str) else None
    if match is None or len(endpoint.encode()) > ENDPOINT_BYTES_MAX or int(match[1] or 0) > PORT_MAX:
        raise QueryError(f"endpoint: expected ipc:///PATH or link://HOST@ADDRESS:PORT/PATH, got {shown(endpoint)}", pointer)
    return endpoint


def shown(value: object) -> str:
    """So much of it as an error can show."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits has no decimal text
        return "a number of thousands of digits"
    return text if len(text) <= 100 else f"{text[:100]}…"
