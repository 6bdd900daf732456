"""Rows for grace-bounded; with notice at +0.1 s the limit is +7.1 s."""

from tests.unit.builders import (
    BROKEN,
    INCONCLUSIVE,
    KEPT,
    Row,
    died,
    look,
    look_again,
    notice,
    plus,
    row,
    saw,
    story,
    without,
)
from tests.unit.stories import beside, revival

DEAF = story(deaths=5.2, reported=5.4, returns=5.4)
LATE = story(deaths=9.0, reported=9.2, returns=9.2)
NEVER = story(deaths=None, reported=None, returns=None)
ROWS = (
    Row("gone in time is kept", DEAF, KEPT, says=["gone 5.1 s after its notice"]),
    Row("gone exactly at the limit is kept", story(deaths=7.1, reported=7.3), KEPT),
    Row("gone later is broken", LATE, BROKEN, says=["gone 8.9 s after its notice", "or that of the ladder that presses, is longer"]),
    Row("never gone is broken", NEVER, BROKEN, says=["not seen to die: pid 4700", "it had SIGTERM and ignored it; no force followed"]),
    Row(
        "the leader left and its child stays",
        story(deaths={"leader": 0.2, "deaf-child": None}),
        BROKEN,
        says=[
            "pid 4711 (start 1001, deaf-child)",
            "it is in the leader's group, and only the leader had notice, and left (+0.2 s): was the leader signalled, and not its group?",
        ],
    ),
    Row(
        "the leader left and its child, which had notice too, stays",
        story(told={"leader": 0.1, "deaf-child": 0.1}, deaths={"leader": 0.2, "deaf-child": None}),
        BROKEN,
        says=["it had SIGTERM and ignored it; the leader left first (+0.2 s): was the escalation called off with it?"],
    ),
    Row(
        "the leader left and what stays has a session of its own",
        story(deaths={"leader": 0.2, "daemon": None}),
        BROKEN,
        says=["it is in a session of its own: was only the group"],
    ),
    Row("gone within the machine's lateness of the limit", story(deaths=7.08, reported=7.3, late=0.05), INCONCLUSIVE, spoilt=True),
    Row("gone within the machine's lateness after the limit", story(deaths=7.12, reported=7.3, late=0.05), INCONCLUSIVE, spoilt=True),
    Row("no notice and no force", story(told=None, deaths=None), INCONCLUSIVE, says=["see cancel-delivered"]),
    Row("force alone, and all gone soon after it, is kept", story(told=None, deaths={"leader": 0.2, "daemon": 1.0}, reported=1.2), KEPT),
    Row("force alone, and one that lives on, is broken", story(told=None, deaths={"leader": 0.2, "daemon": 4.0}, reported=4.2), BROKEN),
    Row("the history ends before the limit", story(deaths=None, reported=None, returns=None, end=4.0), INCONCLUSIVE),
    Row("a look that is past the limit shows it gone, when is not known", without(LATE, "process-table.died"), INCONCLUSIVE),
    Row("a role is unaccounted for", without(DEAF, "lifeline.hello", "process-table.held", subject="4700:1000"), INCONCLUSIVE),
    Row(
        "exiting at the limit, and dead soon after, is kept",
        plus(story(deaths=7.4, reported=7.6), look("reported", 7.0, row("leader", "dying"))),
        KEPT,
    ),
    Row("the death of a reused pid is not the run's", plus(without(NEVER, "process-table.died"), died(3.0, subject="4700:9999")), BROKEN),
    Row("a zombie without a thread is dead", look_again(without(DEAF, "process-table.died"), "reported", row("leader", "Z")), KEPT),
    Row(
        "an attempt that began after the press is another clause's",
        plus(story(deaths=5.2, reported=5.4, returns=5.4, end=9.0), *revival(5.5), notice(5.6, subject="4900:3200")),
        KEPT,
        says=["gone 5.1 s after its notice"],
    ),
    Row("what lives of another run is not this one's", plus(DEAF, *beside()), KEPT),
    Row(
        "the notice of a stopped process starts the grace",
        plus(
            story(told=None, deaths=5.2, reported=5.4, returns=5.4),
            saw("process-table", "pending", 0.1, "4700:1000", signals=["SIGTERM"]),
        ),
        KEPT,
        says=["gone 5.1 s after its notice"],
    ),
)
