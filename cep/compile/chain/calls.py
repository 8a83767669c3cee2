"""Functions of texts and lists, and the hash: what Arrow and kernels compute of whole columns, between the loops.

Each gets the columns of its arguments (a literal as a column too) and its typed call, whose literals it reads where they are a part
of the function: patterns, separators, places. None of them fails; NULL gives NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cep.compile.chain.patterns import pattern_of
from cep.compile.chain.time_text import write_times, written
from cep.kernels.arrays import numbers_in
from cep.kernels.column import NO_BYTES, Column
from cep.kernels.columns import from_arrow, lengths_of, to_arrow
from cep.kernels.jit import Kernel
from cep.kernels.json_path import ESCAPED, NAME, NOTHING, find_json, unescape_found
from cep.kernels.row_order import KERNELS as ELEMENTS
from cep.kernels.search import find_matches, find_parts
from cep.kernels.states.lists import READERS, elements_at, list_lengths
from cep.kernels.tables.hashing import hash_words
from cep.kernels.tables.keys import ENCODERS, encode_keys
from cep.kernels.text import gather
from cep.model.expr import Literal
from cep.model.json_paths import steps_of
from cep.model.schema import BINARY, BOOL, INT64, STRING, DataType, Field
from cep.model.types import Typed

ArrowCall = Callable[[Typed, Sequence[Column]], Column]

#: What has to be compiled before any of them runs.
KERNELS: tuple[Kernel, ...] = (gather, hash_words, write_times, *ENCODERS, *READERS, *ELEMENTS)

#: What one of them needs besides.
OWN_KERNELS: dict[str, tuple[Kernel, ...]] = {
    "part": (find_parts,),
    "matches": (find_matches,),
    "extract": (find_matches,),
    "json_get": (find_json, unescape_found),
}

BLANKS = " \t\n\r\v\f"


def as_bytes(column: Column) -> pa.Array:
    """The Arrow array of a column; of lists, that of their bytes."""
    return to_arrow(replace(column, type=BINARY) if column.type.is_list else column)


def of_bytes(array: pa.Array, type_: DataType) -> Column:
    """The column of what `as_bytes` has made."""
    return replace(from_arrow(array, BINARY), type=type_) if type_.is_list else from_arrow(array, type_)


def _literal(tree: Typed, place: int, default: Any = None) -> Any:
    if place >= len(tree.args):
        return default
    expr = tree.args[place].expr
    assert isinstance(expr, Literal)
    return expr.value


def _arrow(function: Callable[..., pa.Array], *literals: str) -> ArrowCall:
    """Arrow's function of the first column; the arguments behind it are literals, its options of these names."""

    def call(tree: Typed, columns: Sequence[Column]) -> Column:
        options = {name: _literal(tree, 1 + k) for k, name in enumerate(literals) if 1 + k < len(tree.args)}
        array = function(to_arrow(columns[0]), **options)
        return from_arrow(array if array.type == tree.type.arrow else array.cast(tree.type.arrow), tree.type)

    return call


def _trim(function: Callable[..., pa.Array]) -> ArrowCall:
    return _arrow(lambda array: function(array, characters=BLANKS))


def _pad(function: Callable[..., pa.Array]) -> ArrowCall:
    return _arrow(lambda array, width, padding=" ": function(array, width=width, padding=padding), "width", "padding")


def _substring(tree: Typed, columns: Sequence[Column]) -> Column:
    start, length = _literal(tree, 1), _literal(tree, 2)
    array = pc.utf8_slice_codeunits(to_arrow(columns[0]), start=start, stop=None if length is None else start + length)
    return from_arrow(array, tree.type)


def _matches(tree: Typed, columns: Sequence[Column]) -> Column:
    texts, regex = columns[0], _literal(tree, 1)
    if (found := _found(texts, regex, 0)) is not None:
        return Column(BOOL, np.ones(len(texts), np.uint8) if found.valid is None else found.valid, texts.valid)
    return from_arrow(pc.match_substring_regex(to_arrow(texts), regex), BOOL)


def _extract(tree: Typed, columns: Sequence[Column]) -> Column:
    regex, group = _literal(tree, 1), _literal(tree, 2, 1)
    found = _found(columns[0], regex, group)
    return _extracted(to_arrow(columns[0]), regex, group) if found is None else found


def _found(texts: Column, regex: str, group: int) -> Column | None:
    """The group of the first match in each text, NULL without one; None where RE2 has to find it."""
    pattern = pattern_of(regex, group)
    if pattern is None:
        return None
    found, group_starts, group_lengths = _places(len(texts))
    count = find_matches(texts.data, _starts(texts), lengths_of(texts), *pattern.arrays, group_starts, group_lengths, found)
    return None if count < 0 else _views(texts, group_starts, group_lengths, found)


