"""What the description of an operator answers: all that readers of documents, the planner, and a person ask of it.

A kind of operator is a frozen dataclass in a file of its own in `cep/model/operators`, and a line of the registry there. Of what kind an
operator is ask: what runs it (`cep/dataflow/operators/factory.py`, `cep/compile/chain/steps.py`, Spark's translation); what only an
Aggregate or a Lookup has (`cep/plan/pre_aggregate.py`, `orchestrator/file_sources.py`). Nothing else does. An answer that is missing is an
error of the type checker, and of the import of the registry.

Bases answer what follows from a shape or from having no state. No other answer has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from inspect import isabstract

from cep.model.checked import Checked
from cep.model.contract.forms import Form
from cep.model.expr import Expr
from cep.model.functions import Order
from cep.model.schema import Schema
from cep.model.windows import PanedWindow, SizeWindow

Fields = tuple[tuple[str, Expr], ...]
#: Names of columns that an operator yields -> those of them that are read.
Wanted = Callable[[Iterable[str]], Collection[str]]


class Origins(Enum):
    """Where the origin of a tuple that comes out is from: the second part of the stream's order."""

    KEPT = "of the tuple that it is made of"
    NUMBERED = "of the tuple that it is made of, and an ordinal behind"
    HASHED = "of the operator, the key and the window"
    FOLDED = "of both tuples that it is made of"


class Operator(Checked, ABC):
    """One operator of a query. `inputs` name operators, branches of a Demux (`demux.branch`) or streams."""

    name: str
    inputs: tuple[str, ...]

    # The document

    @staticmethod
    @abstractmethod
    def keys() -> Mapping[str, Form]:
        """The keys of its document, all but `name` and `type`, in order. What has a default may be left out."""

    @property
    @abstractmethod
    def input_keys(self) -> tuple[str, ...]:
        """Where in its document each of its inputs stands."""

    # What it is in a query

    @property
    @abstractmethod
    def branches(self) -> tuple[str, ...]:
        """The names under which others read what it yields."""

    @abstractmethod
    def in_full(self) -> tuple[Operator, ...]:
        """What it is said for short for, in topological order; otherwise itself."""

    @abstractmethod
    def explained(self) -> str:
        """What it does, in a few words."""

    # What it yields

    @abstractmethod
    def output_schema(self, *inputs: Schema) -> Schema:
        """The schema of what it yields from inputs of these schemas. Raises QueryError, its pointer relative to the operator's document."""

    @abstractmethod
    def reads(self, port: int, names: tuple[str, ...], wanted: Wanted) -> Collection[str]:
        """The columns, of those that its input `port` has, that it reads or passes on to a reader."""

    @abstractmethod
    def passes(self, column: str) -> tuple[str, ...] | None:
        """The column of each input whose values come out unchanged as `column`, in every tuple that it yields. None: there is none."""

    @property
    @abstractmethod
    def expected_yield(self) -> float:
        """How many tuples come out for each that goes in, as far as the description says: a guess, by which instances are placed."""

    @property
    @abstractmethod
    def keeps_time(self) -> bool:
        """Has a tuple that comes out the event time of the tuple that it is made of?"""

    @property
    @abstractmethod
    def origins(self) -> Origins: ...

    @property
    @abstractmethod
    def repeats(self) -> bool:
        """May several tuples come out with the origin of one? At the ends of several windows, or of several windows with one last tuple."""

    # What it remembers, and waits for

    @property
    @abstractmethod
    def stateful(self) -> bool: ...

    @property
    @abstractmethod
    def key(self) -> tuple[tuple[str, ...], ...]:
        """What brings tuples together that have to meet: for each field, its column of each input. Empty: it has none."""

    @property
    @abstractmethod
    def everywhere(self) -> int | None:
        """The input whose tuples may go to every instance while those of the other are shared out. None: no instance could answer so."""

    @property
    @abstractmethod
    def why_together(self) -> str:
        """Why all its tuples have to come to one instance, unless one input is shared out; empty where they need not."""

    @property
    @abstractmethod
    def row_order(self) -> Order:
        """What it needs to know of the order of its tuples."""

    @abstractmethod
    def reads_origins(self, times: Collection[str]) -> bool:
        """Does an answer depend on the origins of its tuples? `times` are their columns that are their event time."""

    @abstractmethod
    def grain(self, below: int) -> int:
        """µs; all watermarks that it, or an operator below, waits for are multiples of it. `below`: that of those; 0: none waits."""

    @property
    @abstractmethod
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        """The windows that may overlap, by their keys in the document."""

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """Paths that it reads where it runs."""


class OneInput(Operator):
    """An operator over tuples of one input."""

    input: str

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]  # as a field of a frozen dataclass, it cannot be set
        return (self.input,)

    @property
    def input_keys(self) -> tuple[str, ...]:
        return ("input",)

    @property
    def branches(self) -> tuple[str, ...]:
        return (self.name,)

    def in_full(self) -> tuple[Operator, ...]:
        return (self,)

    @property
    def everywhere(self) -> int | None:
        return None

    @property
    def expected_yield(self) -> float:
        return 1.0


class TwoInputs(Operator):
    """An operator over tuples of two inputs, which may be one and the same."""

    left: str
    right: str

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]  # as a field of a frozen dataclass, it cannot be set
        return (self.left, self.right)

    @property
    def input_keys(self) -> tuple[str, ...]:
        return ("left", "right")

    @property
    def branches(self) -> tuple[str, ...]:
        return (self.name,)

    def in_full(self) -> tuple[Operator, ...]:
        return (self,)

    @property
    def expected_yield(self) -> float:
        return 1.0


class EachAlone(Operator):
    """What it makes of a tuple depends on no other of that input: so they may come in any order, and nothing brings them together."""

    @property
    def repeats(self) -> bool:
        return False

    @property
    def key(self) -> tuple[tuple[str, ...], ...]:
        return ()

    @property
    def row_order(self) -> Order:
        return Order.COMMUTATIVE

    def reads_origins(self, times: Collection[str]) -> bool:
        return False

    @property
    def windows(self) -> Mapping[str, PanedWindow | SizeWindow]:
        return {}


class Stateless(EachAlone):
    """It remembers nothing of a tuple when the next one comes: so tuples may come to any instance."""

    @property
    def expected_yield(self) -> float:
        return 1.0

    @property
    def stateful(self) -> bool:
        return False

    @property
    def everywhere(self) -> int | None:
        return None

    @property
    def why_together(self) -> str:
        return ""

    def grain(self, below: int) -> int:
        return below


NO_KEY = "has no group-by, so all its rows belong together"


class Grouped(OneInput):
    """It has state for each group of tuples with equal columns `by`."""

    by: tuple[str, ...]

    @property
    def stateful(self) -> bool:
        return True

    @property
    def key(self) -> tuple[tuple[str, ...], ...]:
        return tuple((column,) for column in self.by)

    @property
    def why_together(self) -> str:
        return "" if self.by else NO_KEY

    @property
    def files(self) -> tuple[str, ...]:
        return ()


def registry(**kinds: type[Operator]) -> Mapping[str, type[Operator]]:
    """The kinds by what documents call them. Raises TypeError: an answer is missing."""
    for name, kind in kinds.items():
        if isabstract(kind):
            missing = ", ".join(sorted(kind.__abstractmethods__))
            raise TypeError(f"operator {name!r}: {kind.__name__} lacks {missing}; a description answers all that `Operator` asks")
    return kinds
