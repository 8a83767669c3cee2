"""What was asked of the orchestrator and is not answered yet. Used by its own thread; the caller waits for a future."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from cep.errors import CepError
from orchestrator.state.cluster_state import ClusterState

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """`act` is called with the state; `answer` gets its result once all is written."""

    act: Callable[[ClusterState], Any]
    answer: Future[Any]


@dataclass(frozen=True, slots=True)
class StateQuestion:
    """`ask` is called after every change, once that is written, until it gives something."""

    ask: Callable[[ClusterState], Any]
    answer: Future[Any]


class PendingAnswers:
    """Results and answers, which wait until what they are of is written."""

    def __init__(self) -> None:
        self._unwritten: list[tuple[Future[Any], Any]] = []
        self._questions: list[StateQuestion] = []

    def act(self, request: Request, state: Callable[[], ClusterState]) -> None:
        """Does what is asked for. `state` raises what is to be answered where nothing can be."""
        answer = request.answer
        if not answer.set_running_or_notify_cancel():
            return
        try:
            self._unwritten.append((answer, request.act(state())))
        except CepError as error:
            answer.set_exception(error)
        except Exception as error:  # a bug in what was asked; the cluster's state is not to blame
            _LOG.exception("a request failed")
            answer.set_exception(error)

    def keep(self, question: StateQuestion) -> None:
        self._questions.append(question)

    def written(self) -> None:
        """All that has been done is written."""
        for answer, result in self._unwritten:
            answer.set_result(result)
        self._unwritten = []

    def look(self, state: ClusterState) -> None:
        """Asks the questions anew."""
        self._questions = [question for question in self._questions if not _answered(question, state)]

    def forget(self) -> None:
        """Questions that nothing waits for any more; where nothing can be written nobody looks at them."""
        self._questions = [question for question in self._questions if not question.answer.cancelled()]

    def refuse(self, error: Exception) -> None:
        """Nothing of it will be answered."""
        waiting = [answer for answer, _ in self._unwritten] + [question.answer for question in self._questions]
        self._unwritten, self._questions = [], []
        for answer in waiting:
            _resolve(answer, error)


def _answered(question: StateQuestion, state: ClusterState) -> bool:
    if question.answer.cancelled():
        return True
    try:
        found = question.ask(state)
    except Exception as error:
        return _resolve(question.answer, error)
    return found is not None and _resolve(question.answer, found)


def _resolve(answer: Future[Any], outcome: Any) -> bool:
    """Gives an outcome, if a caller still waits for it."""
    if not answer.done() and (answer.running() or answer.set_running_or_notify_cancel()):
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)
    return True
