"""How rows look as bytes, apart from what carries them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import pyarrow as pa

from connectors.contract.options import ConnectorOptions


@dataclass(slots=True)
class Decoded:
    """Of values what rows they are: `runs`, each the index of its first value and a row for each value from there on. What is no row is in
    `bad`, with the reason."""

    runs: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)


class ValueFormat(ConnectorOptions):
    """A format, with its options as fields. A value is one record."""

    suffix: ClassVar[str]
    """Of a file's name."""

    text: ClassVar[bool] = False
    """Is a value a text in UTF-8?"""

    def check(self, schema: pa.Schema) -> None:
        """Raises ValueError: it cannot hold rows of that schema."""

    @abstractmethod
    def decode(self, values: Sequence[bytes], schema: pa.Schema) -> Decoded:
        """Columns of timestamps may come as integers, which are of the unit that the stream declares."""

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> list[bytes]:
        """A value for each row."""

    # In files a value is a line

    def head(self, schema: pa.Schema) -> bytes:
        """What a file begins with."""
        return b""

    def begun(self, first: bytes) -> Self | None:
        """How the rest of a file is read whose first value is that; None: that is a record already."""
        return None

    def ends(self, line: bytes) -> bool:
        """Is a value complete that goes on to the end of this line? Else it has a line's end in it."""
        return True
