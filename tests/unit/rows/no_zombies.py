"""Rows for no-zombies, judged by the look at the end."""

from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, STARTER, Row, look_again, plus, row, saw, story, without

DONE = story()
BOTH = story(deaths={"leader": 0.2, "daemon": 0.3})
UNWAITED = (
    "zombies whose parent (pid 50) lives on: pid 4700",
    "whoever starts a child has to wait for it, also after it was killed: poll() or wait() in Python",
)
ROWS = (
    Row("nothing left is kept", DONE, KEPT),
    Row("a zombie of what started the run is broken", look_again(DONE, "end", row("leader", "Z")), BROKEN, says=UNWAITED),
    Row(
        "the wrapper has not waited",
        plus(look_again(DONE, "end", row("leader", "Z")), saw("process-table", "spawned", -1.5, STARTER, role="wrapper")),
        BROKEN,
        says=["zombies whose parent (pid 50, the wrapper) lives on"],
    ),
    Row(
        "the process in which the adapter lives has not waited",
        plus(look_again(DONE, "end", row("leader", "Z")), saw("process-table", "spawned", -1.5, STARTER, role="host")),
        BROKEN,
        says=["zombies whose parent (pid 50, the process that hosts the adapter) lives on"],
    ),
    Row(
        "another process that was started has another name",
        plus(look_again(DONE, "end", row("leader", "Z")), saw("process-table", "spawned", -1.5, "50:77", role="wrapper")),
        BROKEN,
        says=["zombies whose parent (pid 50) lives on"],
    ),
    Row(
        "an adapter that starts the run by itself has not waited",
        look_again(DONE, "end", row("leader", "Z")),
        BROKEN,
        header={"test_process": STARTER},
        says=["zombies whose parent (pid 50, the test process) lives on"],
    ),
    Row("a zombie that init has yet to reap does not count", look_again(DONE, "end", row("leader", "Z", parent="1:1", ppid=1)), KEPT),
    Row(
        "a zombie of another parent does not count",
        look_again(BOTH, "end", row("leader", "gone"), row("daemon", "Z", parent="60:4", ppid=60)),
        KEPT,
    ),
    Row("the starter's pid with another start is another parent", look_again(DONE, "end", row("leader", "Z", parent="50:77")), KEPT),
    Row(
        "a reused pid that is a zombie is somebody else",
        look_again(DONE, "end", row("leader", "gone"), row(subject="4700:9", state="Z")),
        KEPT,
    ),
    Row("a wrapper that has ended leaves nothing to wait for", look_again(DONE, "end", row("leader", "gone"), starter_alive=False), KEPT),
    Row("no look at the end", without(DONE, "process-table.look", moment="end"), INCONCLUSIVE),
    Row("nobody knows what started the leader", without(DONE, "process-table.held"), INCONCLUSIVE),
    Row("the leader cannot be read", look_again(DONE, "end", row("leader", "?")), INCONCLUSIVE),
    Row("the leader is not in the look", look_again(DONE, "end"), INCONCLUSIVE),
    Row("the leader is still alive", story(deaths=None), INCONCLUSIVE, says=["see no-survivors"]),
    Row("a zombie whose threads live on is no zombie yet", look_again(DONE, "end", row("leader", "Z", alive=True)), INCONCLUSIVE),
)
