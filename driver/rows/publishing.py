"""`cep publish`: the rows of a file go to a stream."""

from __future__ import annotations

from io import BufferedReader
from typing import Annotated

import typer

from cep.errors import CepError, DataError, counted
from driver.cluster import Cluster
from driver.configuration.table import URL
from driver.rows.fitting import send_fitting
from driver.rows.row_files import STDIN, RowFileFormat, RowPiece, format_of, pieces_of
from driver.streams.publisher import Publisher
from driver.terminal import Authority, Token, Url, complain, out


def register(app: typer.Typer) -> None:
    """Adds it to the command line."""
    app.command()(publish)


def publish(
    stream: Annotated[str, typer.Argument(help="A stream that is declared.")],
    file: Annotated[typer.FileBinaryRead, typer.Argument(help="JSON Lines, CSV, Parquet or Arrow; `-`: JSON Lines from standard input.")],
    format_: Annotated[RowFileFormat | None, typer.Option("--format", help="Default: as the file's name ends.")] = None,
    keep_open: Annotated[bool, typer.Option("--keep-open", help="Do not end the stream after the last row.")] = False,
    name: Annotated[str | None, typer.Option("--name", help="The publisher's name; the same name goes on where it was.")] = None,
    url: Url = URL,
    token: Token = None,
    ca: Authority = None,
) -> None:
    """Publishes the rows of a file, and ends the stream.

    Rows that do not fit are named with their lines, and the others are sent; then the stream does not end, for it would look complete, and
    the exit status is 1."""
    chosen = format_ or format_of(_name_of(file))
    with Cluster(url, token, ca=ca) as cluster, cluster.publisher(stream, name, keep_open) as publisher:
        sending = FileSending(file, publisher)
        try:
            sending.send(chosen)
        except (CepError, KeyboardInterrupt):
            complain(f"{stream}: broken off after {counted(sending.sent, 'row')}; the stream has not ended")
            raise
        sent = f"{stream}: {counted(sending.sent, 'row')} sent"
        if sending.refused:
            out.print(f"{sent}, {sending.refused:,} refused; the stream has not ended")
            raise typer.Exit(1)
    out.print(sent)


class FileSending:
    """A file on its way to a stream: how many of its rows were `sent`, and how many `refused`, each of which has been named."""

    def __init__(self, file: BufferedReader, publisher: Publisher) -> None:
        self.file, self.name, self.publisher = file, _name_of(file), publisher
        self.sent = self.refused = 0

    def send(self, format_: RowFileFormat) -> None:
        """Raises CepError: it is no file of that format, or the cluster takes no more."""
        try:
            for piece in pieces_of(self.file, format_, self.publisher.stream, self._refuse):
                self._send(piece)
        except DataError as error:
            raise CepError(f"{self.name}: {error}") from None

    def _send(self, piece: RowPiece) -> None:
        """All of its rows but those that do not fit."""

        def send(begin: int, end: int) -> None:
            self.sent += piece.part(begin, end).send_by(self.publisher.send, self.publisher.stream)

        for at, error in send_fitting(len(piece.numbers), send):  # raises where it is said of no row: the columns are others
            self._refuse(piece.numbers[at], str(error).replace(f", row {error.row}:", ":", 1))

    def _refuse(self, number: int, why: str) -> None:
        self.refused += 1
        complain(f"{self.name}:{number}: {why}")


def _name_of(file: BufferedReader) -> str:
    """Standard input need not have one."""
    return str(getattr(file, "name", STDIN))
