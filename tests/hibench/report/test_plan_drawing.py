"""A plan as a drawing: what stands left of what, and that nothing lies over another."""

from hibench.report.plan_drawing import plan_drawing
from tests.support.run_records import PLAN


def test_a_plan_is_drawn_from_left_to_right():
    drawing = plan_drawing(PLAN)
    left = {box.name: box.x for box in drawing.boxes}
    assert left["stream visits"] < left["SQ1"] < left["SQ2"] < left["output per_ip"]
    assert [arrow.label for arrow in drawing.arrows] == [("round-robin",), ("route-key", "by ip", "partials"), ("point-to-point",)]
    assert all(box.x >= 0 and box.x + box.width <= drawing.width and box.y + box.height <= drawing.height for box in drawing.boxes)


def test_boxes_of_a_join_do_not_overlap():
    """Two streams into two subqueries, both into a third."""
    inner = {"port": 0, "balancer": "broadcast", "fields": [], "table": None, "partial": False, "late": False}
    flat = {"stateful": False, "pre_aggregates": [], "parallelism": 1}
    plan = {
        **PLAN,
        "subqueries": [
            {"name": "SQ1", "operators": ["a"], "streams": ["left"], **flat},
            {"name": "SQ2", "operators": ["b"], "streams": ["right"], **flat},
            {"name": "SQ3", "operators": ["join"], "streams": [], **flat},
        ],
        "edges": [
            {"name": "1", "source": "left", "producer": "left", "target": "SQ1", "consumer": "left", **inner},
            {"name": "2", "source": "right", "producer": "right", "target": "SQ2", "consumer": "right", **inner},
            {"name": "3", "source": "SQ1", "producer": "a", "target": "SQ3", "consumer": "join", **inner},
            {"name": "4", "source": "SQ2", "producer": "b", "target": "SQ3", "consumer": "join", **inner},
            {"name": "5", "source": "SQ3", "producer": "join", "target": "", "consumer": "joined", **inner},
        ],
    }
    boxes = plan_drawing(plan).boxes
    assert len(boxes) == 6
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
