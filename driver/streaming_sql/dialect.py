"""The dialect of queries: sqlglot's parser with what streams need. Statements: `driver.streaming_sql.statements`.

Functions are read as they are written (`exp.Anonymous`): which there are, the binder says. Traps of the parser that are closed here:

- Deep parentheses and long chains of prefixes would be a RecursionError: the nesting is counted before anything is parsed.
- `SELECT FROM t`, and what it does not know (which it would keep as text, a `Command`), are errors.
- A token's `col` is its last column: places are offsets, `start`, from which line and column are counted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from cep.errors import meant
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.match_syntax import MatchParser

NESTED_MAX = 60
_PREFIXES = {"NOT", "-", "+", "~", "CASE"}
_KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "UNION", "WITH", "CREATE", "INSERT", "EXPLAIN", "DESCRIBE", "SHOW", "DROP", "SET",
    "STREAM", "TABLE", "VIEW", "SINK", "WATERMARK", "BETWEEN", "PARTITION", "ORDER", "INTERVAL", "DISTINCT", "JOIN",
)  # fmt: skip
_NO_ITEM = (TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.R_PAREN)
WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE", "SIZE", "TRANSACTION")


class WindowTable(exp.Expression):
    """A window's table function. `name`, `this` (what it is over), `partition_by`, `time` (a column), `expressions` (its arguments)."""

    arg_types: ClassVar[dict[str, bool]] = {
        "name": True, "this": True, "partition_by": False, "time": False, "expressions": False, "alias": False,
    }  # fmt: skip


class Emit(exp.Expression):
    """How a group without a window answers. `mode`: CHANGES, EVERY or END; `this`: of EVERY, how often."""

    arg_types: ClassVar[dict[str, bool]] = {"mode": True, "this": False}


class SqlSyntaxError(ParseError):
    """What the parser raises, with the offset of the token."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message, [{"description": message}])
        self.message, self.start = message, start


class SqlTokenizer(tokens.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **{word: type_ for word, type_ in tokens.Tokenizer.KEYWORDS.items() if type_ is not TokenType.COMMAND},
        "//": TokenType.DIV,
        "INT8": TokenType.BIGINT,
        "SHOW": TokenType.VAR,
        "SESSION": TokenType.VAR,
        "MATCH_CONDITION": TokenType.VAR,
        "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
    }
    COMMANDS: ClassVar[set[TokenType]] = set()


class SqlParser(MatchParser):
    IS_PREDICATE_PRECEDENCE = parser.IsPredicatePrecedence.LOW  # `a > b IS TRUE` is of the comparison
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNC_TOKENS: ClassVar[set[TokenType]] = {*parser.Parser.FUNC_TOKENS, TokenType.DIV}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "TRIM")
    }
    PRIMARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **parser.Parser.PRIMARY_PARSERS,
        TokenType.NULL: lambda self, token: self.expression(exp.Null(), token),
        TokenType.TRUE: lambda self, token: self.expression(exp.Boolean(this=True), token),
        TokenType.FALSE: lambda self, token: self.expression(exp.Boolean(this=False), token),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": parser.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    def raise_error(self, message: str, token: Token | None = None) -> None:
        found = token or self._curr or self._prev
        at_end = not self._curr
        raise SqlSyntaxError(_said(message, found, self._prev, at_end), (found.end + 1 if at_end else found.start) if found else 0)

    # --- queries ---

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        found = self._parse_window_table() or super()._parse_table(*args, **kwargs)
        return found if found is None else self._matching(found)

    def _parse_window_table(self) -> exp.Expr | None:
        """`TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), …)) AS alias`, or the same without `TABLE( )` around it."""
        start, wrapped = self._index, bool(self._match_pair(TokenType.TABLE, TokenType.L_PAREN))
        if not self._curr or not self._next or self._next.token_type is not TokenType.L_PAREN:
            self._retreat(start)
            return None
        name = self._curr
        if name.text.upper() not in WINDOW_FUNCTIONS:
            if wrapped:
                self.raise_error(
                    f"{name.text} is no window{meant(name.text.upper(), WINDOW_FUNCTIONS)}; there are {', '.join(WINDOW_FUNCTIONS)}"
                )
            return None
        self._advance(2)
        found = self._window_arguments(name)
        self._match_r_paren()
        if wrapped:
            self._match_r_paren()
        found.set("alias", self._parse_table_alias())
        return found

    def _window_arguments(self, name: Token) -> WindowTable:
        this = self._windowed_input()
        partition = None
        if self._match(TokenType.PARTITION_BY):
            partition = self._partition()
        given: list[exp.Expr] = []
        time = None
        while self._match(TokenType.COMMA):
            if self._match_text_seq("DESCRIPTOR"):
                time = self._parse_wrapped(self._parse_column)
            else:
                given.append(self._named_argument())
        found = WindowTable(name=name.text.upper(), this=this, partition_by=partition, time=time, expressions=given)
        return found.update_positions(name)

    def _partition(self) -> list[exp.Expr]:
        """`(a, b)`, or without brackets up to the window's other arguments."""
        if self._curr and self._curr.token_type is TokenType.L_PAREN:
            wrapped: list[exp.Expr] = self._parse_wrapped_csv(self._parse_column)
            return wrapped
        found = [self._required(self._parse_column(), "a column")]
        while self._curr and self._curr.token_type is TokenType.COMMA and self._next and self._next.token_type is TokenType.VAR:
            after = self._tokens[self._index + 2] if self._index + 2 < len(self._tokens) else None
            if self._next.text.upper() == "DESCRIPTOR" or (after is not None and after.token_type is TokenType.FARROW):
                break
            self._advance()
            found.append(self._required(self._parse_column(), "a column"))
        return found

    def _windowed_input(self) -> exp.Expr | None:
        self._match_text_seq("DATA", "=", ">")
        self._match(TokenType.TABLE)
        if self._match(TokenType.L_PAREN):
            query = self._parse_select()
            self._match_r_paren()
            return exp.Subquery(this=query)
        return self._parse_table_parts()

    def _named_argument(self) -> exp.Expr:
        """`INTERVAL …`, or with its name: `OFFSET => INTERVAL …`, `open => kind = 'a'`."""
        name = self._curr
        if self._next and self._next.token_type is TokenType.FARROW:
            self._advance(2)
            value = self._parse_disjunction()
            return exp.Kwarg(this=exp.var(name.text.lower()).update_positions(name), expression=value).update_positions(name)
        value = self._parse_disjunction()
        if value is None:
            self.raise_error("expected an argument")
        assert value is not None
        return value

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if self._is_emit():
            return None
        return super()._parse_table_alias(alias_tokens)

    def _is_emit(self) -> bool:
        return bool(
            self._curr and self._next and self._curr.text.upper() == "EMIT" and self._next.text.upper() in ("CHANGES", "EVERY", "AT")
        )

    def _parse_query_modifiers(self, this: Any) -> Any:
        found = super()._parse_query_modifiers(this)
        if isinstance(found, exp.Select) and self._is_emit():
            found.set("emit", self._parse_emit())
        return found

    def _parse_emit(self) -> Emit:
        token = self._curr
        self._advance()
        if self._match_text_seq("CHANGES"):
            found = Emit(mode="CHANGES")
        elif self._match_text_seq("AT", "END"):
            found = Emit(mode="END")
        else:
            if not self._match_text_seq("EVERY"):
                self.raise_error("expected CHANGES, EVERY or AT END behind EMIT")
            found = Emit(mode="EVERY", this=self._parse_interval() or self._parse_primary())
        return found.update_positions(token)

    def _required(self, found: Any, what: str) -> exp.Expr:
        if found is None:
            self.raise_error(f"expected {what}")
        return found  # type: ignore[no-any-return]


