"""What is reported of an instance at work."""

from __future__ import annotations

from typing import Any

from cep.dataflow.channel import WatermarkMerge
from cep.dataflow.instance import SubqueryInstance
from cep.elements import MAX_TIME, MIN_TIME, describe_time
from cep.service.mark import label_of


def watermark_of(instance: SubqueryInstance) -> int:
    """The least watermark of its inputs."""
    promised = [source.watermark for source, _ in instance.sources] + [i.merge.combined for i in instance.inputs]
    return min(promised, default=MAX_TIME)


def notes_of(instance: SubqueryInstance) -> list[str]:
    """What is slow in it, and why."""
    return [f"operator {node.operator.name!r}: {note}" for node in instance.nodes for note in getattr(node.operator, "notes", ())]


def unused_of(instance: SubqueryInstance) -> dict[str, Any]:
    """What it has not used of its input (`orchestrator.records.Unused`)."""
    sources = [source for source, _ in instance.sources]
    return {
        "late": sum(source.late_rows for source in sources),
        "odd_times": sum(source.odd_times for source in sources),
        "before_since": sum(source.before_since for source in sources),
        "dead_letters": {each: count for each, count in sorted(instance.dead_letters.counts.items()) if count},
    }


def mark_label(instance: SubqueryInstance) -> bytes:
    """What `cep.service.mark` shows of it."""
    return label_of(instance.query, instance.subquery, instance.index, [node.operator.name for node in instance.nodes])


def waits_for(instance: SubqueryInstance, now_us: int) -> str:
    """Why nothing comes out, in one line. `now_us`: the clock."""
    blocked = [output.name for output in instance.outputs if output.blocked]
    if instance.done or blocked:
        return f"credit on {', '.join(blocked)}" if blocked else f"nothing: it has {instance.state}"
    if instance.state == "arriving":
        return "the state that it had at its old place"
    return instance.alignment.waits_for or _slowest_input(instance, now_us)


def _slowest_input(instance: SubqueryInstance, now_us: int) -> str:
    waiting = [(source.watermark, source.waits_for(now_us)) for source, _ in instance.sources]
    waiting += [(i.merge.combined, _described(i.merge)) for i in instance.inputs]
    watermark, slowest = min(waiting, default=(MAX_TIME, "nothing"))
    ends = [(node.stateful.next_end, node.operator.name) for node in instance.nodes if node.stateful is not None]
    if answering := [(end, name) for end, name in ends if end is not None]:
        end, name = min(answering)
        return f"watermark {describe_time(end)}, at which operator {name!r} answers; now {describe_time(watermark)}; slowest: {slowest}"
    return slowest if watermark == MIN_TIME else f"{slowest}, at watermark {describe_time(watermark)}"


def _described(merge: WatermarkMerge) -> str:
    """The channel that others wait for."""
    slowest = merge.slowest()
    return f"channel {slowest}{', which is idle' if slowest in merge.idle else ''}"
