"""The record: what may be next, with a clock of the test's own and no process at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.orchestrator.order import BadRun, Ending, Limits, Task
from fixtures.orchestrator.record import LOST_AFTER_S, Record, Stale, Twice, Unknown

LIMITS = Limits(lease_s=5.0, grace_s=2.0, heartbeat_every_s=1.0, attempts=2)
LOST_S = 5.0 + 2.0 + LOST_AFTER_S
ENDED_WELL, ENDED_BADLY = Ending("ended", 0), Ending("ended", 1)
DIED = Ending("the bridge died", None, killed=True, workspace="rebuilt")


class _Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def record(tmp_path: Path, clock: _Clock) -> Iterator[Record]:
    made = Record(tmp_path / "record.sqlite", clock)
    yield made
    made.close()


def _submit(record: Record, run: str, *, task: str = "", workspace: str = "", limits: Limits = LIMITS) -> None:
    record.submit(Task(run, task or run, ("true",), {}, Path(workspace or f"/w/{run}"), Path("/s"), limits), 1)


def _claim(record: Record, after: int = 0) -> tuple[str, int, bool] | None:
    order = record.claim("owner", after)
    return None if order is None else (order.task.id, order.attempt, order.rebuild)


def _state(record: Record, run: str = "a") -> str:
    return str(record.run(run)["state"])


@pytest.mark.parametrize(
    ("cancelled", "ending", "state"),
    [
        pytest.param(False, ENDED_WELL, "succeeded", id="a status of 0 is a success"),
        pytest.param(False, Ending("ended", 0, killed=True), "failed", id="a status of 0 is none where something had to be killed"),
        pytest.param(True, ENDED_WELL, "cancelled", id="a status of 0 after a cancel is none"),
        pytest.param(True, Ending("cancel", 0), "cancelled", id="a cancel is one whatever the leader's status"),
        pytest.param(True, ENDED_BADLY, "cancelled", id="what was asked to end and ended is cancelled"),
        pytest.param(True, Ending("the time limit"), "failed", id="a cancel that never arrived is not what ended it"),
    ],
)
def test_what_a_report_makes_of_a_run(record: Record, cancelled: bool, ending: Ending, state: str) -> None:
    _submit(record, "a", limits=Limits())
    _claim(record)
    if cancelled:
        assert record.cancel("a") == "cancelling"
    assert record.report(1, ending) == state
    assert record.report(1, DIED) == state, "a report that comes again changes nothing"
    assert record.cancel("a") == state


def test_what_is_queued_is_cancelled_at_once_and_never_claimed(record: Record) -> None:
    _submit(record, "a")
    assert record.cancel("a") == "cancelled"
    assert _claim(record) is None


def test_an_id_is_submitted_once_and_an_unknown_one_is_said_to_be(record: Record) -> None:
    _submit(record, "a")
    with pytest.raises(Twice):
        _submit(record, "a")
    with pytest.raises(Unknown):
        record.cancel("b")
    with pytest.raises(Unknown):
        record.heartbeat(7, "", (1, 1))


def test_a_failed_attempt_is_followed_by_another_as_often_as_allowed(record: Record) -> None:
    _submit(record, "a")
    assert _claim(record) == ("a", 1, False)
    assert record.report(1, DIED) == "queued"
    assert _claim(record, 1) == ("a", 2, False)
    assert record.report(2, ENDED_BADLY) == "failed"


def test_a_cancelled_run_is_not_started_again(record: Record) -> None:
    _submit(record, "a")
    _claim(record)
    record.cancel("a")
    assert record.report(1, DIED) == "failed"
    assert _claim(record, 1) is None


@pytest.mark.parametrize(("left", "rebuild"), [("clean", False), ("rebuilt", False), ("untrusted", True)])
def test_a_workspace_that_was_not_built_anew_is_built_before_the_next_attempt(record: Record, left: str, rebuild: bool) -> None:
    _submit(record, "a", workspace="/w/one")
    _submit(record, "b", workspace="/w/one")
    _claim(record)
    record.report(1, Ending("ended", 0, killed=left != "clean", workspace=left))
    order = record.claim("owner", 1)
    assert order is not None
    assert order.rebuild is (rebuild)


def test_an_order_that_was_lost_on_the_way_is_given_again_to_its_owner_only(record: Record) -> None:
    _submit(record, "a")
    first = _claim(record, after=0)
    assert record.claim("somebody else", 0) is None
    assert _claim(record, after=0) == first
    assert _claim(record, after=1) is None


def test_a_heartbeat_is_answered_by_the_state_of_its_run(record: Record, clock: _Clock) -> None:
    _submit(record, "a")
    _claim(record)
    assert record.heartbeat(1, "0", (5, 6)) == "go on"
    record.cancel("a")
    clock.now_s = 103.0
    assert record.heartbeat(1, "1", (5, 6)) == "cancel"
    record.report(1, Ending("cancel"))
    clock.now_s = 104.0
    assert record.heartbeat(1, "1", (5, 6)) == "lost lease"
    assert [(row["at_s"], row["answer"]) for row in record.heartbeats("a")] == [(100.0, "go on"), (103.0, "cancel"), (104.0, "lost lease")]
    (attempt,) = record.attempts("a")
    assert (attempt["bridge_pid"], attempt["bridge_start"], attempt["progress_s"]) == (5, 6, 103.0)


def test_the_end_of_a_lease_alone_starts_nothing(record: Record, clock: _Clock) -> None:
    _submit(record, "a")
    _claim(record)
    clock.now_s += LOST_S - 0.1
    assert _claim(record, 1) is None
    assert record.heartbeat(1, "", (1, 1)) == "go on", "who was slow and is alive may go on"


def test_a_lost_attempt_is_made_again_and_what_is_heard_of_it_then_is_stale(record: Record, clock: _Clock) -> None:
    _submit(record, "a")
    _claim(record)
    clock.now_s += LOST_S
    assert _claim(record, 1) == ("a", 2, True)
    assert record.heartbeat(1, "", (1, 1)) == "lost lease"
    with pytest.raises(Stale):
        record.report(1, ENDED_WELL)
    assert _state(record) == "running"
    assert record.report(2, ENDED_WELL) == "succeeded"


def test_a_lost_attempt_of_a_cancelled_run_ends_it(record: Record, clock: _Clock) -> None:
    _submit(record, "a")
    _claim(record)
    record.cancel("a")
    clock.now_s += LOST_S
    assert _claim(record, 1) is None
    assert (_state(record), record.run("a")["why"]) == ("failed", "lost: its platform never said how it ended")


def test_a_record_that_is_opened_again_goes_on(tmp_path: Path, clock: _Clock) -> None:
    record = Record(tmp_path / "record.sqlite", clock)
    _submit(record, "a")
    _claim(record)
    again = Record(tmp_path / "record.sqlite", clock)  # the first one was never closed: its process was killed
    assert again.cancel("a") == "cancelling"
    assert [row["id"] for row in again.doors()] == ["a"]
    again.close()
    record.close()


@pytest.mark.parametrize("name", ["time_limit_s", "grace_s", "lease_s", "heartbeat_every_s", "stall_after_s"])
@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "5", True])
def test_no_wait_is_without_end(name: str, value: object) -> None:
    with pytest.raises(BadRun, match=name):
        Limits(**{name: value})  # type: ignore[arg-type]
