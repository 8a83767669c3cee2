"""MATCH_RECOGNIZE as it is written: SQL:2016's, and what it lacks for streams.

    FROM s MATCH_RECOGNIZE (
        [PARTITION BY k, …] ORDER BY t
        [MEASURES A.v AS v, FINAL LAST(A.v) - FINAL B.v AS d, …] [ONE ROW PER MATCH | ALL ROWS PER MATCH | TIMED OUT | UNMATCHED ROWS]
        [AFTER MATCH SKIP … | ALL MATCHES]
        PATTERN (…) [WITHIN INTERVAL …] [TTL INTERVAL … | NO TTL]
        [DEFINE A AS condition, …]
    ) [AS m]

In a pattern a blank is the next row; `->` the first later row that anything awaited there takes; `->>` any later row, with ALL MATCHES.
`!X` between two: no such row between, or, behind a blank, not the row right behind; `!X FOR INTERVAL …` at the end: no such row for so
long. `(…) GAP INTERVAL …`: rows that are neighbours in it are at most so far apart.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.tokenizer_core import Token, TokenType

from cep.model.operators.pattern_ways import TIMED_OUT, UNMATCHED
from cep.model.patterns.checks import ALL, FIRST, PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT
from cep.model.patterns.parts import ANY, NEXT, THEN, AllOf, AnyOf, Not, PatternPart, Repeat, Seq, Var
from driver.streaming_sql.spans import interval_us

_ARROWS = {TokenType.ARROW: THEN, TokenType.DARROW: ANY}
#: What says how often.
_TIMES = (TokenType.STAR, TokenType.PLUS, TokenType.PLACEHOLDER, TokenType.DQMARK, TokenType.L_BRACE)
FINAL = "final"
"""In the meta of what says it."""
_REFUSED = {"^": "there is no ^: a pattern may begin at any row", "$": "there is no $: a stream has no last row"}


class MatchRecognize(exp.Expression):
    """`this`: what it is of. `measures` are aliases. `branch`: of the pattern, of what comes out in place of matches. `part` is a
    PatternPart, `places`: name of a variable -> where it is written first. `ttl` is an interval, False (NO TTL) or None."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True, "partition_by": False, "order": False, "measures": False, "all_rows": False, "branch": False,
        "matches": False, "after": False, "part": True, "places": True, "within": False, "ttl": False, "define": False, "alias": False,
    }  # fmt: skip


