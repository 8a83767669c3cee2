"""The files of a report, and what is printed of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from hibench.errors import OptionError
from hibench.report.figures import RunFigures
from hibench.report.markdown import markdown
from hibench.report.original import append_csv, append_report
from hibench.report.page import chapters, page


def write_files(runs: Sequence[RunFigures], files: Mapping[str, Path | None]) -> Iterator[Table | str]:
    """Writes the files (option → file); what to print: the key figures, and a line for each file.

    Raises OptionError: one cannot be written.
    """
    for chapter in chapters(runs):
        table = Table("", *(run.label for run in chapter.runs), title=chapter.title)
        for name, texts in chapter.table:
            table.add_row(name, *texts)
        yield table
    for option, file in files.items():
        if file is not None:
            yield _one(option, file, runs)


def _one(option: str, file: Path, runs: Sequence[RunFigures]) -> str:
    try:
        _WRITERS[option](file, runs)
    except OSError as error:
        raise OptionError(f"--{option}: cannot write {str(file)!r}: {error.strerror}") from error
    if option == "csv" and (without := [run.label for run in runs if run.latency is None]):
        return f"wrote {file}; no latencies were measured in: {', '.join(without)}"
    return f"wrote {file}"


def _write_json(file: Path, runs: Sequence[RunFigures]) -> None:
    _write(file, json.dumps({"runs": [run.to_json() for run in runs]}, indent=1) + "\n")


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


_WRITERS: Mapping[str, Callable[[Path, Sequence[RunFigures]], object]] = {
    "html": lambda file, runs: _write(file, page(runs)),
    "markdown": lambda file, runs: _write(file, markdown(runs)),
    "json": _write_json,
    "csv": append_csv,
    "hibench-report": append_report,
}
