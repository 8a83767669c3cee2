"""The one place that knows how and when kernels become machine code.

- `@kernel(signature)` marks an entry point, called from Python only. Nothing compiles at import: `warm` (or the first
  call) compiles the stated signatures and no others, so a call with other types is a TypeError, never a compilation on
  the data path.
- `@inlined` marks a function that kernels call; it is compiled as a part of them and stays a plain Python function for
  the others.
- In signatures `const uint8[:]` is an array that is only read (read-only and unaligned arrays fit: Arrow buffers,
  frames of a message), `uint64[:]` one that is written; `[:, :]` has two dimensions. All are C-contiguous. The rest is
  Numba's notation.
- Machine code is kept in a folder shared by processes (`CEP_KERNEL_CACHE`, else `~/.cache/cep-kernels`, else a private
  folder that dies with the process). Its parts are named by a hash of the kernel's module, of every module of this
  package which that imports, directly or not, and of Numba, NumPy, Python and the CPU: Numba by itself does not notice
  a change in an imported function (numba#9483).
- Kernels are compiled without Numba's reference counting, which costs an atomic add and a call for every look into an array
  (a parser of 12 ns a record took 23 with it), unless they make arrays or pieces of them (`a[i:j]` but `a[i:j] = number`):
  keep those out of kernels that matter.
- Each kernel is compiled under a lock of its own (numba#10128), so that processes compile different ones at the same time and none
  twice; loading what is complete needs none.
- How is in `cep.kernels.machine`, which is imported with Numba when the first kernel is compiled: that takes a quarter of a second, and
  the orchestrator, the metric server and most commands run none. Code that makes what runs a kernel warms it: `nothing_compiles` finds
  where that was forgotten.
- `interpreted()` or `NUMBA_DISABLE_JIT=1` runs the same source uncompiled, `NUMBA_BOUNDSCHECK=1` compiles it with
  checked indices, `CEP_STOCK_NUMBA=1` compiles it as Numba does for all.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = Path(__file__).parent.parent
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(cep(?:\.\w+)*)", re.M)
_ARRAY = re.compile(r"(const )?(\w+)\[(:(?:, :)*)\]")
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_COMPILER, _INSTRUCTIONS = "cep.kernels.machine.pipeline", "cep.kernels.machine.instructions"
_COMPILER_FILES = [str(Path(__file__).parent / "machine" / f"{name}.py") for name in ("pipeline", "instructions")]
_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "") not in ("", "0")

#: What the names of functions begin with that are not inlined.
APART = "apart_"
_GENERATED = "cep_generated_"
_written_by_hand: list[Kernel] = []  # but those `on_demand`
_ready: list[Kernel] = []  # that have machine code
_wanted: set[Kernel] = set()  # those that were warmed while kernels are interpreted
_cache_dir = threading.Lock()  # held while Numba's setting is one kernel's folder
_parts: list[tuple[Callable[..., Any], bool]] = []  # what kernels may call, and is it inlined: what Numba has not been told yet
_accessors: list[tuple[Callable[..., Any], int, int]] = []  # likewise functions that find an array: its number, the width of its lines
_compiling: list[str] = []  # kernels, now
_telling = threading.Lock()  # held until it knows them
_counts = {"compiled": 0, "interpreting": 0, "guarded": 0}


class Kernel:
    """A function over arrays. `function` is its Python source, `signatures` are the types it is compiled for. Callee with arguments that
    fit none of them it raises TypeError."""

    # What a call runs is an attribute, and not looked for at each call: a method in Python costs half of what a kernel for one row does.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], signatures: Sequence[str], on_demand: bool = False) -> None:
        self.function = function
        self.signatures = tuple(signatures)
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._compiled: Callable[..., Any] | None = None
        self._address = 0  # to look for it takes longer than what is called of a small batch
        self.__call__ = self._first
        if not on_demand and not function.__module__.startswith(_GENERATED):
            _written_by_hand.append(self)

    def choose(self) -> None:
        """Of one that is compiled: a call runs the machine code, or, where kernels are interpreted, the source."""
        assert self._compiled is not None
        self.__call__ = self._interpret if interpreting() else self._compiled

    def _first(self, *arguments: Any) -> Any:
        return self._interpret(*arguments) if interpreting() else self.ready()(*arguments)

    def _interpret(self, *arguments: Any) -> Any:
        _note(self)
        with np.errstate(all="ignore"):  # machine integers wrap without a warning
            return self.function(*arguments)

    def ready(self) -> Callable[..., Any]:
        """The machine code, compiled or loaded now if it was not yet."""
        if self._compiled is None:
            self._compiled = _compile(self)
            _counts["compiled"] += len(self.signatures)
            _ready.append(self)
            self.choose()
        return self._compiled

    def address(self) -> int:
        """Where the machine code begins, for kernels that call it (`cep.kernels.machine.addresses`)."""
        if self._address == 0:
            self._address = int(_compiler().address_of(self.ready()))
        return self._address


def kernel(signature: str | Sequence[str], on_demand: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    """Marks an entry point compiled for `signature`, for example `"int64(const uint8[:], int64, uint64[:])"`; `on_demand`: code that builds
    what runs it warms it, since few queries need it."""
    signatures = [signature] if isinstance(signature, str) else signature
    return lambda function: Kernel(function, signatures, on_demand)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Marks a function that kernels may call."""
    _parts.append((function, True))
    return function


