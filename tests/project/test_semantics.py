"""The examples of docs/semantics.md, through the reference and through the engine. The document says how they are written."""

from __future__ import annotations

import atexit
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest

from cep.kernels.jit import interpreted
from cep.model import operator_documents
from cep.model.expr import ColumnRef
from cep.model.operators import Lookup, Operator
from cep.model.query import Options, Output, Query
from cep.model.schema import Field, Schema, parse_type
from cep.model.streams import Stream
from cep.model.tables import StaticTable
from cep.model.tables import to_json as table_to_json
from cep.service.yaml_documents import load_yaml
from numa_cep import testing
from tests.reference import Answer, Partition, assert_same_answer
from tests.reference.rows import Advance, Awake, Idle, Mark
from tests.reference.schemas import schemas_of
from tests.reference.tables import BEGINNING, Changes, Versions, versions_of
from tests.strategies import Case, Execution
from tests.support.changing_files import answers_of, write
from tests.support.kinds import JOINS, KINDS, kind_of
from tests.support.paths import ROOT
from tests.support.running import expected_of, run_case

DOCUMENT = ROOT / "docs" / "semantics.md"
_BLOCK = re.compile(r"^```example\n(.*?)^```$", re.M | re.S)
_STREAM = re.compile(r"stream (\w+): (.*)")
_FILE = re.compile(r"file (\w+): (.*)")
_OPERATOR = re.compile(r"(\w+) = (\w+)\((.*?)\): (\{.*\})")
_ANSWER = re.compile(r"([\w.]+): (.*)")

TimedRow = tuple[int, tuple[Any, ...]]


@dataclass(frozen=True)
class Example:
    """A query, all of whose operators come out under their own names, its input, and what the document says of it. `files`: what is in the
    files of its tables, by path, from which watermark on."""

    query: Query
    inputs: Mapping[str, Sequence[Partition]]
    answers: Mapping[str, Sequence[TimedRow]]
    dead: Counter[str]
    files: Mapping[str, Changes]

    @property
    def kinds(self) -> set[str]:
        return {kind_of(operator) for operator in self.query.operators}


@cache
def _folder() -> str:
    """For tables in files, as long as the tests run."""
    folder = TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@cache
def examples() -> tuple[Example, ...]:
    return tuple(map(read, _BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))))


def read(text: str) -> Example:
    """Raises AssertionError where a line is none of those that the document describes."""
    streams: list[Stream] = []
    inputs: dict[str, Sequence[Partition]] = {}
    operators: list[Operator] = []
    tables: dict[str, StaticTable] = {}
    files: dict[str, Changes] = {}
    said: dict[str, str] = {}
    for line in text.splitlines():
        if match := _STREAM.fullmatch(line):
            stream, partition = _stream(*match.groups())
            streams.append(stream)
            inputs[stream.name] = [partition]
        elif match := _FILE.fullmatch(line):
            table, changes = _file(*match.groups())
            tables[match[1]] = table
            files[str(table.path)] = changes
        elif match := _OPERATOR.fullmatch(line):
            operators.append(_operator(*match.groups(), tables))
        else:
            match = _ANSWER.fullmatch(line)
            assert match, f"no line of an example: {line!r}"
            said[match[1]] = match[2]
    return _example(Query("q", tuple(streams), tuple(operators), _outputs(operators)), inputs, said, files)


def _stream(name: str, text: str) -> tuple[Stream, Partition]:
    head, *rows = (part.split() for part in text.split(" | "))
    schema = Schema((Field(head[0], parse_type("timestamp[us]")[0]), *map(_column, head[1:])))
    found = [_values(row, schema) for row in rows if not row[0].startswith("!")]
    said = [(i, row) for i, row in enumerate(rows) if row[0].startswith("!")]
    marks = tuple((before - number, _mark(row)) for number, (before, row) in enumerate(said))
    return Stream(name, schema, ColumnRef(head[0]), 0), Partition(0, found, marks=marks)


def _column(text: str) -> Field:
    name, _, type_ = text.partition(":")
    return Field(name, parse_type(type_ or "int64")[0], True)


def _file(name: str, text: str) -> tuple[StaticTable, Changes]:
    head, *rows = (part.split() for part in text.split(" | "))
    schema, changes = Schema(tuple(map(_column, head))), [(BEGINNING, list[tuple[Any, ...]]())]
    for row in rows:
        if row[0] == "!at":
            changes.append((int(row[1]), []))
        else:
            changes[-1][1].append(_values(row, schema))
    return StaticTable(schema, f"{_folder()}/{name}.arrow"), changes


def _mark(words: Sequence[str]) -> Mark:
    """What a publisher says between its rows."""
    kind = {"!idle": Idle, "!awake": Awake, "!advance": Advance}[words[0]]
    return kind(*map(int, words[1:]))


def _values(texts: Sequence[str], schema: Schema) -> tuple[Any, ...]:
    return tuple(_value(text, field) for text, field in zip(texts, schema.fields, strict=True))


def _value(text: str, field: Field) -> Any:
    if text == "-":
        return None
    return text if field.type.name == "string" else float(text) if field.type.name == "float64" else int(text)


