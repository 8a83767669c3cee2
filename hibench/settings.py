"""A configuration file with the keys of the original HiBench: which of them mean something here, and which do not, and why.

A line is a key and its value, with blanks, `=` or `:` between them; `#` begins a comment. A key that is not HiBench's is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from hibench.errors import OptionError

_STREAM = "hibench.streambench."
_CASES = {"identity": "identity", "repartition": "repartition", "wordcount": "wordcount", "fixwindow": "fixed-window"}
_LINE = re.compile(r"(?P<key>[^\s=:]+)\s*[\s=:]?\s*(?P<value>.*)")
_NOTHING = {"": "has no value", "-1": "endless runs end here: see --events"}
"""What a value that says nothing here says to people."""


@dataclass(frozen=True)
class Setting:
    """One line of a file: where it stands, and what it says."""

    file: Path
    line: int
    key: str
    value: str

    def refused(self, expected: str) -> OptionError:
        return OptionError(f"{self.file}, line {self.line}: {self.key}: expected {expected}, got {self.value!r}")


@dataclass(frozen=True)
class Settings:
    """What a file says: option of `hibench run` → value, and for people what was applied and what was not."""

    options: Mapping[str, str]
    applied: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def read_settings(file: Path, faithful: bool) -> Settings:
    """The settings of `file`; those of the original's sender are for the `faithful` mode alone.

    Raises OptionError, with file and line: it cannot be read, a key is unknown, a value makes no sense.
    """
    settings = _lines(file)
    options: dict[str, str] = {}
    applied, ignored = [], []
    for setting in settings.values():
        reason = _reason(setting, faithful)
        if reason:
            ignored.append(f"{setting.key}: {reason}")
            continue
        found = _APPLIED[setting.key](setting)
        options |= found
        applied.append(_told(f"{setting.key} {setting.value}", found))
    if faithful and (found := _sender(settings)):
        options |= found
        applied.append(_told("the keys of the sender together", found))
    return Settings(options, tuple(applied), tuple(ignored))


def _told(what: str, options: Mapping[str, str]) -> str:
    """`what`, and the options that it comes to."""
    return f"{what} ({' '.join(f'--{name} {value}' for name, value in options.items())})" if options else what


def _lines(file: Path) -> dict[str, Setting]:
    """By key; the last line with a key counts, as in the original."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--config: cannot read {str(file)!r}: {getattr(error, 'strerror', None) or error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line.strip())
        if match and not line.lstrip().startswith("#"):
            setting = Setting(file, number, match["key"], match["value"].strip())
            _expect_known(setting)
            found[setting.key] = setting
    return found


def _expect_known(setting: Setting) -> None:
    known = {*_APPLIED, *_SENDER, *_IGNORED}
    if setting.key in known or setting.key.startswith(tuple(_FAMILIES)):
        return
    near = get_close_matches(setting.key, known, n=1, cutoff=0.0)
    raise OptionError(f"{setting.file}, line {setting.line}: unknown key {setting.key!r}; the nearest that is known is {near[0]!r}")


def _reason(setting: Setting, faithful: bool) -> str:
    """Why a setting is not applied; '' if it is."""
    if setting.key in _IGNORED:
        return _IGNORED[setting.key]
    if setting.key in _SENDER and not faithful:
        return "a rate of records is for --mode faithful; without it files are read as fast as they can be, or see --rate"
    if setting.key in _APPLIED:
        return _NOTHING.get(setting.value, "")
    return next(reason for family, reason in _FAMILIES.items() if setting.key.startswith(family))


# --- what is applied -------------------------------------------------------------------------------------------------


def _case(setting: Setting) -> dict[str, str]:
    if setting.value not in _CASES:
        raise setting.refused(f"one of {', '.join(_CASES)}")
    return {"workload": _CASES[setting.value]}


def _milliseconds(option: str) -> Callable[[Setting], dict[str, str]]:
    return lambda setting: {option: f"{_number(setting)}ms"}


def _count(option: str) -> Callable[[Setting], dict[str, str]]:
    return lambda setting: {option: str(_number(setting))}


def _master(setting: Setting) -> dict[str, str]:
    if not setting.value.startswith(("local", "spark://")):
        raise setting.refused("local[N] or spark://host:port (there is no YARN here)")
    return {"master": setting.value}


def _number(setting: Setting) -> int:
    if not setting.value.isdecimal() or int(setting.value) < 1:
        raise setting.refused("a whole number of at least 1")
    return int(setting.value)


def _nothing_yet(setting: Setting) -> dict[str, str]:
    """Part of what `_sender` puts together."""
    return {}


