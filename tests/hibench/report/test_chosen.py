"""Which runs are meant by what they are called."""

import pytest

from hibench.errors import OptionError
from hibench.report.chosen import chosen
from tests.support.run_records import record


def test_runs_are_found_by_what_they_are_called(tmp_path):
    ids = [record(series=series).write(tmp_path).id for series in ("one", "two", "two")]
    found = {name: [each.id[-1] for each in chosen([name], tmp_path)] for name in (ids[0], "2026-11", "*-cep-[23]", "one", "latest")}
    assert found == {ids[0]: ["1"], "2026-11": ["1", "2", "3"], "*-cep-[23]": ["2", "3"], "one": ["1"], "latest": ["2", "3"]}
    assert [each.id for each in chosen([], tmp_path)] == ids[1:]
    assert [each.id for each in chosen([str(tmp_path / ids[2]), ids[0], ids[2]], tmp_path)] == [ids[2], ids[0]]


def test_a_run_that_is_not_there_is_named_with_those_that_are(tmp_path):
    with pytest.raises(OptionError, match=r"run 'latest': expected a folder with 'run.json'.*there is none yet"):
        chosen([], tmp_path)
    record().write(tmp_path)
    with pytest.raises(OptionError, match=r"run 'x': .*one of 1 runs, the latest of which are 2026-11-22T011203-fixed-window-cep-1"):
        chosen(["x"], tmp_path)
