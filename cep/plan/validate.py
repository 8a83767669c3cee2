"""Is this a query? Names, types, shape; and what follows from it: schemas, order, which columns are the event time.

The names that a query gives to operators and streams are one namespace, since an input may be any of them. They hide
streams that others declared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from cep.errors import QueryError, meant
from cep.model.growth import wider
from cep.model.limits import OPERATORS_MAX, check_name
from cep.model.operators import Operator
from cep.model.query import Output, Query
from cep.model.schema import Schema
from cep.model.streams import Stream
from cep.plan.expand import expanded, in_full
from cep.plan.overlap import check_overlap


@dataclass(frozen=True)
class Validated:
    """A query that holds, and what was found out about it.

    Args:
        query: in full (`cep.plan.expand`).
        sources: the streams it reads, by name, sorted: a stream's place is part of its rows' origin (rule 4.5).
        schemas: by name of operator or stream, read or written, the late stream too.
        event_time_columns: by the same names, the columns that hold each row's event time: a stream's declared column,
            as long as Map passes it through as a plain column; none after an aggregate.
        order: the names of the operators, each after what it reads.
    """

    query: Query
    sources: Mapping[str, Stream]
    schemas: Mapping[str, Schema]
    event_time_columns: Mapping[str, frozenset[str]]
    order: tuple[str, ...]


def validate(query: Query, known: Mapping[str, Stream]) -> Validated:
    """Checks everything that can be known before planning.

    Args:
        known: the streams that exist besides those the query declares, by name.

    Raises:
        QueryError: the first thing that is wrong; its pointer leads into the query's document.
    """
    check_name("a query", query.name, "/name")
    if len(query.operators) > OPERATORS_MAX:
        raise QueryError(
            f"{len(query.operators):,} operators, expected at most {OPERATORS_MAX:,}; cut the query into several", "/operators"
        )
    _check_names(query)
    _check_declarations(query, known)
    sources = _sources(query, known)
    _check_outputs(query, sources)
    order = _order(query)
    _check_all_read(query)
    check_overlap(query)
    schemas = {name: stream.schema for name, stream in sources.items()}
    times = {name: _declared_time(stream) for name, stream in sources.items()}
    by_name = {operator.name: (i, operator) for i, operator in enumerate(query.operators)}
    for index, operator in (by_name[name] for name in order):
        schema = _schema(index, operator, schemas)  # of the operator as written, so that errors point into the document
        for full in in_full(operator):
            schemas[full.name] = schema if full.name == operator.name else _schema(index, full, schemas)
            times[full.name] = _passed_time(full, schemas[full.name], times)
    for i, output in enumerate(query.outputs):
        _check_known_output(i, output.stream, schemas[output.input], known)
        _check_files(i, output, schemas[output.input])
        schemas[output.stream], times[output.stream] = schemas[output.input], times[output.input]
    if query.late is not None:
        schemas[query.late], times[query.late] = _late(query, sources, schemas), frozenset()
    all_ = expanded(query)
    there = {each.name for each in all_.operators}
    full_order = tuple(full.name for name in order for full in in_full(by_name[name][1]) if full.name in there)
    return Validated(all_, sources, schemas, times, full_order)


# --- names -----------------------------------------------------------------------------------------------------------


def _check_names(query: Query) -> None:
    """One namespace; and no name is empty, since paths and channels are named by them."""
    seen: dict[str, str] = {}
    for kind, name, pointer in _names(query):
        if not name:
            raise QueryError(f"{kind} needs a name", pointer)
        if kind in _ADDRESSED:
            check_name(kind, name, pointer)
        if name in seen:
            raise QueryError(f"the name {name!r} is given twice: to {_both(seen[name], kind)}", pointer)
        seen[name] = kind


def _both(one: str, other: str) -> str:
    return f"{one} and to {other}" if one != other else f"two {one.partition(' ')[2]}{'es' if one.endswith('h') else 's'}"


_ADDRESSED = ("a stream", "an output stream", "the late stream")


def _names(query: Query) -> Iterator[tuple[str, str, str]]:
    yield from (("a stream", stream.name, f"/streams/{i}/name") for i, stream in enumerate(query.streams))
    yield from (("an operator", operator.name, f"/operators/{i}/name") for i, operator in enumerate(query.operators))
    for i, operator in enumerate(query.operators):
        yield from (("a branch", full.name, f"/operators/{i}") for full in in_full(operator) if full.name != operator.name)
    yield from (("an output stream", output.stream, f"/outputs/{i}/stream") for i, output in enumerate(query.outputs))
    if query.late is not None:
        yield "the late stream", query.late, "/late"


def _check_declarations(query: Query, known: Mapping[str, Stream]) -> None:
    for i, stream in enumerate(query.streams):
        try:
            wider(known.get(stream.name, stream), stream)
        except QueryError as error:
            raise error.under(f"/streams/{i}") from None


def _sources(query: Query, known: Mapping[str, Stream]) -> dict[str, Stream]:
    """The streams the query reads, by name, sorted."""
    declared = {stream.name: stream for stream in query.streams}
    operators = {name for operator in query.operators for name in operator.branches}
    there = {**known, **declared}
    read = {}
    for reader, name, pointer in _reads(query):
        if name not in operators and name not in there:
            names, near = ", ".join(map(repr, sorted(operators | there.keys()))) or "none", meant(name, [*operators, *there])
            raise QueryError(
                f"{reader} reads {name!r}, which is no operator and no declared stream{near}; there are {names}",
                pointer,
            )
        if name not in operators:
            read[name] = there[name]
    return dict(sorted(read.items()))


def _reads(query: Query) -> Iterator[tuple[str, str, str]]:
    """(reader, what it reads, pointer), for every input of the query."""
    for i, operator in enumerate(query.operators):
        for key, name in zip(operator.input_keys, operator.inputs, strict=True):
            yield f"operator {operator.name!r}", name, f"/operators/{i}/{key}"
    for i, output in enumerate(query.outputs):
        yield f"output {output.stream!r}", output.input, f"/outputs/{i}/input"


# --- shape -----------------------------------------------------------------------------------------------------------


def _check_outputs(query: Query, sources: Mapping[str, Stream]) -> None:
    if not query.outputs:
        raise QueryError(f"query {query.name!r} has no outputs: name at least one stream for its answers", "/outputs")
    written = [(output.stream, f"/outputs/{i}/stream") for i, output in enumerate(query.outputs)]
    written += [(query.late, "/late")] if query.late is not None else []
    for name, pointer in written:
        if name in sources:
            raise QueryError(f"query {query.name!r} both reads and writes the stream {name!r}", pointer)


def _check_all_read(query: Query) -> None:
    """The matches of a pattern, which bear its own name, need not be read where another branch of it is."""
    read = {name for _, name, _ in _reads(query)}
    for i, operator in enumerate(query.operators):
        known = read if read.isdisjoint(operator.branches) else read | {operator.name}
        for name in (each for each in operator.branches if each not in known):
            message = f"nothing reads operator {name!r}: make it an input or an output, or leave it out"
            raise QueryError(message, f"/operators/{i}")


def _order(query: Query) -> tuple[str, ...]:
    """Operators, each after what it reads."""
    home = {name: operator.name for operator in query.operators for name in operator.branches}
    inputs = {operator.name: [home[name] for name in operator.inputs if name in home] for operator in query.operators}
    try:
        return tuple(TopologicalSorter(inputs).static_order())
    except CycleError as error:
        cycle: list[str] = error.args[1]
        index = next(i for i, operator in enumerate(query.operators) if operator.name in cycle)
        path = " → ".join(map(repr, cycle))
        raise QueryError(f"the operators {path} form a cycle; a query has none", f"/operators/{index}") from None


# --- schemas and event time ------------------------------------------------------------------------------------------


def _schema(index: int, operator: Operator, schemas: Mapping[str, Schema]) -> Schema:
    try:
        return operator.output_schema(*(schemas[name] for name in operator.inputs))
    except QueryError as error:
        raise error.under(f"/operators/{index}") from None


def _declared_time(stream: Stream) -> frozenset[str]:
    return frozenset(() if stream.event_time_column is None else (stream.event_time_column,))


def _passed_time(operator: Operator, schema: Schema, times: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Which columns of what it yields, of this schema, are the event time of their rows."""
    if not operator.keeps_time:
        return frozenset()
    passed = ((name, operator.passes(name)) for name in schema.names)
    return frozenset(
        name
        for name, columns in passed
        if columns is not None and all(column in times[input_] for input_, column in zip(operator.inputs, columns, strict=True))
    )