class SqlDialect(Dialect):
    """sqlglot knows it as "sqldialect"."""

    Tokenizer = SqlTokenizer
    Parser = SqlParser


def tokens_of(dialect: SqlDialect, text: str) -> list[Token]:
    try:
        found: list[Token] = dialect.tokenize(text)
    except TokenError:
        raise SqlError("SQL-SYNTAX", "a quote or a comment is not closed", text, _open_quote(text), "the quote that closes it") from None
    _check_depth(found, text)
    for token, after in zip(found, [*found[1:], None], strict=False):
        if token.token_type is TokenType.COMMA and after is not None and after.token_type in _NO_ITEM:
            raise SqlError("SQL-SYNTAX", f"expected something between the comma and {after.text}", text, after.start)
    return found


def _check_depth(found: list[Token], text: str) -> None:
    """Counts brackets that are open, and prefixes in a row, which nest too."""
    depth = prefixes = 0
    for token in found:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
        prefixes = prefixes + 1 if token.text.upper() in _PREFIXES else 0
        if depth > NESTED_MAX or prefixes > NESTED_MAX:
            raise SqlError("SQL-DEPTH", f"more than {NESTED_MAX} inside each other", text, token.start)


def _open_quote(text: str) -> int:
    """Where the quote or comment begins that nothing closes."""
    place, length = 0, len(text)
    while place < length:
        opening = next((each for each in ("'", '"', "/*", "--") if text.startswith(each, place)), None)
        if opening is None:
            place += 1
            continue
        closing = {"'": "'", '"': '"', "/*": "*/", "--": "\n"}[opening]
        end = text.find(closing, place + len(opening))
        if end < 0:
            return place
        place = end + len(closing)
    return 0


def _said(message: str, token: Token | None, before: Token | None, at_end: bool) -> str:
    """What the parser says, for a person."""
    got = "the end of the statement" if at_end or token is None else repr(token.text)
    if message.startswith("Required keyword"):
        return "an operand is missing here"
    if message.startswith("Expecting "):
        return f"expected {message.removeprefix('Expecting ')}, got {got}"
    if token is not None and token.text.upper() == "EMIT":
        return "expected CHANGES, EVERY INTERVAL … or AT END behind EMIT"
    if message.startswith("Invalid expression"):
        near = [meant(each.text.upper(), _KEYWORDS) for each in (before, token) if each and each.text.upper() not in _KEYWORDS]
        return f"did not expect {got} here{next(filter(None, near), '')}"
    return message[:1].lower() + message[1:] if message[:2] != message[:2].upper() else message
