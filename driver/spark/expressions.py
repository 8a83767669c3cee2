"""An expression as a Column of Spark, equal to the bit where docs/ARITHMETIC.md says what it computes.

The session runs with ANSI mode on and time zone UTC. Columns have the types of `driver.spark.types`. A row that *fails*
(docs/ARITHMETIC.md) must not end the query: `column` is NULL there, and `failure` says where that is.
"""

from __future__ import annotations

from pyspark.sql import Column, functions

from cep.model import expr as model
from cep.model.expr import Expr
from cep.model.schema import Schema
from driver.spark.refusals import Refused

#: What is refused -> why; a part of the table in docs/SPARK.md.
REFUSED: dict[str, str] = {}


def column(expr: Expr, schema: Schema) -> Column:
    """The value of `expr` over a row with the columns of `schema`, by their names; NULL also where the row fails.

    Raises:
        Refused: Spark has no equal of a part of it; `what` is a key of REFUSED.
    """
    match expr:
        case model.Column(name):
            return functions.col(_quoted(name))
    raise Refused(type(expr).__name__, "no translation")


def failure(expr: Expr, schema: Schema) -> Column | None:
    """Where the row fails: a bool that is never NULL; None if it cannot fail. Raises Refused as `column` does."""
    return None


def _quoted(name: str) -> str:
    """A name with a dot or a backtick in it is one name."""
    return "`" + name.replace("`", "``") + "`"
