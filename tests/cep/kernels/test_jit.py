"""The compilation policy: nothing at import, nothing on the data path, one cache for all processes, never stale."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cep.kernels import jit
from cep.kernels.jit import compilations, compiling, generate, interpreted, nothing_compiles, warm
from tests.support.paths import ROOT
from tests.support.waiting import until

SOURCE = '''
import numpy as np
from cep.kernels.jit import inlined, kernel


@inlined
def twice(x):
    return x * np.uint64(2)


@kernel("int64(const uint8[:], uint64[:])")
def double(data, out):
    """Doubles."""
    for i in range(len(data)):
        out[i] = twice(np.uint64(data[i]))
    return len(data)
'''


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CEP_KERNEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def unique(name: str, value: int) -> str:
    """A source that no other test has generated."""
    return SOURCE + f"\n# {name} {value} {os.getpid()}\n"


def test_compiles_only_when_warmed(cache: Path) -> None:
    before = compilations()
    double = generate(unique("lazy", 1), "test").double
    assert compilations() == before
    warm(double)
    assert compilations() == before + 1
    assert double(np.frombuffer(b"ab", np.uint8), np.zeros(2, np.uint64)) == 2
    assert compilations() == before + 1


def test_first_call_warms(cache: Path) -> None:
    before, out = compilations(), np.zeros(2, np.uint64)
    generate(unique("call", 2), "test").double(np.frombuffer(b"ab", np.uint8), out)
    assert (out.tolist(), compilations()) == ([194, 196], before + 1)


def test_other_types_are_refused_not_compiled() -> None:
    double = generate(SOURCE, "test").double
    with pytest.raises(TypeError):
        double(np.zeros(2, np.int32), np.zeros(2, np.uint64))
    with pytest.raises(TypeError):
        double(np.zeros(2, np.uint8), np.frombuffer(bytes(16), np.uint64))  # read-only where it writes


def test_const_takes_readonly_unaligned_and_mutable() -> None:
    module = generate(SOURCE.replace("const uint8", "const int64"), "test")
    unaligned = np.frombuffer(b"-" + np.arange(3).tobytes(), np.uint8)[1:].view(np.int64)
    assert not unaligned.flags.aligned and not unaligned.flags.writeable
    for values in (unaligned, np.arange(3)):
        out = np.zeros(3, np.uint64)
        module.double(values, out)
        assert out.tolist() == [0, 2, 4]


def test_interpreted_runs_the_source_uncompiled(cache: Path) -> None:
    before, out = compilations(), np.zeros(1, np.uint64)
    with interpreted():
        generate(unique("python", 3), "test").double(np.array([7], np.uint8), out)
    assert (out[0], compilations()) == (14, before)


def test_same_source_is_the_same_module() -> None:
    assert generate(SOURCE, "test") is generate(SOURCE, "test")
    assert generate(SOURCE, "test") is sys.modules[generate(SOURCE, "test").__name__]


def test_source_that_fails_leaves_no_module(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            generate("1 / 0\n", "broken")


def test_folder_that_cannot_be_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CEP_KERNEL_CACHE", str(tmp_path / "file" / "below"))
    folder = jit.kernel_cache_folder()
    assert folder.is_dir() and tmp_path not in folder.parents


COPIED = """
import os, sys
from cep.kernels.jit import kernel_cache_folder
folder = kernel_cache_folder()
if (copy := os.fork()) == 0:
    sys.exit()
