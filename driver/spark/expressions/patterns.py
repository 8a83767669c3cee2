"""A regular expression of RE2 written so that Java's mean the same, or refused.

The grammar, of which every part that is not named is refused:

    pattern   sequence | sequence ...
    sequence  (piece, perhaps * + ? {n} {n,} {n,m}, perhaps ?) ...
    piece     ( pattern )   (?: pattern )   (?P<name> pattern )   (?<name> pattern )   [ class ]   . ^ $   \\ escape   a character

Java's `.`, `$`, `\\s`, `\\v`, `\\b` and brackets within a class mean something else, so characters and classes are written as numbers. The
expression is one that RE2 takes: that was checked when the query was built.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from driver.spark.refusals import Refused

REFUSED_PATTERNS: dict[str, str] = {
    "a regular expression with flags, Unicode classes, \\B, \\Q, \\C, or octal numbers": "Java has no equal of them",
    "extract where what repeats may be empty": "Java and RE2 differ in which part the group is",
}
_CONSTRUCT, _EMPTY = REFUSED_PATTERNS

_WORD = "0-9A-Z_a-z"
_CLASSES = {"d": "0-9", "w": _WORD, "s": "\\t\\n\\f\\r\\x20"}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "a": "\a", "v": "\v"}
_EDGES = {"A": "\\A", "z": "\\z", "b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))"}
_SYMBOLS = {".": "[^\\n]", "^": "\\A", "$": "\\z"}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t\\x20",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e",
    "space": "\\t-\\r\\x20",
    "upper": "A-Z",
    "word": _WORD,
    "xdigit": "0-9A-Fa-f",
}
_REPEAT = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??")
_GROUP = re.compile(r"\((?:\?:|\?P?<[A-Za-z0-9_]+>)?(?!\?)")
_NUMBER = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})")
_NAMED = re.compile(r"\[:([a-z]+):\]")


def java(regex: str, extracts: bool) -> str:
    """`regex` in Java's syntax. With `extracts` its groups mean the same too. Raises Refused."""
    return _Reader(regex, extracts).pattern().text


def escaped_pattern(text: str) -> str:
    """What matches `text` and nothing else."""
    return "".join(map(_character, text))


def _character(character: str) -> str:
    return character if character.isascii() and character.isalnum() else f"\\x{{{ord(character):x}}}"


@dataclass(frozen=True, slots=True)
class _Part:
    text: str
    may_be_empty: bool


class _Reader:
    """Recursive descent over one expression; `at` is where it is."""

    def __init__(self, regex: str, extracts: bool) -> None:
        self.regex, self.extracts, self.at = regex, extracts, 0

    def pattern(self) -> _Part:
        """Up to the end or a `)`."""
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return _Part("|".join(part.text for part in parts), any(part.may_be_empty for part in parts))

    def _sequence(self) -> _Part:
        parts = []
        while self.at < len(self.regex) and self.regex[self.at] not in "|)":
            parts.append(self._repeated(self._piece()))
        return _Part("".join(part.text for part in parts), all(part.may_be_empty for part in parts))

    def _repeated(self, part: _Part) -> _Part:
        found = _REPEAT.match(self.regex, self.at)
        if found is None:
            return part
        if part.may_be_empty and self.extracts:
            raise Refused(_EMPTY, f"{REFUSED_PATTERNS[_EMPTY]}: {self.regex!r}")
        self.at = found.end()
        return _Part(part.text + found[0], part.may_be_empty or re.match(r"[*?]|\{0+[,}]", found[0]) is not None)

    def _piece(self) -> _Part:
        if self.regex[self.at] == "(":
            return self._group()
        if self._take("["):
            return self._class()
        if self._take("\\"):
            return self._escape()
        character = self._next()
        if character in _SYMBOLS:
            return _Part(_SYMBOLS[character], character != ".")
        return _Part(_character(character), False)

    def _group(self) -> _Part:
        found = _GROUP.match(self.regex, self.at)
        if found is None:
            raise self._refused()
        self.at = found.end()
        inner = self.pattern()
        self.at += 1  # the )
        return _Part(f"({'?:' if found[0] == '(?:' else ''}{inner.text})", inner.may_be_empty)

    def _escape(self) -> _Part:
        letter = self.regex[self.at]
        if letter in _EDGES:
            self.at += 1
            return _Part(_EDGES[letter], True)
        if letter.lower() in _CLASSES:
            self.at += 1
            return _Part(f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]", False)
        return _Part(_character(self._escaped()), False)

    def _escaped(self) -> str:
        """The one character that an escape means, behind its backslash."""
        number = _NUMBER.match(self.regex, self.at)
        if number is not None:
            self.at = number.end()
            return chr(int(number[1] or number[2], 16))
        letter = self._next()
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isalnum():
            raise self._refused()
        return letter

    def _class(self) -> _Part:
        """Behind its `[`. A `]` at its beginning is a character."""
        negated, members = self._take("^"), [self._member()]
        while not self._take("]"):
            members.append(self._member())
        return _Part(f"[{'^' if negated else ''}{''.join(members)}]", False)

    def _member(self) -> str:
        named = _NAMED.match(self.regex, self.at)
        if named is not None:
            self.at = named.end()
            return _POSIX[named[1]]
        if self.regex.startswith(("\\d", "\\w", "\\s"), self.at):
            self.at += 2
            return _CLASSES[self.regex[self.at - 1]]
        first = self._one()
        if self.regex.startswith("-", self.at) and not self.regex.startswith("-]", self.at):
            self.at += 1
            return f"{first}-{self._one()}"
        return first

    def _one(self) -> str:
        """A character of a class."""
        if self.regex.startswith("[:", self.at):
            raise self._refused()
        return _character(self._escaped() if self._take("\\") else self._next())

    def _take(self, wanted: str) -> bool:
        found = self.regex.startswith(wanted, self.at)
        self.at += len(wanted) if found else 0
        return found

    def _next(self) -> str:
        self.at += 1
        return self.regex[self.at - 1]

    def _refused(self) -> Refused:
        return Refused(_CONSTRUCT, f"{REFUSED_PATTERNS[_CONSTRUCT]}: {self.regex!r} at character {self.at}")
