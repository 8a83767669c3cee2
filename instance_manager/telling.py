"""When the orchestrator is told of an instance's new state.

At once, mostly. That an instance has ended is worth a report to the metric server and a status in ZooKeeper, upon which the orchestrator
looks at its query: a millisecond and more of four processes, just when the last answers are on their way. So one that has ended where it
has no clients, which would see the end, is told of together with the others of its query here: with the last of them, with one that has
clients, or with the next tick.
"""

from __future__ import annotations

from collections.abc import Callable

from instance_manager.hosting import InstanceHost


class Telling:
    """Used by the engine's thread. `settle`: figures of what is over go to the metric server; `report`: a new state is told."""

    def __init__(self, settle: Callable[[], None], report: Callable[[InstanceHost], None]) -> None:
        self._settle, self._report = settle, report
        self._at_work: dict[str, set[str]] = {}  # query -> keys of its instances here that are not over
        self._ended: dict[str, InstanceHost] = {}  # by key: not told of yet

    def add(self, hosted: InstanceHost) -> None:
        """It is at home."""
        self._at_work.setdefault(hosted.instance.query, set()).add(hosted.key)

    def forget(self, hosted: InstanceHost) -> None:
        """It is not at home any more."""
        self._is_over(hosted)
        self._ended.pop(hosted.key, None)

    def _is_over(self, hosted: InstanceHost) -> None:
        query = hosted.instance.query
        at_work = self._at_work.get(query, set())
        at_work.discard(hosted.key)
        if not at_work:
            self._at_work.pop(query, None)

    def tell(self, hosted: InstanceHost) -> None:
        """Of a new state, an end only when all that it means has been sent."""
        instance = hosted.instance
        if instance.state == "ready" and any(attachment.source.expected for attachment in hosted.attachments):
            return  # it would miss what comes out meanwhile
        told = hosted.tellable
        if told == hosted.reported or (instance.done and any(output.blocked for output in instance.outputs)):
            return
        if not instance.done or hosted.recovery is not None:
            hosted.reported = told
            if instance.done:
                self._is_over(hosted)
                self._settle()
            self._report(hosted)
            return
        self._is_over(hosted)
        self._ended[hosted.key] = hosted
        if instance.state != "ended" or hosted.outlets or instance.query not in self._at_work:
            self._tell_ended(instance.query)

    def _tell_ended(self, query: str | None = None) -> None:
        """Of that query, or of all."""
        there = [hosted for hosted in self._ended.values() if query is None or hosted.instance.query == query]
        if not there:
            return
        self._settle()
        for hosted in there:
            del self._ended[hosted.key]
            hosted.reported = hosted.tellable
            self._report(hosted)

    def tick(self) -> None:
        """What has ended for some time is told of."""
        self._tell_ended()
