"""The formats, by the names that documents have for them."""

from __future__ import annotations

from connectors.contract.formats import ValueFormat
from connectors.formats.avro_values import AvroFormat
from connectors.formats.csv_values import CsvFormat
from connectors.formats.json_values import JsonFormat
from connectors.formats.raw_values import RawFormat
from connectors.formats.tables import ArrowTables, ParquetTables

FORMATS: dict[str, type[ValueFormat]] = {
    "json": JsonFormat,
    "csv": CsvFormat,
    "raw": RawFormat,
    "avro": AvroFormat,
    "arrow": ArrowTables,
    "parquet": ParquetTables,
}
