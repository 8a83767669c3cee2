"""What is wrong with a statement: a code, the place, a caret under it, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass

from cep.errors import QueryError

_SHOWN = 120  # characters of a line


@dataclass(frozen=True, slots=True)
class Code:
    """What a code stands for: why it is refused, and what to write instead."""

    why: str
    instead: str


CODES: dict[str, Code] = {
    "SQL-SYNTAX": Code("the text is no statement of this dialect", ""),
    "SQL-STATEMENT": Code(
        "rows of a stream are never changed, and there are no other statements",
        "CREATE, INSERT INTO, SELECT, EXPLAIN, SET, SHOW, DESCRIBE or DROP",
    ),
    "SQL-DEPTH": Code("so many operations inside each other cannot be read safely", "a view or a WITH query that computes a part"),
    "SQL-NAME": Code("no stream, table, view, sink or function has this name", "one that SHOW STREAMS lists, or CREATE it before"),
    "SQL-EXISTS": Code("the name is taken, and names ignore case", "another name, or DROP what has it"),
    "SQL-COLUMN": Code("what stands in FROM has no such column", "one that DESCRIBE lists"),
    "SQL-AMBIGUOUS": Code("several things in FROM have the column", "the column with the name or alias of its stream before it"),
    "SQL-TYPE": Code("the types do not fit each other", "a CAST of one of them"),
    "SQL-DECIMAL": Code("the engine has no decimal numbers", "DOUBLE, or a BIGINT of the smallest unit"),
    "SQL-STRUCT": Code("a row has columns, not rows inside", "a column for each field"),
    "SQL-FUNCTION": Code("there is no such function, or not with these arguments", "one of docs/features/sql.md, or CREATE FUNCTION"),
    "SQL-INTERVAL": Code(
        "an interval is a fixed span of time, and goes with timestamps only", "INTERVAL '90' SECOND (MINUTE, HOUR, DAY, WEEK)"
    ),
    "SQL-LITERAL": Code("this argument is part of the query, not of its rows", "a constant"),
    "SQL-PROCTIME": Code(
        "processing time is event time by the clock, and no function",
        "a stream without WATERMARK, whose rows are stamped as they arrive; DESCRIPTOR(rowtime) names the stamp",
    ),
    "SQL-TIME": Code("windows, OVER and intervals go by the event time", "the event-time column, or rowtime, which always names it"),
    "SQL-WATERMARK": Code("a watermark is the event time less a fixed disorder", "WATERMARK FOR t AS t, or t - INTERVAL '4' SECOND"),
    "SQL-WINDOW": Code("the window is not one of this dialect", "TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '10' SECOND)), HOP, …"),
    "SQL-WINDOW-ROWS": Code(
        "a row lies in several of these windows, so it has no one window_start",
        "GROUP BY window_start, window_end; or a join on both bounds",
    ),
    "SQL-WINDOW-GROUP": Code("a window is its start and its end", "GROUP BY window_start, window_end and what else is a key"),
    "SQL-WINDOW-KEY": Code("sessions and windows by rows are of a group", "GROUP BY what PARTITION BY names, and window_start, window_end"),
    "SQL-UNBOUNDED-GROUP": Code(
        "without a window a group has no final answer, and streams are append-only",
        "a window; or EMIT CHANGES (an answer per row), EMIT EVERY INTERVAL '1' MINUTE, EMIT AT END",
    ),
    "SQL-CHANGELOG-INPUT": Code(
        "its answers correct earlier ones, and would be taken for events",
        "projection, filters on the key and INSERT INTO; or EMIT AT END, whose answers are final",
    ),
    "SQL-EMIT": Code("EMIT says how a group without a window answers", "EMIT behind GROUP BY, or behind a ROW_NUMBER without a window"),
    "SQL-GROUP-COLUMN": Code("a column that is no key has no one value in a group", "it in GROUP BY, or first(x), last(x), max(x), …"),
    "SQL-AGGREGATE": Code("an aggregate is of a group", "it in SELECT or HAVING, with GROUP BY; a subquery that computes it before"),
    "SQL-DISTINCT": Code("only count knows DISTINCT", "count(DISTINCT x)"),
    "SQL-FILTER": Code("first, last and collect take rows as they are", "a subquery with WHERE"),
    "SQL-OVER": Code(
        "OVER goes by event time and has a bounded frame",
        "OVER (PARTITION BY k ORDER BY t RANGE BETWEEN INTERVAL '10' MINUTE PRECEDING AND CURRENT ROW), or ROWS BETWEEN 9 PRECEDING …",
    ),
    "SQL-ROW-NUMBER": Code(
        "a number of a row is known when its window ends, or by event time",
        "rn <= n of ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY x); ORDER BY event time; EMIT AT END",
    ),
    "SQL-UNBOUNDED-JOIN": Code(
        "without a bound on time both sides would be kept for ever",
        "a BETWEEN on the event times, windows on both sides, or SET state_ttl = '1 d'",
    ),
    "SQL-JOIN": Code("the join has no form that a stream can answer", "equalities, bounds on the event times or on windows; ASOF"),
    "SQL-SUBQUERY": Code("a subquery inside an expression is a join in disguise", "a JOIN with the subquery in FROM"),
    "SQL-LIMIT": Code("a stream has no end, so there is no first part of it", "ROW_NUMBER() per window for the top n"),
    "SQL-ORDER": Code("answers come in the order of event time", "ORDER BY the event time, or ROW_NUMBER() per window"),
    "SQL-SET-OP": Code("only UNION ALL takes rows as they come", "UNION ALL, and SELECT DISTINCT or a join behind it"),
    "SQL-FROM": Code("a query reads a stream", "SELECT … FROM a stream, table function, view or subquery"),
    "SQL-SELECT": Code("nothing is selected, or a column without one name", "SELECT with columns, and AS name for what is no column"),
    "SQL-OPTION": Code("there is no such option, or not with this value", "the options that the message lists"),
    "SQL-SINK": Code("INSERT INTO writes to a sink or to a stream by its name", "CREATE SINK s WITH (connector = 'stream') or 'files'"),
    "SQL-PATTERN": Code("the pattern is none of this dialect", "one as docs/features/sql.md has them"),
    "SQL-EXPRESSION": Code("this dialect does not have it", "an expression of docs/features/sql.md"),
    "SQL-QUERY": Code("the statement is well formed, and the query it means is refused", ""),
}  # fmt: skip


#: Codes whose messages say the reason themselves.
_SELF_EXPLAINING = {
    "SQL-SYNTAX", "SQL-STATEMENT", "SQL-NAME", "SQL-EXISTS", "SQL-COLUMN", "SQL-AMBIGUOUS", "SQL-TYPE", "SQL-FUNCTION", "SQL-WINDOW",
    "SQL-JOIN", "SQL-SELECT", "SQL-OPTION", "SQL-PATTERN", "SQL-EXPRESSION", "SQL-QUERY",
}  # fmt: skip


class SqlError(QueryError):
    """Yours: a statement cannot become a query. `code` is one of CODES, `line` and `column` count from 1."""

    def __init__(self, code: str, what: str, text: str = "", start: int = 0, instead: str | None = None) -> None:
        self.code, self.what, self.instead = code, what, CODES[code].instead if instead is None else instead
        self.line, self.column, shown = _place(text, start)
        where = f" at {self.line}:{self.column}" if text else ""
        reason = "" if code in _SELF_EXPLAINING else f" ({CODES[code].why})"
        advice = f"; write instead: {self.instead}" if self.instead else ""
        super().__init__(f"{code}{where}: {what}{reason}{advice}{shown}")


def _place(text: str, start: int) -> tuple[int, int, str]:
    """Line and column from 1, and the line with a caret under the column."""
    start = min(max(start, 0), len(text))
    begins = text.rfind("\n", 0, start) + 1
    ends = text.find("\n", start)
    line, column = text[begins : None if ends < 0 else ends], start - begins
    if not text:
        return 1, 1, ""
    cut = max(0, column - _SHOWN // 2)
    shown = line[cut : cut + _SHOWN]
    return text.count("\n", 0, start) + 1, column + 1, f"\n  {shown}\n  {' ' * (column - cut)}^"
