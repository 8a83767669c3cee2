"""The queries as texts of SQL, in the folder `sql` beside this file.

q6 is no text: it orders winning bids by when they were made, and an auction's winner is known later, when the auction has closed; what is
then known comes out in the order in which it becomes known. The builder's q6 keeps the bids' places by a state of its own.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.nexmark.asked import ANSWERS, STREAMS, Given
from numa_cep import Query, col, sql

FOLDER = Path(__file__).with_name("sql")
NO_TEXT = ("q6",)


def text_of(name: str, given: Given) -> str:
    """The text, with what the query is given."""
    text = (FOLDER / f"{name}.sql").read_text()
    places = {"INTERVAL OPEN": f"INTERVAL '{given.open_ms_max}' MILLISECOND", "FILES": str(given.files), "SIDE": str(given.side_input)}
    for word, value in places.items():
        text = text.replace(word, value)
    return text


def query_of(name: str, given: Given) -> Query:
    """The query that the text makes, with the output of every query."""
    made = sql(text_of(name, given), streams=STREAMS.values(), name=name)
    made = made if made.outputs else made.output(ANSWERS)
    if name == "q12" and given.checked:  # where it is checked, the stamps come out too
        return made.at("arriving").map("stamps", bidder=col("bidder")).output("stamped")
    return made