def _operator(name: str, type_: str, inputs: str, text: str, tables: Mapping[str, StaticTable]) -> Operator:
    names = inputs.split(", ")
    sides = dict(zip(("left", "right"), names, strict=False))
    keys = {"union": {"inputs": names}, "pattern": {"inputs": names}, **{join: sides for join in JOINS}}.get(type_, {"input": names[0]})
    document = {"name": name, "type": type_, **keys, **load_yaml(text)}
    if document.get("table") in tables:
        document["table"] = table_to_json(tables[document["table"]])
    elif document.get("table") in TABLES:
        document["table"] = table_to_json(_table(document["table"], in_file="refresh" in document))
    return operator_documents.from_json(document)


#: The tables that the document describes.
TABLES: Mapping[str, tuple[Schema, Mapping[str, list[Any]]]] = {
    "T": (Schema.of({"k": "int64?", "name": "string"}), {"k": [1, 2, 2, None], "name": ["x", "y", "z", "w"]}),
    "V": (
        Schema.of({"since": "timestamp[us]", "k": "int64", "v": "string"}),
        {"since": [2, 4, 5, 5], "k": [7, 7, 8, 8], "v": ["a", "b", "c", "d"]},
    ),
}


def _table(name: str, in_file: bool) -> StaticTable:
    schema, columns = TABLES[name]
    table = pa.table(columns, schema=schema.arrow)
    if in_file:
        path = f"{_folder()}/{name}.arrow"
        pyarrow.feather.write_feather(table, path)
        return StaticTable(schema, path)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return StaticTable(schema, data=sink.getvalue().to_pybytes())


def _outputs(operators: Sequence[Operator]) -> tuple[Output, ...]:
    names = [name for operator in operators for name in (operator.branches)]
    return tuple(Output(f"out {name}", name) for name in names)


def _example(query: Query, inputs: Mapping[str, Sequence[Partition]], said: Mapping[str, str], files: Mapping[str, Changes]) -> Example:
    schemas = schemas_of(query)
    answers: dict[str, list[TimedRow]] = {}
    for name in said.keys() - {"dead"}:
        rows = [part.split() for part in said[name].split(" | ")]
        answers[f"out {name}"] = [(int(row[0]), _values(row[1:], schemas[name])) for row in rows]
    dead = said.get("dead", "").split()
    return Example(query, inputs, answers, Counter(dict(zip(dead[::2], map(int, dead[1::2]), strict=True))), files)


def named(example: Example) -> str:
    return "-".join(operator.name for operator in example.query.operators)


@pytest.mark.parametrize("example", examples(), ids=named)
def test_the_reference_answers_as_the_document_says(example: Example) -> None:
    answer: Answer = expected_of(example.query, example.inputs, _read_again(example))
    assert_same_answer(example.answers, answer.outputs)
    assert answer.dead_counts() == example.dead


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("example", [example for example in examples() if not example.files], ids=named)
def test_the_engine_answers_as_the_document_says(example: Example, parallelism: int) -> None:
    query = example.query
    execution = Execution(Options(parallelism=parallelism), (2,), (), (*range(parallelism), 0), 1 << 20, 0)
    with interpreted():
        ran = run_case(Case(query, example.inputs), execution)
    outputs = {output.stream for output in query.outputs}
    assert_same_answer({name: rows for name, rows in example.answers.items() if name in outputs}, ran.outputs)
    names = {output.input for output in query.outputs}
    assert ran.dead == Counter({name: count for name, count in example.dead.items() if name in names})


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("example", [example for example in examples() if example.files], ids=named)
def test_the_engine_answers_while_files_change(example: Example, parallelism: int) -> None:
    """A row at a time: so it is known what is in the files when the watermark comes to it."""
    _replace_files(example, BEGINNING)
    (stream,) = example.query.streams
    with testing.run(example.query, instances=parallelism, seed=parallelism) as run:
        for row in _rows(example):
            _replace_files(example, row[0])
            run.send(stream.name, dict(zip(stream.schema.names, row, strict=True)))
        run.close()
        assert_same_answer(example.answers, {output: answers_of(run, output) for output in run.outputs})


def _rows(example: Example) -> list[tuple[Any, ...]]:
    ((partition,),) = example.inputs.values()
    return [row for row in partition.rows if isinstance(row, tuple)]


def _replace_files(example: Example, watermark: int) -> None:
    for operator in example.query.operators:
        assert isinstance(operator, Lookup) and operator.table.path is not None
        rows = [rows for since, rows in example.files[operator.table.path] if since <= watermark][-1]
        write(Path(operator.table.path), operator.table.schema, rows)


def _read_again(example: Example) -> dict[str, Versions]:
    if not example.files:
        return {}
    watermarks = [row[0] for row in _rows(example)]
    lookups = [operator for operator in example.query.operators if isinstance(operator, Lookup) and operator.refresh is not None]
    return {each.name: versions_of(each.refresh or 0, watermarks, example.files[str(each.table.path)]) for each in lookups}


def test_every_kind_of_operator_has_an_example() -> None:
    assert set().union(*(example.kinds for example in examples())) == set(KINDS)
