"""What Spark cannot express, or not with equal answers. It is said before anything starts; the table in docs/SPARK.md is this one."""

from __future__ import annotations

from cep.errors import QueryError

#: what -> why not. An operator's is refused by `Refused(what, operator, pointer)`, an expression's by `Refused(what)`, whose place
#: is added on the way out. `expressions.REFUSED` has those of expressions.
REFUSED: dict[str, str] = {}


class Refused(QueryError):
    """Yours: the query is sound, but not for Spark. `what` is the key of the table, `operator` the name of what has it."""

    def __init__(self, what: str, why: str, operator: str = "", pointer: str = "") -> None:
        where = f"operator {operator!r}: " if operator else ""
        super().__init__(f"{where}{what} does not run on Spark: {why}", pointer)
        self.what, self.why, self.operator = what, why, operator

    def at(self, operator: str, pointer: str) -> Refused:
        """The same, said of a place: `pointer` leads to it, the error's own on from there."""
        return Refused(self.what, self.why, operator, pointer + self.pointer)