def _check_files(index: int, output: Output, schema: Schema) -> None:
    for field in schema.fields:
        if output.files is not None and (why := output.files.refuses(field.type)):
            raise QueryError(f"output {output.stream!r}, field {field}: {why}", f"/outputs/{index}/files/format")


def _check_known_output(index: int, name: str, schema: Schema, known: Mapping[str, Stream]) -> None:
    """An output may exist already (the query ran before), but as an output of this schema."""
    pointer = f"/outputs/{index}/stream"
    stream = known.get(name)
    if stream is None:
        return
    if stream.event_time is not None or stream.files is not None:
        message = f"output {name!r}: a stream of that name exists and is fed from outside; take another name"
        raise QueryError(message, pointer)
    if stream.schema != schema:
        raise QueryError(
            f"output {name!r} exists already with the schema {stream.schema}, here {schema}; put out the columns that are declared, "
            f"or name the new one {name + '@2'!r}",
            pointer,
        )


def _late(query: Query, sources: Mapping[str, Stream], schemas: Mapping[str, Schema]) -> Schema:
    """Rows are late where a source is read (rule 4.7): the late stream is of the one source that has an event time.

    Of several, instances of several subqueries would have to produce one stream, which nothing else does.
    """
    timed = [name for name, stream in sources.items() if stream.event_time is not None] or list(sources)[:1]
    if len(timed) > 1:
        raise QueryError(
            f"late stream {query.late!r}: late rows keep the schema of their source, so one source with event time is "
            f"expected, got {', '.join(map(repr, timed))}; leave out late and they are counted",
            "/late",
        )
    return schemas[timed[0]]
