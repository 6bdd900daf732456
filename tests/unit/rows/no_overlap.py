"""Rows for no-overlap; the second run begins at +0.9 s."""

from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, look_again, row, story, without

FRESH = story(restart=0.9)
OVERLAP = story(deaths={"leader": 0.2, "deaf-child": 5.0}, restart=0.9)
SHORT = story(deaths={"leader": 0.2, "deaf-child": 0.95}, restart=0.9)
DYING = look_again(look_again(SHORT, "second-hello", row("deaf-child", "dying")), "end", row("deaf-child", "gone"))
ROWS = (
    Row("gone before the second begins is kept", FRESH, KEPT, says=["began +0.9 s, the first was gone +0.2 s"]),
    Row("gone exactly as the second begins is kept", story(deaths=0.9, restart=0.9), KEPT),
    Row("alive as the second begins is broken", OVERLAP, BROKEN, says=["alive then: pid 4711"]),
    Row("exiting as the second begins counts as dead", DYING, KEPT),
    Row("a zombie without a thread is dead", look_again(FRESH, "second-hello", row("leader", "Z")), KEPT),
    Row("a reused pid that is alive is somebody else", look_again(FRESH, "second-hello", row(subject="4700:9")), KEPT),
    Row("no second run", story(), INCONCLUSIVE, says=["no second run came up"]),
    Row("dead soon after, and not looked at", without(SHORT, "process-table.look"), INCONCLUSIVE),
    Row("cannot be read", look_again(SHORT, "second-hello", row("deaf-child", "?")), INCONCLUSIVE),
    Row("alive until long after, without a look, is broken", without(OVERLAP, "process-table.look"), BROKEN),
)