def apart(function: Callable[P, R]) -> Callable[P, R]:
    """Marks one that kernels may call and that stays a function of its own, so that a compiler has less to do at a time. Its name begins
    with `APART`."""
    assert function.__name__.startswith(APART)
    _parts.append((function, False))
    return function


def accessor(function: Callable[P, R], number: int, width: int) -> Callable[P, R]:
    """`function` is one of `cep.kernels.machine.addresses.table_at`."""
    _accessors.append((function, number, width))
    return function


def warm(*kernels: Kernel) -> None:
    """Compiles or loads `kernels`; without arguments every hand-written one imported so far but those `on_demand` (code that generates one,
    warms it).

    Does nothing where kernels are interpreted.
    """
    named = kernels or tuple(_written_by_hand)
    if interpreting():
        _wanted.update(named)
        return
    for each in named:
        each.ready()


def compilations() -> int:
    """How many signatures were compiled or loaded in this process; it must not move after *ready*."""
    return _counts["compiled"]


def compiling() -> str:
    """The kernel that this process compiles now, or that another one compiles for it; empty: none."""
    return next(iter(_compiling[-1:]), "")


def count_compilation() -> None:
    """Something else than a kernel was compiled."""
    _counts["compiled"] += 1


def interpreting() -> bool:
    """Do kernels run as plain Python now?"""
    return bool(_counts["interpreting"]) or _DISABLED


@contextmanager
def interpreted() -> Iterator[None]:
    """Inside, kernels run as plain Python, in all threads."""
    if not interpreting():
        _wanted.clear()
    _interpret_more(1)
    try:
        yield
    finally:
        _interpret_more(-1)


def _interpret_more(by: int) -> None:
    was = interpreting()
    _counts["interpreting"] += by
    if interpreting() != was:
        for each in _ready:
            each.choose()


@contextmanager
def nothing_compiles() -> Iterator[None]:
    """Inside, an interpreted kernel that was neither warmed nor called before, outside, is a bug: compiled, it would be compiled there."""
    _counts["guarded"] += 1
    try:
        yield
    finally:
        _counts["guarded"] -= 1


@contextmanager
def others_go_on() -> Iterator[None]:
    """Inside, what is guarded pauses, and what others do is not guarded by it."""
    guarded, _counts["guarded"] = _counts["guarded"], 0
    try:
        yield
    finally:
        _counts["guarded"] = guarded


def _note(kernel: Kernel) -> None:
    if not _counts["guarded"]:
        _wanted.add(kernel)
    elif kernel not in _wanted:
        raise RuntimeError(
            f"kernel {kernel.__name__!r} of {kernel.function.__module__} was not warmed: it would be compiled on the data path"
        )


def generate(source: str, name: str) -> ModuleType:
    """The module of a generated `source`, whose file is named by `name` and a hash of its content.

    A real file, since Numba caches no function that comes from elsewhere (numba#3501).
    """
    module_name = f"{_GENERATED}{name}_{_digest(source.encode())}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    path = _written(kernel_cache_folder() / "generated" / f"{module_name}.py", source)
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def kernel_cache_folder() -> Path:
    """Where machine code and generated sources are kept."""
    return _usable(os.environ.get("CEP_KERNEL_CACHE") or os.path.expanduser("~/.cache/cep-kernels"))


@lru_cache
def _usable(wanted: str) -> Path:
    try:
        Path(wanted, "generated").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return Path(wanted)
    except OSError:
        return _private()