class MatchParser(parser.Parser):
    """The part of the dialect's parser that reads it."""

    QUERY_MODIFIER_PARSERS: ClassVar[dict[Any, Any]] = {
        token: read for token, read in parser.Parser.QUERY_MODIFIER_PARSERS.items() if token is not TokenType.MATCH_RECOGNIZE
    }
    _measuring = False

    def _matching(self, of: exp.Expr) -> exp.Expr:
        """`of`, or the matches of a pattern in it, if that is what follows."""
        token = self._curr
        if not token or not self._match(TokenType.MATCH_RECOGNIZE):
            return of
        self._match_l_paren()
        given: dict[str, Any] = {"this": of}
        if self._match(TokenType.PARTITION_BY):
            given["partition_by"] = self._parse_csv(self._parse_column)
        if self._match(TokenType.ORDER_BY):
            given["order"] = self._parse_csv(self._parse_ordered)
        if self._match_text_seq("MEASURES"):
            given |= self._measures()
        given |= self._ways_out()
        given |= self._pattern_clause()
        if self._match_text_seq("DEFINE"):
            given["define"] = self._parse_csv(self._definition)
        self._match_r_paren()
        found = MatchRecognize(**given).update_positions(token)
        found.set("alias", self._parse_table_alias())
        return found

    def _measures(self) -> dict[str, Any]:
        found: list[exp.Expr] = []
        self._measuring = True
        try:
            while not found or self._match(TokenType.COMMA):
                found.append(self._named(self._parse_disjunction(), "a measure has a name: MEASURES A.v AS v"))
        finally:
            self._measuring = False
        return {"measures": found}

    def _parse_unary(self) -> exp.Expr | None:
        """In MEASURES it may say FINAL, of what stands right behind."""
        if self._measuring and self._match_text_seq("RUNNING"):
            self.raise_error("a measure is of the whole match: there is no RUNNING", self._prev)
        final = self._measuring and self._match_text_seq("FINAL")
        found = super()._parse_unary()
        if final and found is not None:
            found.meta[FINAL] = True
        return found

    def _ways_out(self) -> dict[str, Any]:
        """What comes out, and how it goes on behind a match; in any order."""
        found: dict[str, Any] = {"all_rows": False, "branch": "", "matches": FIRST, "after": PAST_LAST}
        while True:
            if self._match_text_seq("ONE", "ROW", "PER", "MATCH"):
                found["all_rows"] = False
            elif self._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
                found["all_rows"] = True
            elif self._match_text_seq("TIMED", "OUT"):
                found["branch"] = TIMED_OUT
            elif self._match_text_seq("UNMATCHED", "ROWS"):
                found["branch"] = UNMATCHED
            elif self._match_text_seq("ALL", "MATCHES"):
                found["matches"] = ALL
            elif self._match_text_seq("AFTER", "MATCH", "SKIP"):
                found["after"] = self._skip()
            elif self._curr and self._curr.text.upper() in ("WITH", "SHOW", "OMIT"):
                self.raise_error("rows of no match come out alone, by UNMATCHED ROWS; there are no empty matches")
            else:
                return found

    def _skip(self) -> str:
        if self._match_text_seq("PAST", "LAST", "ROW"):
            return PAST_LAST
        if self._match_text_seq("TO", "NEXT", "ROW"):
            return TO_NEXT
        if not self._match_text_seq("TO"):
            self.raise_error("expected PAST LAST ROW, TO NEXT ROW, TO FIRST A or TO LAST A behind SKIP")
        where = TO_FIRST if self._match_text_seq("FIRST") else TO_LAST
        self._match_text_seq("LAST")
        name = self._parse_id_var()
        if name is None:
            self.raise_error("expected a variable")
        assert name is not None
        return f"{where} {name.name}"

    def _named(self, value: exp.Expr | None, otherwise: str) -> exp.Alias:
        name = self._parse_id_var() if value is not None and self._match(TokenType.ALIAS) else None
        if name is None:
            self.raise_error(otherwise)
        return exp.Alias(this=value, alias=name)

    def _definition(self) -> exp.Alias:
        name = self._parse_id_var()
        condition = self._parse_disjunction() if name is not None and self._match(TokenType.ALIAS) else None
        if condition is None:
            self.raise_error("expected a variable and its condition: DEFINE A AS v > 1")
        return exp.Alias(this=condition, alias=name)

    # --- PATTERN ---

    def _pattern_clause(self) -> dict[str, Any]:
        if self._match_text_seq("SUBSET"):
            self.raise_error("there is no SUBSET; measures and conditions name each variable", self._prev)
        if not self._match_text_seq("PATTERN"):
            self.raise_error("expected PATTERN (…)")
        self._places: dict[str, int] = {}
        self._match_l_paren()
        part = _settled(self._alternation(), False)
        self._match_r_paren()
        within = self._span("WITHIN") if self._match_text_seq("WITHIN") else None
        ttl: exp.Expr | bool | None = None
        if self._match_text_seq("NO", "TTL"):
            ttl = False
        elif self._match_text_seq("TTL"):
            ttl = self._span("TTL")
        return {"part": part, "places": self._places, "within": within, "ttl": ttl}

    def _alternation(self) -> PatternPart:
        found = self._sequence()
        while self._match(TokenType.PIPE):
            found = found | self._sequence()
        return found

    def _sequence(self) -> PatternPart:
        if self._curr and self._curr.token_type is TokenType.NOT:
            self.raise_error("a pattern begins with a row; ! stands behind one")
        found = self._quantified()
        while True:
            by = _ARROWS.get(self._curr.token_type, NEXT) if self._curr else NEXT
            if by != NEXT:
                self._advance()
            elif self._at_end_of_sequence():
                return found
            found = self._behind(found, by)

    def _at_end_of_sequence(self) -> bool:
        return not self._curr or self._curr.token_type in (TokenType.R_PAREN, TokenType.PIPE, TokenType.COMMA)

    def _behind(self, before: PatternPart, by: str) -> PatternPart:
        if not self._match(TokenType.NOT):
            part = self._quantified()
            return {NEXT: before.next, THEN: before.then, ANY: before.then_any}[by](part)
        bang, negated = self._prev, Var(self._variable())
        if self._match(TokenType.FOR):
            return before.absent(negated, self._timedelta("FOR"))
        if self._at_end_of_sequence() and by != NEXT:
            self.raise_error(f"!{negated.name} at the end says for how long: !{negated.name} FOR INTERVAL '30' MINUTE", bang)
        return before.not_next(negated) if by == NEXT else before.not_then(negated)

    def _quantified(self) -> PatternPart:
        part = self._primary()
        if not self._curr:
            return part
        if self._match(TokenType.DQMARK):
            part = Repeat(part, 0, 1, greedy=False)
        elif (bounds := self._bounds()) is not None:
            part = Repeat(part, *bounds, greedy=not self._match(TokenType.PLACEHOLDER))
            if self._curr and self._curr.token_type in _TIMES:
                self.raise_error("it says how often already; brackets around it may be said how often once more: (A+){3}")
        if self._match_text_seq("GAP"):
            if not isinstance(part, Seq | Repeat | AllOf):
                self.raise_error("GAP is of a group or of what is repeated: (A B) GAP INTERVAL '5' SECOND", self._prev)
            part = part.gap(self._timedelta("GAP"))
        return part

    def _bounds(self) -> tuple[int, int | None] | None:
        if self._match(TokenType.STAR):
            return 0, None
        if self._match(TokenType.PLUS):
            return 1, None
        if self._match(TokenType.PLACEHOLDER):
            return 0, 1
        if not self._match(TokenType.L_BRACE):
            return None
        if self._match(TokenType.DASH):
            self.raise_error("there is no {- -}: measures say what comes out", self._prev)
        least = self._number()
        most = least
        if self._match(TokenType.COMMA):
            most = self._number()
        elif least is None:
            self.raise_error("expected how often: {3}, {3,}, {3,5} or {,5}")
        if not self._match(TokenType.R_BRACE):
            self.raise_error("expected }")
        return least or 0, most

    def _number(self) -> int | None:
        if not self._match(TokenType.NUMBER):
            return None
        if not self._prev.text.isdecimal():
            self.raise_error(f"expected a whole number, got {self._prev.text}", self._prev)
        return int(self._prev.text)

    def _primary(self) -> PatternPart:
        if self._curr and self._curr.text in _REFUSED:
            self.raise_error(_REFUSED[self._curr.text])
        if self._match(TokenType.L_PAREN):
            found = self._alternation()
            self._match_r_paren()
            return found
        if self._curr and self._curr.token_type is TokenType.L_BRACE:
            self._bounds()  # it may be {- -}, which is refused by name
            self.raise_error("expected a variable before how often it comes")
        if self._match_text_seq("PERMUTE"):
            return self._permuted()
        return Var(self._variable())

    def _permuted(self) -> PatternPart:
        """`PERMUTE(A, B)`: in any order, one row behind the other; `PERMUTE(A -> B)`: other rows may be between."""
        self._match_l_paren()
        parts, by = [self._quantified()], ""
        while self._curr and self._curr.token_type is not TokenType.R_PAREN:
            token = self._curr
            here = NEXT if token.token_type is TokenType.COMMA else _ARROWS.get(token.token_type, "")
            if not here or by not in ("", here):
                self.raise_error("expected the same between all parts of PERMUTE: a comma, -> or ->>")
            by = here
            self._advance()
            parts.append(self._quantified())
        self._match_r_paren()
        return AllOf(tuple(parts), by or NEXT)

    def _variable(self) -> str:
        """As it was spelled first: names ignore case."""
        token: Token = self._curr
        name = self._parse_id_var(any_token=False)
        if name is None:
            self.raise_error("expected a variable")
        assert name is not None
        known = next((each for each in self._places if each.casefold() == name.name.casefold()), None)
        if known is None:
            self._places[name.name] = token.start
        return known or str(name.name)

    # --- spans ---

    def _span(self, what: str) -> exp.Expr:
        found = self._parse_interval()
        if not isinstance(found, exp.Interval):
            self.raise_error(f"expected an INTERVAL behind {what}")
        assert found is not None
        return found

    def _timedelta(self, what: str) -> timedelta:
        found = self._span(what)
        assert isinstance(found, exp.Interval)
        return timedelta(microseconds=interval_us(found, self.sql))


def _settled(part: PatternPart, inside: bool) -> PatternPart:
    """A repetition that stands in no sequence is of rows that follow each other, as a blank says."""
    match part:
        case Repeat(item=item):
            by = NEXT if part.by is None and not inside and part.most != 1 else part.by
            return replace(part, item=_settled(item, inside or by is not None), by=by)
        case AnyOf(items=items):
            return replace(part, items=tuple(_settled(each, inside) for each in items))
        case Seq(items=items) | AllOf(items=items):
            return replace(part, items=tuple(each if isinstance(each, Not) else _settled(each, True) for each in items))
    return part
