"""SQL's types as the engine's."""

from __future__ import annotations

from sqlglot import exp

from cep.model.schema import BINARY, BOOL, FLOAT64, INT32, INT64, STRING, DataType, Field, list_of
from driver.streaming_sql.errors import SqlError
from driver.streaming_sql.places import start_of

_TYPES: dict[str, DataType] = {
    "BOOLEAN": BOOL,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT"), INT32),
    "BIGINT": INT64,
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT64),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"), STRING),
    **dict.fromkeys(("BINARY", "VARBINARY", "BLOB", "BYTES"), BINARY),
}
_TIMESTAMPS = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME")
_UNITS = {0: "s", 3: "ms", 6: "us"}
_NAMES = {"bool": "BOOLEAN", "int32": "INT", "int64": "BIGINT", "float64": "DOUBLE", "string": "VARCHAR", "binary": "BYTES"}
KNOWN = "BOOLEAN, INT, BIGINT, DOUBLE, VARCHAR, BYTES, TIMESTAMP(3), ARRAY<…>"


def engine_type(given: exp.DataType, text: str, start: int | None = None) -> DataType:
    """Raises SqlError: the engine has no such type."""
    place = start if start is not None else start_of(given) or 0
    kind = given.this
    name = (
        given.args["kind"].upper() if kind is exp.DType.USERDEFINED else kind.value.upper() if isinstance(kind, exp.DType) else given.sql()
    )
    if name in _TYPES:
        return _TYPES[name]
    if name in _TIMESTAMPS:
        return _timestamp(given, text, place)
    if name in ("ARRAY", "LIST") and given.expressions:
        element = engine_type(given.expressions[0], text, place)
        if not element.is_list:
            return list_of(element)
    if name in ("DECIMAL", "BIGDECIMAL", "MONEY"):
        raise SqlError("SQL-DECIMAL", "there is no DECIMAL", text, place)
    if name in ("STRUCT", "ROW", "MAP", "OBJECT", "JSON", "VARIANT"):
        raise SqlError("SQL-STRUCT", f"there is no {name}", text, place)
    raise SqlError("SQL-TYPE", f"there is no type {name}", text, place, f"one of {KNOWN}")


def _timestamp(given: exp.DataType, text: str, place: int) -> DataType:
    written = given.expressions[0].name if given.expressions else "6"
    digits = int(written) if written.isdecimal() and len(written) < 3 else -1
    if digits not in _UNITS:
        raise SqlError("SQL-TYPE", f"a TIMESTAMP({written})", text, place, "TIMESTAMP(0), TIMESTAMP(3) or TIMESTAMP(6)")
    return DataType("timestamp", _UNITS[digits])


def sql_type(type_: DataType) -> str:
    """As DESCRIBE writes it."""
    if type_.element is not None:
        return f"ARRAY<{sql_type(type_.element)}>"
    if type_.name == "timestamp":
        digits = next((digits for digits, unit in _UNITS.items() if unit == type_.unit), None)
        return "TIMESTAMP" if digits is None else f"TIMESTAMP({digits})"
    return _NAMES[type_.name]


def sql_column(field: Field) -> str:
    return f"{field.name} {sql_type(field.type)}{'' if field.nullable else ' NOT NULL'}"
