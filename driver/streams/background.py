"""What is asked of the orchestrator on behalf of readers: in a thread of its own, for reading never waits for REST."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Hashable

from cep.errors import CepError

LOG = logging.getLogger(__name__)
Question = Callable[[], None]


class Aside:
    """One thread asks one question after another; it begins with the first. A question tells its answer itself, and what cannot be
    asked because the orchestrator is away is asked again by a caller that still wants to know."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Question] = {}  # in the order in which they came
        self._changed = threading.Condition()
        self._asking = self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, asker: Hashable, question: Question) -> None:
        """From any thread, at once. A question that waits for its answer already is not asked twice."""
        with self._changed:
            if self._closed:
                return
            self._waiting.setdefault(asker, question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="cep-aside", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> None:
        """Returns when nothing is left to ask, or after that time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._asking, timeout_s)

    def close(self) -> None:
        """Asks no more; what is being asked comes to nothing."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while (question := self._next()) is not None:
            try:
                question()
            except CepError:
                pass  # the orchestrator is away, which is no answer: what flows, flows
            except Exception:  # this thread asks for all readers
                LOG.warning("a question was not asked to its end: %s", traceback.format_exc())
            finally:
                with self._changed:
                    self._asking = False
                    self._changed.notify_all()

    def _next(self) -> Question | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            asker = next(iter(self._waiting))
            self._asking = True
            return self._waiting.pop(asker)
