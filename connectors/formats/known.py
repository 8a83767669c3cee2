"""The formats, by the names that documents have for them."""

from __future__ import annotations

from connectors.contract.formats import ValueFormat
from connectors.formats.csv_values import CsvFormat
from connectors.formats.json_values import JsonFormat
from connectors.formats.raw_values import RawFormat

FORMATS: dict[str, type[ValueFormat]] = {"json": JsonFormat, "csv": CsvFormat, "raw": RawFormat}
