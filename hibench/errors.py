"""What can go wrong around a benchmark; a message says what, which one, expected, got, what to do."""

from __future__ import annotations

from cep.errors import CepError


class HibenchError(CepError):
    """Base of the benchmark's own errors; the command prints the message and exits with `exit_code`."""

    exit_code = 3


class OptionError(HibenchError):
    """Yours: an option's value is not one that can be used."""

    exit_code = 2


class CacheError(HibenchError):
    """The surroundings': the cache folder cannot be written, is full, or holds a damaged dataset."""


class EngineError(HibenchError):
    """An engine under test failed, or was lost; the message carries what it said last."""


class RecordError(HibenchError):
    """The record of a run is none, is damaged, or is of another version."""


class AnswersDiffer(HibenchError):
    """An engine's answers are not the reference's. Nothing it measured counts."""

    exit_code = 1


class Regressed(HibenchError):
    """A group of runs is worse than the one it is held against, beyond the noise."""

    exit_code = 1