os.waitpid(copy, 0)
print(folder, folder.is_dir())
"""


def test_a_folder_of_its_own_goes_with_the_process_and_not_with_a_copy_of_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environment = os.environ | {"CEP_KERNEL_CACHE": str(tmp_path / "file" / "below"), "PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-c", COPIED], env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert said[1] == "True" and not Path(said[0]).exists()


WARM = """
import sys
from pathlib import Path
import numpy as np
from cep.kernels.jit import generate
sys.stdin.read()
double = generate(Path(sys.argv[1]).read_text(), "test").double
out = np.zeros(3, np.uint64)
double(np.frombuffer(b"abc", np.uint8), out)
print(out.tolist())
"""


def start(cache: Path, source: Path) -> Callable[[], str]:
    """A process that imports, waits for its standard input to close, then warms and calls."""
    environment = os.environ | {"CEP_KERNEL_CACHE": str(cache), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WARM, str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    )
    return lambda: process.communicate("")[0]


def test_two_processes_share_an_empty_cache(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(SOURCE)
    processes = [start(tmp_path / "cache", source) for _ in range(2)]
    assert [finish() for finish in processes] == ["[194, 196, 198]\n"] * 2
    machine_code = set((tmp_path / "cache").rglob("*.nb*"))
    assert len(machine_code) == 2  # one index, one kernel
    assert start(tmp_path / "cache", source)() == "[194, 196, 198]\n"
    assert set((tmp_path / "cache").rglob("*.nb*")) == machine_code


def test_who_compiles_one_kernel_holds_up_no_other(cache: Path) -> None:
    """And one that is waited for is told."""
    double = generate(unique("compiled", 5), "test").double
    warm(double)
    locks = list(cache.rglob("*lock"))
    assert len(locks) == 1
    with locks[0].open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        warm(generate(unique("other", 5), "test").double)
        for marker in cache.rglob("double-*.complete"):
            marker.unlink()
        assert not compiling()
        waiting = threading.Thread(target=jit.Kernel(double.function, double.signatures).ready)
        waiting.start()
        until(lambda: compiling() == "double")
    waiting.join()
    assert not compiling()
    assert len(list(cache.rglob("*.nbi"))) == 2


def test_cache_is_named_by_everything_a_kernel_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "cep"
    (package / "kernels").mkdir(parents=True)
    (package / "kernels" / "far.py").write_text("SHIFT = 1\n")
    (package / "kernels" / "near.py").write_text("from cep.kernels.far import SHIFT\n")
    (package / "other.py").write_text("")
    (package / "compiler.py").write_text("")
    kernel = package / "kernels" / "kernel.py"
    kernel.write_text("from cep.kernels.near import SHIFT\n")
    monkeypatch.setattr(jit, "_PACKAGE", package)
    monkeypatch.setattr(jit, "_COMPILER_FILES", [str(package / "compiler.py")])

    def digest() -> str:
        jit._source.cache_clear()
        jit._files.cache_clear()
        jit._sources_digest.cache_clear()
        return jit._sources_digest(str(kernel))

    first = digest()
    (package / "other.py").write_text("changed = 1\n")
    assert digest() == first
    (package / "kernels" / "far.py").write_text("SHIFT = 2\n")
    second = digest()
    (package / "compiler.py").write_text("changed = 1\n")
    assert len({first, second, digest()}) == 3
    jit._files.cache_clear()
    jit._sources_digest.cache_clear()


def test_kernel_that_nobody_warmed_is_found_where_it_is_interpreted(cache: Path) -> None:
    warmed, forgotten = (generate(unique(name, 4), "test").double for name in ("warmed", "forgotten"))
    arguments = np.array([7], np.uint8), np.zeros(1, np.uint64)
    with interpreted():
        warm(warmed)
        with nothing_compiles():
            assert warmed(*arguments) == 1
            with pytest.raises(RuntimeError, match=r"'double' of .* was not warmed"):
                forgotten(*arguments)
        forgotten(*arguments)  # before it is ready anything may be called
        with nothing_compiles():
            forgotten(*arguments)


NEEDED = """
import tempfile
from pathlib import Path
from benchmarks.measured.compile import _plan, LINES, _timed
from cep.dataflow.local import LocalRun
from cep.kernels.jit import compilations
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "visits.csv")
    path.write_text(LINES)
    with _timed() as kernels:
        run = LocalRun(_plan(str(path)))
    before = compilations()
    answers = run.run().batches["answers"]
    assert compilations() == before, "compiled on the data path"
    print(sum(map(len, answers)), *sorted(kernels))
"""


def test_fixed_window_compiles_what_it_runs_and_nothing_later(tmp_path: Path) -> None:
    environment = os.environ | {"CEP_KERNEL_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", NEEDED], env=environment, stdout=subprocess.PIPE, check=True, text=True)
    rows, *kernels = done.stdout.split()
    assert int(rows) > 0
    texts = {"_pack_text", "_fill_long", "_long_lengths", "texts_are"}
    table = {"cut_panes", "fill_slots", "number_pane_groups", "update", "hash_of", "_hash_origins"}
    assert set(kernels) == {"gather", "late", "late_among", "on_time", "parse", "rises"} | texts | table
