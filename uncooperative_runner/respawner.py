"""Two processes that start each other again: each holds the other, and when that one was killed, starts it anew.

It is bounded three ways. Nothing is started where no recorder listens; one that ended by itself (refused, unheard, broken) is not
started again; and no process starts more than so many.
"""

from __future__ import annotations

import os
import select

from uncooperative_runner import another, wire
from uncooperative_runner.notices import Unarmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from uncooperative_runner.member import Member

STARTS_AT_MOST = 100


class Respawner:
    """One of the two; ``partner_role`` is the other's."""

    def __init__(self, member: Member, partner_role: str) -> None:
        self._member = member
        self._role = partner_role
        self._partner = -1
        self._pidfd = -1

    def start(self, telling: int = -1) -> dict[str, str]:
        """Start the partner for the first time; what is proven so.

        Raises:
            Unarmed: it cannot be started, or held.
        """
        try:
            self._start(telling)
        except (OSError, AttributeError) as error:  # os.pidfd_open: Linux
            raise Unarmed(self._member.role, f"cannot start {self._role} and hold it by pidfd: {error}") from None
        return self._proof("started and holds")

    def hold(self, partner: int) -> dict[str, str]:
        """Hold the partner that started us, if it is still there; what is proven so."""
        try:
            pidfd = os.pidfd_open(partner)
        except ProcessLookupError:
            pidfd = -1
        if pidfd >= 0 and os.getppid() != partner:  # gone, and its pid may be another's by now
            os.close(pidfd)
            pidfd = -1
        self._partner, self._pidfd = partner, pidfd
        return self._proof("was started by, and holds,")

    def _proof(self, how: str) -> dict[str, str]:
        gone = "" if self._pidfd >= 0 else ", which is gone already"
        return {"habit": self._member.role, "proof": f"{how} {self._role} {self._partner} by pidfd{gone}"}

    def begin(self) -> None:
        """Start the partner again whenever it is killed, from now on."""
        self._member.in_thread(self._keep_alive)

    def _keep_alive(self) -> None:
        for _ in range(STARTS_AT_MOST):
            self._wait_for_death()
            if not self._was_killed():
                return
            if not self._member.is_by_hand and not self._member.is_heard():
                wire.die()
            try:
                self._start()
            except OSError:
                return  # there may be no more processes here; the one that is left stays as it is

    def _start(self, telling: int = -1) -> None:
        self._partner = another.start(self._role, self._member, partner=os.getpid(), telling=telling)
        self._pidfd = os.pidfd_open(self._partner)  # our child, and nobody has waited for it: the pid is still its own

    def _wait_for_death(self) -> None:
        if self._pidfd >= 0:
            poller = select.poll()
            poller.register(self._pidfd, select.POLLIN)
            poller.poll()
            os.close(self._pidfd)
            self._pidfd = -1

    def _was_killed(self) -> bool:
        """Whether a signal ended it; taken for one where it was not our child, so that nobody tells us how it ended."""
        try:
            _, status = os.waitpid(self._partner, 0)
        except ChildProcessError:
            return True
        return os.WIFSIGNALED(status)