def _places(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for what is found in `n` texts: whether, where, how long."""
    return np.empty(n, np.uint8), np.empty(n, np.int64), np.empty(n, np.int32)


def _starts(texts: Column) -> np.ndarray:
    assert texts.starts is not None
    return np.ascontiguousarray(texts.starts)


def _views(texts: Column, starts: np.ndarray, lengths: np.ndarray, found: np.ndarray) -> Column:
    """Parts of `texts` in their bytes, NULL where none was found."""
    valid = found if texts.valid is None else found & texts.valid
    return Column(STRING, lengths, None if valid.all() else valid, texts.data, starts)


def _json_get(tree: Typed, columns: Sequence[Column]) -> Column:
    """Parts of the texts, as long as none that is looked for has an escape."""
    texts, (steps, names, ends) = columns[0], _path_arrays(_literal(tree, 1))
    found, starts, lengths = _places(len(texts))
    valid = np.ones(len(texts), np.uint8) if texts.valid is None else np.ascontiguousarray(texts.valid)
    find_json(texts.data, _starts(texts), lengths_of(texts), valid, steps, names, ends, starts, lengths, found)
    if not (found == ESCAPED).any():
        return Column(STRING, lengths, None if found.all() else found, texts.data, starts)
    data = np.empty(int(lengths.sum()) + len(NO_BYTES), np.uint8)
    unescape_found(texts.data, starts, lengths, found, data)
    there = (found != NOTHING).astype(np.uint8)
    return Column(STRING, lengths, None if there.all() else there, data, starts)


@cache
def _path_arrays(path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The steps of a path as `find_json` takes them."""
    steps = steps_of(path)
    names = [step.encode() if isinstance(step, str) else b"" for step in steps]
    numbers = [NAME if isinstance(step, str) else step for step in steps]
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
    return np.array(numbers, np.int64), np.frombuffer(b"".join(names), np.uint8), ends


def _part(tree: Typed, columns: Sequence[Column]) -> Column:
    texts, separator = columns[0], np.frombuffer(_literal(tree, 1).encode(), np.uint8)
    found, starts, lengths = _places(len(texts))
    find_parts(texts.data, _starts(texts), lengths_of(texts), separator, _literal(tree, 2), starts, lengths, found)
    return _views(texts, starts, lengths, found)


def _extracted(texts: pa.Array, regex: str, group: int) -> Column:
    """The whole text is replaced by the group of its first match: Arrow's own `extract_regex` wants groups with names."""
    inner, number = (f"({regex})", 1) if group == 0 else (f"(?:{regex})", group)
    array = pc.replace_substring_regex(texts, rf"\A(?s:.*?){inner}(?s:.*)\z", replacement=rf"\{number}")
    found = from_arrow(array, STRING)
    matched = from_arrow(pc.match_substring_regex(texts, regex).fill_null(False), BOOL).values
    return found if matched.all() else replace(found, valid=matched)


def _index_of(tree: Typed, columns: Sequence[Column]) -> Column:
    """The code points of what comes before it."""
    texts = columns[0]
    found = numbers_in(pc.find_substring(to_arrow(texts), pattern=_literal(tree, 1)).fill_null(-1), np.dtype(np.int32))
    before = Column(STRING, np.maximum(found, 0).astype(np.int32), None, texts.data, _starts(texts))
    points = numbers_in(pc.utf8_length(to_arrow(before)), np.dtype(np.int32)).astype(np.int64)
    return Column(INT64, np.where(found < 0, np.int64(-1), points), texts.valid)


def _concat(tree: Typed, columns: Sequence[Column]) -> Column:
    between = pa.scalar("" if tree.type.name == "string" else b"", tree.type.arrow)
    return from_arrow(pc.binary_join_element_wise(*map(to_arrow, columns), between, null_handling="emit_null"), tree.type)


def _join(tree: Typed, columns: Sequence[Column]) -> Column:
    return from_arrow(pc.binary_join(to_arrow(columns[0]), _literal(tree, 1)), tree.type)


def _hash(tree: Typed, columns: Sequence[Column]) -> Column:
    """The hash of the key of the columns, each as one that may be NULL: whether one may be changes nothing."""
    fields = tuple(Field(f"{i}", column.type, True) for i, column in enumerate(columns))
    keys = encode_keys({field.name: column for field, column in zip(fields, columns, strict=True)}, fields)
    out = np.empty(len(keys), np.uint64)
    hash_words(keys.w0, keys.w1, out)
    return Column(INT64, out.view(np.int64))


def _format_time(tree: Typed, columns: Sequence[Column]) -> Column:
    return written(columns[0], _literal(tree, 1))


def _list_length(tree: Typed, columns: Sequence[Column]) -> Column:
    return Column(INT64, list_lengths(columns[0]), columns[0].valid)


def _element(tree: Typed, columns: Sequence[Column]) -> Column:
    lists, index = columns
    places = index.values.astype(np.int64)
    return elements_at(lists, places if index.valid is None else np.where(index.valid, places, -1))


CALLS: dict[str, ArrowCall] = {
    "length": _arrow(pc.utf8_length),
    "byte_length": _arrow(pc.binary_length),
    "lower": _arrow(pc.utf8_lower),
    "upper": _arrow(pc.utf8_upper),
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "reverse": _arrow(pc.utf8_reverse),
    "pad_left": _pad(pc.utf8_lpad),
    "pad_right": _pad(pc.utf8_rpad),
    "substring": _substring,
    "replace": _arrow(pc.replace_substring, "pattern", "replacement"),
    "matches": _matches,
    "extract": _extract,
    "json_get": _json_get,
    "split": _arrow(pc.split_pattern, "pattern"),
    "split_regex": _arrow(pc.split_pattern_regex, "pattern"),
    "index_of": _index_of,
    "concat": _concat,
    "format_time": _format_time,
    "hash": _hash,
    "list_length": _list_length,
    "element": _element,
    "part": _part,
    "join": _join,
}
