"""What stands where in the tables of a pattern's ways: int64[any, words], a line for each group, start, way, node and row that waits.

    group ── starts in order of their first rows ── ways in order of preference ── node ── node ── node      the rows taken, last first
                                                        of one start                (shared by ways that have them in common)

Lines that are free are linked by their first word. `desk` has what is of no line.
"""

from __future__ import annotations

#: In place of a number: there is none. A time that does not come.
NONE = -1
FAR = 2**62
#: The end of event time: what is open then is decided there.
OVER = 2**61
#: Of a group: event time of its last row; numbers of its next row and of matches that came out; its open starts and how many, and how many
#: ways these have; when time has to be looked at, as the heap has it; rows that wait to be said unmatched; variables, by bits, on which it
#: depends what becomes of its ways (at least).
LAST, SEQ, MATCHES, HEAD, TAIL, OPEN, WAYS, DUE, WAITING_FIRST, WAITING_LAST, WAITING, HEEDS = range(12)
GROUP_WORDS = 12
FRESH_GROUP = (NONE, 0, 0, NONE, NONE, 0, 0, FAR, NONE, NONE, 0, 0)
#: Of a start, which is a line of the cache: the next and the one before of its group; event time of its first row, twice its number in the
#: group (and one if a match used it), and its number among all; its first way; with what it died by time.
AFTER, BEFORE, GROUP, TIME0, SEQ0, ROW0, WAY, WITH = range(8)
START_WORDS = 8
#: Of a way: the next of its start; state (`COMPLETE`: over); the last row taken as node, its event time and number in the group; which
#: negated variables a row behind it was, and the row right behind it; was a row behind it taken, so that `then` is over?
FOLLOWING, STATE, NODE, TIME, WAY_SEQ, BROKEN, DIRECT, PASSED = range(8)
WAY_WORDS = 8
#: Of a node: the node of the row before; number of the row among all, its variable, its number in the group; how many ways, nodes and
#: starts have it; in the row at hand: taken from here (HIT), seen (SEEN), its first node behind it and the next of these; the waiting row
#: that it is; has it come out?
PARENT, ROW, VARIABLE, NODE_SEQ, USES, HIT, SEEN, CHILD, SIBLING, MARK, CAME_OUT = range(11)
NODE_WORDS = 11
#: Of a row that waits: the next; number among all; number in the group; is it in a match?
NEXT, WAITING_ROW, WAITING_SEQ, MATCHED = range(4)
WAITING_WORDS = 4
#: Of what comes out: kind, group, event time, number of the row at hand in its batch (NONE: time passed), node, event time and number
#: of the first row, the number of the match in its group, and of matches that are decided together which it is.
KIND, OF_GROUP, AT, BY_ROW, LAST_NODE, FIRST_TIME, FIRST_ROW, NUMBER, TOGETHER = range(9)
EMITTED_WORDS = 9
MATCH, TIMED_OUT, UNMATCHED = range(3)
#: Of an edge: position that it leads to and its variable; how near (`BYS`); the gap, or FAR; bits of negated variables between, and right
#: behind.
TARGET, TAKES, BY, GAP, FORBIDS, DIRECTLY = range(6)
EDGE_WORDS, STATE_WORDS, WAIT_WORDS, ARRIVE_WORDS = 6, 8, 2, 3
BY_NEXT, BY_THEN, BY_ANY = range(3)
#: Of a state: its edges; what it waits for at the end (variable, span); bits that the row right behind may not have; the longest span;
#: bits of the variables on which it depends what becomes of it, and ANY_ROW where any row counts; may a row change it that it does not
#: take?
EDGE_FIRST, EDGE_STOP, WAIT_FIRST, WAIT_STOP, WAIT_DIRECTLY, SPAN, HEEDED, FRAGILE = range(8)
ANY_ROW = 1 << 62
COMPLETE = -1
#: Of the parameters: within, ttl (FAR: none); all matches? go on how; the variable of that; do branches want starts that timed out, and
#: rows in no match? open starts of a group; drop the oldest then? has every start the same time to live, and nothing else? Words that a
#: way has in the registers; bits of the variables whose conditions read rows of the match, and of those whose rows are read; how many ways
#: at most a row makes of one, and of none, or edges of it there are; how many variables; does nothing come out when time passes? Bits of
#: the variables that may be first. May a row end a start before its time? Where every start has the same time to live: how long.
WITHIN, TTL, ALL, SKIP, SKIP_VARIABLE, WANTS_TIMED_OUT, WANTS_UNMATCHED, LIMIT, DROPS, SIMPLE = range(10)
REGISTERS, CORRELATED, REMEMBERED, FAN, FAN_FIRST, VARIABLES, QUIET, INITIAL, MAY_END, LIFE = range(10, 20)
PARAMETERS = 20
PAST_LAST, TO_NEXT, TO_FIRST, TO_LAST = range(4)
#: Of the desk: first free line and used lines of starts, ways, nodes, waiting rows; the row to be taken next; stamp of the row at hand;
#: emitted; size of the heap; the group that has too many starts; starts dropped; lines that are wanted; how many lines are free in each;
#: group, event time and row of the last match that came out, and how many were decided with it before; is the row at hand taken, so that
#: only what is decided is to be said? Rows of what came out.
FREE_STARTS, USED_STARTS, FREE_WAYS, USED_WAYS, FREE_NODES, USED_NODES, FREE_WAITING, USED_WAITING = range(8)
AT_ROW, STAMP, EMITTED, HEAP, OVERFULL, DROPPED, WANTED, LEFT_STARTS, LEFT_WAYS, LEFT_NODES, LEFT_WAITING = range(8, 19)
TOLD_GROUP, TOLD_AT, TOLD_BY, TOLD, TAKEN, ROWS_OUT = range(19, 25)
DESK_WORDS = 25
