"""What holds the loop of an instance manager, and since when; who is blamed for a death."""

from __future__ import annotations

from cep.service.mark import Page, Seen, Work
from driver.processes.watch import LoopHold, OperatorWatch, at_death

S = 1_000_000_000
POISON = Work("q", "SQ1", 0, "poison")
OTHER = Work("r", "SQ2", 1, "")


def page(since_s: float, work: Work | None = POISON, prepared: Work | None = None) -> Page:
    return Page(1, Seen(int(since_s * S), 1, work), Seen(0, 2, prepared))


def looked(*looks: tuple[float, str, Page]) -> list[tuple[Work | None, float, bool] | None]:
    """(when, the state of the loop's thread, the page) -> what holds it, for how long, and whether it is prepared."""
    watch = OperatorWatch()
    found = [watch.look(page, int(when * S), {1: state, 2: "R"}.__getitem__) for when, state, page in looks]
    return [None if hold is None else (hold.work, round(hold.held_s, 1), hold.prepared) for hold in found]


class TestWatch:
    def test_a_loop_that_comes_round_is_held_by_nobody(self) -> None:
        assert looked(*((when, "R", page(when - 0.4)) for when in (10.0, 10.5, 11.0, 11.5))) == [None] * 4
        assert looked((10.0, "S", page(0.0, None))) == [None]  # it has not begun

    def test_one_that_does_not_is_held_by_its_operator(self) -> None:
        found = looked(*((when, "R", page(9.9)) for when in (10.0, 10.5, 11.0, 11.5)), (12.0, "R", page(11.9)))
        assert found == [None, None, (POISON, 1.1, False), (POISON, 1.6, False), None]

    def test_or_by_itself(self) -> None:
        assert looked(*((when, "S", page(8.0, None)) for when in (10.0,))) == [(None, 2.0, False)]

    def test_a_stopped_process_is_held_by_nobody(self) -> None:
        stopped = [(when / 2, "T", page(9.9)) for when in range(21, 100)]
        assert looked((10.0, "R", page(9.9)), *stopped, (50.0, "R", page(9.9))) == [None] * 81

    def test_nor_is_one_whose_supervisor_was_stopped(self) -> None:
        assert looked((10.0, "R", page(9.9)), (70.0, "R", page(9.9)), (70.5, "R", page(9.9))) == [None, None, (POISON, 1.1, False)]

    def test_the_time_of_a_stop_is_no_excuse_for_what_came_later(self) -> None:
        stopped = [(when / 2, "T", page(9.9)) for when in range(21, 60)]
        later = [(when / 2, "R", page(29.9)) for when in range(60, 64)]
        assert looked((10.0, "R", page(9.9)), *stopped, *later)[-2:] == [(POISON, 1.1, False), (POISON, 1.6, False)]

    def test_what_is_prepared_holds_a_loop_that_does_not_run(self) -> None:
        blocked = [(10 + step / 2, "S", page(9.9, None, OTHER)) for step in range(4)]
        assert looked(*blocked)[-1] == (OTHER, 1.6, True)
        assert looked(*blocked[:2], (11.0, "R", page(9.9, POISON, OTHER)), (11.5, "S", page(9.9, POISON, OTHER)))[-1] == (
            POISON,
            1.6,
            False,
        )

    def test_who_is_blamed_for_a_death(self) -> None:
        assert at_death(page(1.0, None)) is None
        assert at_death(page(1.0)) == LoopHold(POISON, 0.0)
        assert at_death(page(1.0, POISON, OTHER)) == LoopHold(OTHER, 0.0, prepared=True)

    def test_it_is_said_in_words(self) -> None:
        assert str(LoopHold(POISON, 2.0)) == "operator 'poison' (SQ1/0 of query 'q')"
        assert str(LoopHold(OTHER, 2.0, prepared=True)) == "the preparation of SQ2/1 of query 'r'"
        assert str(LoopHold(None, 2.0)) == "its own loop"
