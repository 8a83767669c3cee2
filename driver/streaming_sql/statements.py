"""Statements as values, and their parser: a text is statements with semicolons between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from cep.errors import meant
from driver.streaming_sql.dialect import SqlDialect, SqlParser, SqlSyntaxError, tokens_of
from driver.streaming_sql.errors import SqlError

TEXT_MAX = 1_000_000  # characters


@dataclass(frozen=True)
class ColumnDef:
    name: exp.Identifier
    type: exp.DataType | None
    nullable: bool
    computed: exp.Expr | None


@dataclass(frozen=True)
class WatermarkClause:
    column: exp.Identifier
    expression: exp.Expr


@dataclass(frozen=True)
class WithOption:
    name: str
    value: str
    start: int


@dataclass(frozen=True)
class Select:
    start: int
    query: exp.Expr


@dataclass(frozen=True)
class CreateStatement:
    """`kind`: stream, table, sink."""

    start: int
    kind: str
    name: exp.Identifier
    columns: list[ColumnDef] = field(default_factory=list)
    watermark: WatermarkClause | None = None
    options: list[WithOption] = field(default_factory=list)


@dataclass(frozen=True)
class CreateView:
    start: int
    name: exp.Identifier
    query: exp.Expr


@dataclass(frozen=True)
class CreateFunction:
    start: int
    name: exp.Identifier
    returns: exp.DataType
    reference: str
    aggregate: bool


@dataclass(frozen=True)
class Insert:
    start: int
    into: exp.Identifier
    query: exp.Expr
    columns: list[exp.Identifier] = field(default_factory=list)


@dataclass(frozen=True)
class Explain:
    start: int
    analyze: bool
    of: Select | Insert


@dataclass(frozen=True)
class SetOption:
    start: int
    name: str
    value: str


@dataclass(frozen=True)
class Show:
    """`what`: STREAMS, TABLES, VIEWS, SINKS, FUNCTIONS or QUERIES."""

    start: int
    what: str


@dataclass(frozen=True)
class Describe:
    start: int
    name: exp.Identifier


@dataclass(frozen=True)
class Drop:
    start: int
    kind: str
    name: exp.Identifier
    if_exists: bool


Statement: TypeAlias = Select | CreateStatement | CreateView | CreateFunction | Insert | Explain | SetOption | Show | Describe | Drop
_BEGIN_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)
_CHANGING = ("DELETE", "UPDATE", "MERGE", "ALTER", "TRUNCATE", "REPLACE")
SHOWN = ("STREAMS", "TABLES", "VIEWS", "SINKS", "FUNCTIONS", "QUERIES")
DROPPED = ("STREAM", "TABLE", "VIEW", "SINK", "FUNCTION", "QUERY")


class _Unknown(SqlSyntaxError):
    """No statement begins so."""


class StatementParser(SqlParser):
    """Of one statement."""

    def parse_one(self, raw_tokens: list[Token], text: str) -> Statement:
        found: list[Any] = self._parse(lambda self: self._statement(), raw_tokens, text)  # type: ignore[attr-defined]
        if not found:
            raise _Unknown(f"{raw_tokens[0].text.upper()} begins no statement", raw_tokens[0].start)
        statement: Statement = found[0]
        return statement

    def _statement(self) -> Statement:
        start = self._curr
        assert start is not None
        for words, read in _STATEMENTS:
            if self._match_text_seq(*words):
                return read(self, start.start)
        if start.token_type in _BEGIN_QUERY:
            return Select(start.start, self._query())
        if start.text.upper() in _CHANGING:
            raise _Unknown(f"{start.text.upper()}: rows of a stream are never changed", start.start)
        verbs = [*dict.fromkeys(words[0] for words, _ in _STATEMENTS), "SELECT", "WITH"]
        raise _Unknown(f"{start.text.upper()} begins no statement{meant(start.text.upper(), verbs)}", start.start)

    def _query(self) -> exp.Expr:
        found = self._parse_select(nested=True, parse_subquery_alias=False)
        found = self._parse_query_modifiers(self._parse_set_operations(found)) if found is not None else None
        if found is None:
            self.raise_error("expected a query, SELECT …")
        assert isinstance(found, exp.Expr)
        return found

    def name(self, what: str) -> exp.Identifier:
        found = self._parse_id_var(any_token=False)
        if not isinstance(found, exp.Identifier):
            self.raise_error(f"expected the name of a {what}")
        assert isinstance(found, exp.Identifier)
        return found

    def columns(self) -> tuple[list[ColumnDef], WatermarkClause | None]:
        """`(a BIGINT NOT NULL, …, WATERMARK FOR a AS a - INTERVAL '4' SECOND)`, and keys, which are not enforced."""
        found: list[ColumnDef] = []
        watermark: WatermarkClause | None = None
        self._match_l_paren()
        while True:
            token = self._curr
            if self._match_text_seq("WATERMARK", "FOR"):
                if watermark is not None:
                    raise SqlSyntaxError("WATERMARK stands twice: a stream has one event time", token.start)
                column = self.name("column")
                if not self._match(TokenType.ALIAS):
                    self.raise_error("expected AS and the watermark")
                watermark = WatermarkClause(column, self._required(self._parse_disjunction(), "the watermark"))
            elif self._match(TokenType.PRIMARY_KEY):
                self._parse_wrapped_id_vars()
                self._match_text_seq("NOT", "ENFORCED")
            else:
                found.append(self._column())
            if not self._match(TokenType.COMMA):
                break
        self._match_r_paren()
        return found, watermark

    def _column(self) -> ColumnDef:
        name = self.name("column")
        if self._match(TokenType.ALIAS):
            return ColumnDef(name, None, True, self._required(self._parse_disjunction(), "an expression"))
        type_ = self._parse_types(check_func=False)
        if not isinstance(type_, exp.DataType):
            self.raise_error(f"expected the type of column {name.name!r}")
        assert isinstance(type_, exp.DataType)
        nullable = not self._match_text_seq("NOT", "NULL")
        if nullable:
            self._match(TokenType.NULL)
        self._match(TokenType.PRIMARY_KEY)
        return ColumnDef(name, type_, nullable, None)

    def options(self) -> list[WithOption]:
        """`WITH (connector = 'files', 'path' = 'x')`."""
        if not self._match(TokenType.WITH):
            return []
        return [each for each in self._parse_wrapped_csv(self._option) if each is not None]

    def _option(self) -> Any:
        token = self._curr
        if not token:
            return None
        self._advance()
        words = [token.text]
        while self._match(TokenType.DOT):
            words.append(self._curr.text if self._curr else "")
            self._advance()
        if not self._match(TokenType.EQ):
            self.raise_error(f"expected = and the value of option {token.text!r}")
        value = self._curr
        if not value:
            self.raise_error(f"expected the value of option {token.text!r}")
        assert value is not None
        self._advance()
        return WithOption(".".join(words).lower(), value.text, token.start)


class StatementDialect(SqlDialect):
    """sqlglot knows it as "statementdialect"."""

    Parser = StatementParser


def _create(self: StatementParser, start: int) -> Statement:
    token = self._curr
    kind = token.text.lower() if token else ""
    if token:
        self._advance()
    if kind in ("aggregate", "function"):
        if kind == "aggregate":
            self._match_text_seq("FUNCTION")
        return _create_function(self, start, kind == "aggregate")
    if kind not in ("stream", "source", "table", "sink", "view"):
        kinds = ("STREAM", "TABLE", "SINK", "VIEW", "FUNCTION")
        raise _Unknown(f"expected one of {', '.join(kinds)} behind CREATE{meant(kind.upper(), kinds)}", token.start if token else start)
    name = self.name(kind)
    if kind == "view":
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS and a query")
        return CreateView(start, name, self._query())
    has_columns = bool(self._curr) and self._curr.token_type is TokenType.L_PAREN
    columns, watermark = self.columns() if has_columns else ([], None)
    options = self.options()
    if kind == "source" or (kind == "table" and watermark is not None and "versions" not in {each.name for each in options}):
        kind = "stream"
    return CreateStatement(start, kind, name, columns, watermark, options)


def _create_function(self: StatementParser, start: int, aggregate: bool) -> Statement:
    name = self.name("function")
    if not self._match_text_seq("RETURNS"):
        self.raise_error("expected RETURNS and a type")
    returns = self._parse_types(check_func=False)
    self._match_text_seq("LANGUAGE", "PYTHON")
    if not isinstance(returns, exp.DataType):
        self.raise_error("expected the type that the function returns")
    assert isinstance(returns, exp.DataType)
    if not self._match(TokenType.ALIAS) or not self._curr or self._curr.token_type is not TokenType.STRING:
        self.raise_error("expected AS 'module:name'")
    reference = self._curr.text
    self._advance()
    return CreateFunction(start, name, returns, reference, aggregate)


def _insert(self: StatementParser, start: int) -> Statement:
    into = self.name("sink")
    columns: list[exp.Identifier] = []
    if self._curr and self._curr.token_type is TokenType.L_PAREN and self._next and self._next.token_type not in _BEGIN_QUERY:
        columns = [each for each in self._parse_wrapped_id_vars() if isinstance(each, exp.Identifier)]
    return Insert(start, into, self._query(), columns)


def _explain(self: StatementParser, start: int) -> Statement:
    analyze = bool(self._match_text_seq("ANALYZE"))
    self._match_text_seq("PLAN", "FOR")
    found = self._statement()
    if not isinstance(found, Select | Insert):
        raise SqlSyntaxError("expected a query behind EXPLAIN, SELECT … or INSERT INTO …", found.start)
    return Explain(start, analyze, found)


def _set(self: StatementParser, start: int) -> Statement:
    found = self._option()
    if found is None:
        self.raise_error("expected SET name = value")
    return SetOption(found.start, found.name, found.value)


def _show(self: StatementParser, start: int) -> Statement:
    token = self._curr
    what = token.text.upper() if token else ""
    if what not in SHOWN:
        self.raise_error(f"expected one of {', '.join(SHOWN)} behind SHOW{meant(what, SHOWN)}")
    self._advance()
    return Show(start, what)


def _describe(self: StatementParser, start: int) -> Statement:
    return Describe(start, self.name("stream, table, view or sink"))


def _drop(self: StatementParser, start: int) -> Statement:
    token = self._curr
    kind = token.text.upper() if token else ""
    if kind not in DROPPED:
        self.raise_error(f"expected one of {', '.join(DROPPED)} behind DROP{meant(kind, DROPPED)}")
    self._advance()
    if_exists = bool(self._match_text_seq("IF", "EXISTS"))
    return Drop(start, kind.lower(), self.name(kind.lower()), if_exists)


_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[StatementParser, int], Statement]], ...] = (
    (("CREATE",), _create),
    (("INSERT", "INTO"), _insert),
    (("EXPLAIN",), _explain),
    (("SET",), _set),
    (("SHOW",), _show),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("DROP",), _drop),
)


# --- texts ---


def statements(text: str) -> list[Statement]:
    """The statements of a text, which semicolons end. Raises SqlError."""
    if len(text) > TEXT_MAX:
        raise SqlError("SQL-DEPTH", f"a text of {len(text):,} characters; expected at most {TEXT_MAX:,}", text, 0)
    dialect = StatementDialect()
    return [_parsed(dialect, chunk, text) for chunk in _chunks(tokens_of(dialect, text))]


def _chunks(found: list[Token]) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    for token in found:
        if token.token_type is not TokenType.SEMICOLON:
            chunk.append(token)
        elif chunk:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _parsed(dialect: StatementDialect, chunk: list[Token], text: str) -> Statement:
    reader = dialect.parser()
    assert isinstance(reader, StatementParser)
    try:
        return reader.parse_one(chunk, text)
    except _Unknown as error:
        raise SqlError("SQL-STATEMENT", error.message, text, error.start) from None
    except SqlSyntaxError as error:
        raise SqlError("SQL-SYNTAX", error.message, text, error.start) from None
    except ParseError as error:
        raise SqlError("SQL-SYNTAX", str(error.errors[0]["description"]), text, chunk[0].start) from None
    except RecursionError:
        raise SqlError("SQL-DEPTH", "operations are too deep inside each other", text, chunk[0].start) from None
    except ValueError as error:  # the parser's, of what it did not expect inside a type
        raise SqlError("SQL-SYNTAX", str(error), text, chunk[0].start) from None
