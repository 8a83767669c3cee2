"""Regular expressions as tables that a kernel follows byte by byte (`cep.kernels.search`), for those of which each next byte decides.

That is RE2's "one-pass": wherever a match may go on in several ways, they begin with different bytes, so there is one way at most and it
knows where the group begins. The way that the expression prefers wins, as in RE2: of `a|ab` the `a`, of `a*` the longest, of `a*?` the
shortest. Everything else is left to RE2: what needs several ways at a time, and what of the syntax is not read here (counts, flags, named
groups, classes by name or of characters above 127). Both have the same answers; `tests/cep/compile/chain/test_patterns.py` compares them.

An expression is parsed into nodes behind each other, each with those that follow it (Thompson's automaton); the states of the table are
the nodes that come behind a byte. A search begins in state AT_FIRST or LATER: only in the first `^` holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from cep.kernels.search import BEGINS, ENDS, LATER, NO_BYTE, STATE_BITS
from cep.values import value

_STATES_MAX = 512
_SPECIAL = frozenset("\\^$.[]|()*+?{}")
_ASCII = (1 << 128) - 1
_BYTES = 256
_NOT_KEPT = -1  # number of the groups `(?:...)`


def _span(low: int, high: int) -> int:
    """The bytes `low` to `high` as bits."""
    return (1 << (high + 1)) - (1 << low)


_DIGITS = _span(48, 57)
_CLASSES = {"d": _DIGITS, "w": _DIGITS | _span(65, 90) | _span(97, 122) | 1 << 95, "s": _span(9, 10) | _span(12, 13) | 1 << 32}


@value
class Pattern:
    """What `cep.kernels.search.find_matches` takes of an expression and a group."""

    table: np.ndarray
    within: np.ndarray
    at_end: np.ndarray
    firsts: np.ndarray
    lead: int

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
        return self.table, self.within, self.at_end, self.firsts, self.lead


@lru_cache(maxsize=256)
def pattern_of(regex: str, group: int) -> Pattern | None:
    """The table of `regex`, which RE2 accepts, that finds `group` (0: all); None where it is left to RE2."""
    try:
        return _table(_Automaton(regex, group))
    except _LeftToRe2:
        return None


class _LeftToRe2(Exception):
    pass


# --- nodes ----------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Byte:
    """One of `bytes`, as bits."""

    bytes: int
    next: _Node


@dataclass(eq=False)
class _Choice:
    """One of `nexts`, the first one rather than the others."""

    nexts: list[_Node]


@dataclass(eq=False)
class _Mark:
    mark: int
    next: _Node


@dataclass(eq=False)
class _Anchor:
    """Goes on at the begin of the text, or at the end, only."""

    begin: bool
    next: _Node


@dataclass(eq=False)
class _Over:
    pass


_Node: TypeAlias = "_Byte | _Choice | _Mark | _Anchor | _Over"


# --- parsing --------------------------------------------------------------------------------------------------------------


@dataclass
class _Tree:
    """A part of an expression. `kind`: "bytes" (the one character of which these bits are the ASCII ones, or `others`), "all" (its parts
    one after the other), "any" (one of its parts), "repeat" (`parts[0]`), "group", "anchor"."""

    kind: str
    parts: list[_Tree] = field(default_factory=list)
    bits: int = 0  # or the number of a group
    others: bool = False  # characters above 127 too
    least: int = 0
    once: bool = False
    greedy: bool = True

    @property
    def may_be_empty(self) -> bool:
        match self.kind:
            case "bytes":
                return False
            case "anchor":
                return True
            case "repeat":
                return self.least == 0 or self.parts[0].may_be_empty
            case "any":
                return any(part.may_be_empty for part in self.parts)
        return all(part.may_be_empty for part in self.parts)


@dataclass
class _Parser:
    regex: str
    at: int = 0
    groups: int = 0

    def parse(self) -> _Tree:
        tree = self._any()
        if self.at < len(self.regex):
            raise _LeftToRe2
        return tree

    def _peek(self) -> str:
        return self.regex[self.at : self.at + 1]

    def _take(self) -> str:
        taken = self._peek()
        if not taken:
            raise _LeftToRe2
        self.at += 1
        return taken

    def _took(self, text: str) -> bool:
        there = self.regex.startswith(text, self.at)
        self.at += len(text) if there else 0
        return there

    def _any(self) -> _Tree:
        parts = [self._all()]
        while self._took("|"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else _Tree("any", parts)

    def _all(self) -> _Tree:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._one()))
        return _Tree("all", parts)

    def _repeated(self, tree: _Tree) -> _Tree:
        if self._peek() not in ("*", "+", "?"):
            return tree
        sign = self._take()
        greedy = not self._took("?")
        if self._peek() in ("*", "+", "?") or tree.may_be_empty:
            raise _LeftToRe2
        return _Tree("repeat", [tree], least=int(sign == "+"), once=sign == "?", greedy=greedy)

    def _one(self) -> _Tree:
        taken = self._take()
        match taken:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return _Tree("bytes", bits=_ASCII & ~(1 << 10), others=True)
            case "^" | "$":
                return _Tree("anchor", bits=int(taken == "^"))
            case "\\":
                return _Tree("bytes", bits=self._escaped())
        if taken in _SPECIAL:
            raise _LeftToRe2
        if ord(taken) < 128:
            return _Tree("bytes", bits=1 << ord(taken))
        return _Tree("all", [_Tree("bytes", bits=1 << byte) for byte in taken.encode()])

    def _group(self) -> _Tree:
        number = _NOT_KEPT
        if not self._took("?:"):
            self.groups += 1
            number = self.groups
        inner = self._any()
        if self._take() != ")":
            raise _LeftToRe2
        return _Tree("group", [inner], bits=number)

    def _escaped(self) -> int:
        taken = self._take()
        if taken in _CLASSES:
            return _CLASSES[taken]
        if taken.isascii() and not taken.isalnum() and taken.isprintable():
            return 1 << ord(taken)
        raise _LeftToRe2

    def _class(self) -> _Tree:
        negated, bits = self._took("^"), 0
        while not (bits and self._took("]")):
            first, low = self._peek(), self._member()
            if self._peek() == "-" and self.regex[self.at + 1 : self.at + 2] != "]":
                self.at += 1
                high = self._member()
                if first == "\\" or low.bit_count() != 1 or high.bit_count() != 1 or high < low:
                    raise _LeftToRe2
                low = _span(low.bit_length() - 1, high.bit_length() - 1)
            bits |= low
        return _Tree("bytes", bits=_ASCII & ~bits if negated else bits, others=negated)

    def _member(self) -> int:
        taken = self._take()
        if taken == "\\":
            return self._escaped()
        if taken in "[]" or not taken.isascii():
            raise _LeftToRe2
        return 1 << ord(taken)


# --- the automaton --------------------------------------------------------------------------------------------------------

_LONGER = ((_span(0xC2, 0xDF), 1), (_span(0xE0, 0xEF), 2), (_span(0xF0, 0xF4), 3))
"""First bytes of characters above 127, and how many follow (the text is UTF-8)."""


class _Automaton:
    """The nodes of an expression; `start` is the first one."""

    def __init__(self, regex: str, group: int) -> None:
        self.group = group
        tree = _Parser(regex).parse()
        self.start = self._node(_Tree("group", [tree], bits=0), _Over())

    def _node(self, tree: _Tree, behind: _Node) -> _Node:
        """The node of `tree`, with `behind` to follow it."""
        match tree.kind:
            case "bytes":
                return self._character(tree, behind)
            case "anchor":
                return _Anchor(bool(tree.bits), behind)
            case "any":
                return _Choice([self._node(part, behind) for part in tree.parts])
            case "group":
                return self._group(tree, behind)
            case "repeat":
                return self._repeat(tree, behind)
        for part in reversed(tree.parts):
            behind = self._node(part, behind)
        return behind

    def _group(self, tree: _Tree, behind: _Node) -> _Node:
        (inner,) = tree.parts
        if tree.bits != self.group:
            return self._node(inner, behind)
        return _Mark(BEGINS, self._node(inner, _Mark(ENDS, behind)))

    def _repeat(self, tree: _Tree, behind: _Node) -> _Node:
        (inner,) = tree.parts
        choice = _Choice([])
        body = self._node(inner, behind if tree.once else choice)
        choice.nexts = [body, behind] if tree.greedy else [behind, body]
        return body if tree.least else choice

    def _character(self, tree: _Tree, behind: _Node) -> _Node:
        plain = _Byte(tree.bits, behind)
        if not tree.others:
            return plain
        ways: list[_Node] = [plain]
        for firsts, following in _LONGER:
            node = behind
            for _ in range(following):
                node = _Byte(_span(0x80, 0xBF), node)
            ways.append(_Byte(firsts, node))
        return _Choice(ways)


# --- the table ------------------------------------------------------------------------------------------------------------


def _ways(node: _Node, begin: bool, end: bool, marks: int, seen: set[int]) -> Iterator[tuple[_Byte | _Over, int]]:
    """How it goes on from `node`, what is preferred first: the bytes, or that it is over, and the marks before. A node that is come to a
    second time is what it was the first time, which is preferred."""
    if id(node) in seen:
        return
    seen.add(id(node))
    match node:
        case _Byte() | _Over():
            yield node, marks
        case _Choice(nexts):
            for each in nexts:
                yield from _ways(each, begin, end, marks, seen)
        case _Mark(mark, following):
            yield from _ways(following, begin, end, marks | mark, seen)
        case _Anchor(at_begin, following):
            if begin if at_begin else end:
                yield from _ways(following, begin, end, marks, seen)


def _table(automaton: _Automaton) -> Pattern:
    numbers: dict[int, int] = {}
    nodes: list[_Node] = [automaton.start, automaton.start]  # AT_FIRST and LATER
    rows: list[np.ndarray] = []
    within: list[int] = []
    at_end: list[int] = []
    while len(rows) < len(nodes):
        node, begin = nodes[len(rows)], not rows
        row, over, taken = np.full(_BYTES, -1, np.int32), -1, 0
        for way, marks in _ways(node, begin, False, 0, set()):
            if isinstance(way, _Over):
                over = marks
                break
            if way.bytes & taken:
                raise _LeftToRe2
            taken |= way.bytes
            if id(way.next) not in numbers:
                numbers[id(way.next)] = len(nodes)
                nodes.append(way.next)
            row[[byte for byte in range(_BYTES) if way.bytes >> byte & 1]] = numbers[id(way.next)] | marks << STATE_BITS
        rows.append(row)
        within.append(over)
        at_end.append(next((marks for way, marks in _ways(node, begin, True, 0, set()) if isinstance(way, _Over)), -1))
        if len(nodes) > _STATES_MAX:
            raise _LeftToRe2
    firsts = (rows[LATER] >= 0) | (within[LATER] >= 0)
    (places,) = firsts.nonzero()
    lead = int(places[0]) if len(places) == 1 else NO_BYTE
    return Pattern(np.array(rows, np.int32), np.array(within, np.int32), np.array(at_end, np.int32), firsts.astype(np.uint8), lead)
