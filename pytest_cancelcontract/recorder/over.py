"""When a drill is over: everything is gone and quiet, or the last limit has passed and what survives was watched for a while."""

from __future__ import annotations

import time

from pytest_cancelcontract.recorder.plan import Plan
from pytest_cancelcontract.recorder.roll import Roll
from pytest_cancelcontract.recorder.spending import Spending
from pytest_cancelcontract.terms import Terms

PAST_LIMIT_S = 0.1
PAST_LIMIT_LATENESSES = 2
"""How far beyond a limit the world is still watched, so that what did not happen by then was seen not to happen: so long, and
so many times as long as the machine was late at worst, since a verdict needs more than that."""

SPENDS_AGAIN_WITHIN_S = 1.0
"""A living process that spends by calls makes one every 0.2 s; that long it is given to be seen at it after the limit."""
WAITED_AT_MOST_S = 3.0
"""A wrapper that was kept from running is given that time as well, but one that starves itself is not watched for ever."""


class Over:
    """Reckons the end of one drill from what the watch tells it."""

    def __init__(self, roll: Roll, spending: Spending, terms: Terms, plan: Plan) -> None:
        self.deadline_s: float | None = None
        self.handover_s: float | None = None
        self.calls_under_way = plan.calls
        self.is_reported = False
        self.is_covered = False
        self.has_looked_at_deadline = False
        self.worst_late_s = 0.0
        self.waited_s = 0.0
        self._roll = roll
        self._spending = spending
        self._terms = terms
        self._plan = plan
        self._quiet_since_s: float | None = None

    def is_over(self) -> bool:
        """Whether the drill may end now."""
        now = time.monotonic()
        return self.deadline_s is not None and now >= self.ends_at_s(now)

    def ends_at_s(self, now: float) -> float:
        """When the drill may end, as far as it can be said now; moves on while something is still missing."""
        assert self.deadline_s is not None
        deadline = self.deadline_s
        if self._quiet_since_s is not None:
            # Where no outcome tells that a run which did not come up was called off, it is the deadline that does.
            untold_s = deadline + self._past_limit_s() if self._may_still_come() and not self.is_covered else 0.0
            return max(self._quiet_since_s + self._settles_for_s(), untold_s, self._spends_until_s())
        reference = deadline
        alive, came = self._roll.alive(), self._roll.of_run()
        ends = deadline + self._settles_for_s() if alive or not came else 0.0
        if alive and not self.has_looked_at_deadline:
            ends = max(ends, now + PAST_LIMIT_S)
        if not alive and came:
            reference = max(member.died_s or 0.0 for member in came)
        if not self._has_answered():
            ends = max(ends, reference + self._terms.kill_within_s, deadline + self._plan.watch_s if self._plan.watch_s else 0.0)
        return max(ends + self._past_limit_s(), self._spends_until_s())

    def note_quiet(self) -> None:
        """Something has changed: it is quiet from now on, or it is not any more."""
        is_known = self._plan.may_not_start or bool(self._roll.of_run())
        is_quiet = self.deadline_s is not None and is_known and not self._roll.alive() and self._has_answered()
        if not is_quiet:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = time.monotonic()

    def disturb(self) -> None:
        """Somebody came."""
        self._quiet_since_s = None

    def _spends_until_s(self) -> float:
        """Until when the meter has to be watched: whoever may still spend must be seen not to, or to do it, after ``spend_within``."""
        if self.handover_s is None:
            return 0.0
        last_s = self._spending.last_request_s or 0.0
        # Whoever begins a request after the handover may begin another one, dead or alive as the run may be.
        asks_on = last_s > self.handover_s or any(member.spends for member in self._roll.alive())
        if not asks_on and not self._roll.alive() and not self._spending.open_requests():
            return 0.0
        limit_s = self.handover_s + self._terms.spend_within_s
        is_shown = not asks_on or last_s > limit_s + self._past_limit_s()
        return limit_s + self._past_limit_s() + (0.0 if is_shown else SPENDS_AGAIN_WITHIN_S)

    def _settles_for_s(self) -> float:
        longer_s = self._terms.retry_s if self._may_still_come() else self._plan.watch_s
        return max(self._terms.settle_s, longer_s + self._past_limit_s() if longer_s else 0.0)

    def _may_still_come(self) -> bool:
        """A run that has not come up yet may still do so: nobody can be asked whether it will."""
        return self._plan.may_not_start and not self._roll.of_run()

    def _past_limit_s(self) -> float:
        return PAST_LIMIT_S + PAST_LIMIT_LATENESSES * self.worst_late_s + min(self.waited_s, WAITED_AT_MOST_S)

    def _has_answered(self) -> bool:
        return self.calls_under_way == 0 and (self.is_reported or not self.is_covered)