def _sender(settings: Mapping[str, Setting]) -> dict[str, str]:
    """The original's sender: `producers` of them send `records` each, every `span` ms, for so many rounds."""
    if not settings.keys() & _SENDER.keys():
        return {}
    said = {key: setting for key, setting in settings.items() if setting.value not in _NOTHING}
    span, records, producers, rounds = (_number(said[key]) if key in said else default for key, default in _SENDER.items())
    together = records * producers
    events = {"events": str(rounds * together)} if rounds else {}
    return {"rate": str(max(1, together * 1000 // span)), "burst": str(together), **events}


_SENDER: dict[str, int] = {
    f"{_STREAM}datagen.intervalSpan": 50,
    f"{_STREAM}datagen.recordsPerInterval": 5,
    f"{_STREAM}datagen.producerNumber": 1,
    f"{_STREAM}datagen.totalRounds": 0,
}
"""Key → the original's default, 0: endless; in the order in which `_sender` takes them."""

_APPLIED: dict[str, Callable[[Setting], dict[str, str]]] = {
    f"{_STREAM}testCase": _case,
    f"{_STREAM}fixWindowDuration": _milliseconds("window"),
    f"{_STREAM}fixWindowSlideStep": _milliseconds("slide"),
    f"{_STREAM}datagen.recordLength": _count("record-bytes"),
    f"{_STREAM}datagen.totalRecords": _count("events"),
    "hibench.engines.spark.master": _master,
    **dict.fromkeys(_SENDER, _nothing_yet),
}

# --- what is not -----------------------------------------------------------------------------------------------------

_KAFKA = "there is no Kafka here: records come from files or from our own sender"
_SEED = "records are made from a seed (--seed) and kept in the cache (--cache)"
_ALL_SAMPLES = "every latency is kept, and read by `hibench report`"
_SPARK_STREAMING = "of Spark's older streaming interface; here it is Structured Streaming, with its own defaults"
_OTHER_ENGINE = "an engine that is not run here"
_BATCH = "of HiBench's batch half"

_IGNORED = {
    **dict.fromkeys(
        (f"{_STREAM}kafka.{name}" for name in ("topic", "home", "brokerList", "consumerGroup", "topicPartitions", "offsetReset")), _KAFKA
    ),
    f"{_STREAM}zkHost": "the engine brings a ZooKeeper of its own",
    f"{_STREAM}debugMode": "answers are always checked",
    f"{_STREAM}sampleProbability": "of the unfinished workload 'sample'",
    **dict.fromkeys(
        (f"{_STREAM}datagen.{name}" for name in ("dir", "data1.name", "data1.dir", "data2_cluster.dir", "data2_samples.dir")), _SEED
    ),
    **dict.fromkeys((f"{_STREAM}metricsReader.{name}" for name in ("sampleNum", "threadNum")), _ALL_SAMPLES),
    f"{_STREAM}metricsReader.outputDir": "records of runs are kept in the cache (--cache)",
    **dict.fromkeys(
        (
            f"{_STREAM}spark.{name}"
            for name in ("batchInterval", "receiverNumber", "storageLevel", "enableWAL", "checkpointPath", "useDirectMode")
        ),
        _SPARK_STREAMING,
    ),
    "hibench.default.map.parallelism": "parallelism follows the cores: see --instances",
    "hibench.default.shuffle.parallelism": "parallelism follows the cores: see --instances",
    "hibench.scale.profile": "say how many records with --events",
    "hibench.home": _BATCH,
    "hibench.masters.hostnames": "a run is on this machine, or on the Spark cluster of --master",
    "hibench.slaves.hostnames": "a run is on this machine, or on the Spark cluster of --master",
}

_FAMILIES = {
    **dict.fromkeys((f"{_STREAM}{engine}" for engine in ("flink.", "flinkbench.", "storm.", "stormbench.", "gearpump.")), _OTHER_ENGINE),
    "hibench.flink.": _OTHER_ENGINE,
    **dict.fromkeys(("hibench.yarn.", "hibench.engines.spark.yarn.", "hibench.hdfs.", "hibench.hadoop."), "there is no Hadoop here"),
    **dict.fromkeys(("hibench.engines.spark.", "spark."), "Spark comes with the package, and is configured by it"),
    "hibench.report.": "records of runs are kept in the cache (--cache)",
    **dict.fromkeys(
        (
            f"hibench.{what}."
            for what in (
                "workload",
                "configure",
                "hibench",
                "common",
                "sparkbench",
                "hive",
                "hivebench",
                "bayes",
                "mahout",
                "nutch",
                "dfsioe",
            )
        ),
        _BATCH,
    ),
    "sparkbench.": _BATCH,
}
"""Beginning of a key → why none of those keys is applied."""
