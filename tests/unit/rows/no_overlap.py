"""Rows for no-overlap; the second run begins at +0.9 s."""

from pytest_cancelcontract.finding import Verdict
from tests.unit.builders import (
    BROKEN,
    FIRST,
    INCONCLUSIVE,
    KEPT,
    SECOND,
    SECOND_LEADER,
    WORKSPACE,
    Row,
    look_again,
    plus,
    row,
    saw,
    story,
    without,
)

FRESH = story(restart=0.9)
NOT_UP = [one for one in FRESH if one.subject != SECOND_LEADER]
OVERLAP = story(deaths={"leader": 0.2, "deaf-child": 5.0}, restart=0.9)
SHORT = story(deaths={"leader": 0.2, "deaf-child": 0.95}, restart=0.9)
DYING = look_again(look_again(SHORT, "second-hello", row("deaf-child", "dying")), "end", row("deaf-child", "gone"))
TURNS = [
    {"pid": 4711, "attempt": FIRST, "count": 3},
    {"pid": 4800, "attempt": SECOND, "count": 1},
    {"pid": 4711, "attempt": FIRST, "count": 2},
]
ROWS = (
    Row("gone before the second begins is kept", FRESH, KEPT, says=["began +0.9 s, the first was gone +0.2 s"]),
    Row("gone exactly as the second begins is kept", story(deaths=0.9, restart=0.9), KEPT),
    Row("alive as the second begins is broken", OVERLAP, BROKEN, says=["alive then: pid 4711"]),
    Row("exiting as the second begins counts as dead", DYING, KEPT),
    Row("a zombie without a thread is dead", look_again(FRESH, "second-hello", row("leader", "Z")), KEPT),
    Row("a reused pid that is alive is somebody else", look_again(FRESH, "second-hello", row(subject="4700:9")), KEPT),
    Row(
        "a second start that was refused began nothing",
        plus(NOT_UP, saw("adapter", "not-restarted", 0.95, why="it is in the way", refused=True, said=True)),
        Verdict.NOT_APPLICABLE,
        says=["refused", "it is in the way"],
    ),
    Row(
        "a second start that does not come may come yet",
        plus(NOT_UP, saw("adapter", "not-restarted", 0.95, why="no runner said hello.", refused=False, said=False)),
        INCONCLUSIVE,
    ),
    Row("no second run", story(), INCONCLUSIVE, says=["no second run came up"]),
    Row("dead soon after, and not looked at", without(SHORT, "process-table.look"), INCONCLUSIVE),
    Row("cannot be read", look_again(SHORT, "second-hello", row("deaf-child", "?")), INCONCLUSIVE),
    Row(
        "what both wrote into one file is shown as it stands there",
        plus(
            OVERLAP, saw("workspace", "changed", 5.0, path=f"{WORKSPACE}/uncooperative-leader.log", what="content", writers=[], order=TURNS)
        ),
        BROKEN,
        says=[
            f"both write into {WORKSPACE}/uncooperative-leader.log, in turn: 3 lines of the first run (pid 4711),"
            " 1 line of the second run (pid 4800), 2 lines of the first run (pid 4711)"
        ],
    ),
    Row("alive until long after, without a look, is broken", without(OVERLAP, "process-table.look"), BROKEN),
)