@lru_cache
def _private() -> Path:
    """It goes with this process, and not with one that is a copy of it."""
    private, owner = Path(tempfile.mkdtemp(prefix="cep-kernels-")), os.getpid()
    (private / "generated").mkdir()
    atexit.register(lambda: shutil.rmtree(private, ignore_errors=True) if os.getpid() == owner else None)
    return private


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file gives the lock back


@contextmanager
def no_garbage() -> Iterator[None]:
    """Inside, garbage is not collected: among all that Numba keeps it takes an eighth of the time, and a look after each kernel half of
    that. So code that warms several kernels does it in here."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _written(path: Path, source: str) -> Path:
    if not path.exists():
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".unfinished") as unfinished:
            unfinished.write(source)
            unfinished.flush()
            with suppress(FileExistsError):  # a second writer must not change its mtime: to Numba another source
                os.link(unfinished.name, path)
    return path


def _compile(wanted: Kernel) -> Callable[..., Any]:
    path = Path(inspect.getfile(wanted.function))
    folder = kernel_cache_folder() / _sources_digest(str(path))
    what = _digest(str(path).encode(), wanted.__name__.encode(), repr(wanted.signatures).encode())
    marker = folder / f"{wanted.__name__}-{what}.complete"
    if marker.exists():
        return _compile_in(folder, wanted)
    folder.mkdir(exist_ok=True)
    _compiling.append(wanted.__name__)
    try:
        with _lock(folder / f"{wanted.__name__}.lock"), no_garbage():
            compiled = _compile_in(folder, wanted)
            marker.touch()
    finally:
        _compiling.remove(wanted.__name__)
    return compiled


def _compile_in(folder: Path, wanted: Kernel) -> Callable[..., Any]:
    compiler = _compiler()
    try:
        return _compile_with(compiler, folder, wanted, _nrt=False)
    except compiler.NumbaError:  # it allocates, or is wrong: then it fails again
        return _compile_with(compiler, folder, wanted, _nrt=True)


def _compiler() -> Any:
    """The module `cep.kernels.machine.pipeline`, which has been told all that kernels may call."""
    importlib.import_module("numpy.ma")  # Numba looks into it when a kernel is first called; not on the data path, nor where none runs
    with _telling:
        compiler = importlib.import_module(_COMPILER)
        instructions: Any = importlib.import_module(_INSTRUCTIONS)
        while _accessors:
            instructions.as_accessor(*_accessors.pop())
        while _parts:
            function, is_inlined = _parts.pop()
            compiler.as_part(function, forceinline=is_inlined, **_OPTIONS)
    return compiler


def _compile_with(compiler: Any, folder: Path, wanted: Kernel, **options: bool) -> Callable[..., Any]:
    dispatcher, config = compiler.as_kernel(wanted.function, **_OPTIONS | options), compiler.config
    with _cache_dir:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            dispatcher.enable_caching()  # reads CACHE_DIR now and keeps it
        finally:
            config.CACHE_DIR = before
    for signature in wanted.signatures:
        dispatcher.compile(compiler.normalize_signature(_ARRAY.sub(_array, signature))[0])
    dispatcher.disable_compile()
    compiled: Callable[..., Any] = dispatcher
    return compiled


def _array(match: re.Match[str]) -> str:
    """An array of a signature, as Numba has it."""
    const, dtype, dimensions = match.groups()
    readonly = bool(const)
    return f"Array({dtype}, {dimensions.count(':')}, 'C', readonly={readonly}, aligned={not readonly})"


@lru_cache
def _sources_digest(path: str) -> str:
    """Names the sources that a kernel in the file `path` is made of, and the machine. Paths are texts, for each is looked up and
    compared often while a deployment waits."""
    seen: dict[str, bytes] = {}
    waiting = [path, *_COMPILER_FILES]  # which none imports where it stands
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen[each], imported = _source(each)
            waiting += imported
    return _digest(_compiler().machine(), *(seen[each] for each in sorted(seen)))


@cache
def _source(path: str) -> tuple[bytes, tuple[str, ...]]:
    """What stands in a file, and the files of this package that it imports."""
    content = Path(path).read_bytes()
    return content, tuple(file for name in dict.fromkeys(_IMPORT.findall(content.decode())) for file in _files(name))


@cache
def _files(module: str) -> list[str]:
    """The file of a module of this package; all files of a package, since any of them may be meant."""
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    return sorted(map(str, path.glob("*.py"))) if path.is_dir() else [str(path.with_suffix(".py"))]


def _digest(*parts: bytes) -> str:
    whole = hashlib.blake2b(digest_size=10)
    for part in parts:
        whole.update(len(part).to_bytes(8, "little") + part)
    return whole.hexdigest()
