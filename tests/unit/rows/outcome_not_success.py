"""Rows for outcome-not-success; settle is 0.5 s."""

from tests.unit.builders import BROKEN, INCONCLUSIVE, KEPT, Row, answer, plus, story, without

ONCE = without(story(), "outcome")
AGAIN = "a coroutine or a handler that catches the cancel has to raise it again"
ENDS = "let the record win over the runner's own exit status | "
ROWS = (
    Row("cancelled, and so after settle, is kept", story(), KEPT, says=["'cancelled' +0.5 s, 'cancelled' +1.05 s"]),
    Row("failed is no success", story(outcome="failed"), KEPT),
    Row("succeeded is broken", story(outcome="succeeded"), BROKEN, says=["taken for one that did its work", f"exit status; {AGAIN} | "]),
    Row("succeeded later is broken", story(again="succeeded"), BROKEN, says=["'cancelled' came first and was overwritten", ENDS]),
    Row("read once only", plus(ONCE, answer(0.5)), INCONCLUSIVE, says=["not read again after settle"]),
    Row("read again exactly after settle is kept", plus(ONCE, answer(0.5), answer(1.0, by="outcome")), KEPT),
    Row("read again too soon", plus(ONCE, answer(0.5), answer(0.9, by="outcome")), INCONCLUSIVE),
    Row("an operator's word is an outcome", plus(ONCE, answer(0.5, by="operator"), answer(1.1, by="operator")), KEPT, says=["by operator"]),
    Row("an outcome that came nobody knows how", plus(ONCE, answer(0.5, by=""), answer(1.1, by="")), KEPT, says=["by an unknown way"]),
    Row("no terminal outcome", story(reported=None), INCONCLUSIVE),
    Row("still cancelling is no outcome", plus(ONCE, answer(0.5, "cancelling"), answer(1.5, "cancelling")), INCONCLUSIVE),
    Row(
        "an exit status is read once",
        plus(ONCE, answer(0.5, by="exit", detail="exit status 143")),
        KEPT,
        capabilities=("exit",),
        says=["143"],
    ),
    Row(
        "an exit status of 0 is broken",
        plus(ONCE, answer(0.5, "succeeded", by="exit")),
        BROKEN,
        capabilities=("exit",),
        says=["status 0", ENDS],
    ),
)
