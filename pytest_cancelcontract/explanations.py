"""What the clauses and scenarios mean, in words for people: for ``cancelcontract explain`` and for the documentation.

What a clause promises, and what a scenario does, stand in the contract's own tables; here is only what those do not say. A test demands a
row for each. No markup but backticks, around terms and what is typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Explanation(NamedTuple):
    """One clause: how it is judged, how it is usually broken, and how to keep it; each a few sentences."""

    judged: str
    broken_by: str
    keep: str


CLAUSES: Mapping[str, Explanation] = {
    "cancel-delivered": Explanation(
        "From the press to the first thing that a process of the run can notice: a SIGTERM, SIGINT, SIGHUP or SIGQUIT, the end of its"
        " standard input, or its death by force. The runner itself says when it had notice. That the state has changed counts for"
        " nothing.",
        "The cancel only sets a flag that nobody reads; the wrapper reads it between two lines of output, and a silent runner prints"
        " none; or it is learned from the answer to a heartbeat, and none is sent while the wrapper waits for its child.",
        "Tell the run as soon as the cancel arrives; in `finally`, where it arrives as an exception. Where it travels on the answer to a"
        " heartbeat, heartbeat on a timer of its own, whatever the child does.",
    ),
    "grace-given": Explanation(
        "A runner that cleans up for `cleanup` seconds after its notice says when it began and when it had finished. In `slow-child` the"
        " leader leaves at once and its child cleans up: that counts as well. Only a death by force before the end accuses.",
        "SIGKILL at once; a platform whose own grace is shorter than the runner's; taking the leader's end for the end of the run, and"
        " killing what is left of its group.",
        "Signal first, wait for the grace, and use force only after it. Wait for everything that the run started and not only for its"
        " leader: what is still cleaning up has the whole grace.",
    ),
    "grace-bounded": Explanation(
        "From the first notice until every process of the run is seen dead by its pidfd: at most `grace` + `kill_within`. Where force"
        " came without a notice, `kill_within` from the first use of it.",
        "Nothing follows the polite signal; the timer of the escalation is called off when the leader leaves; the wait for the child has"
        " no deadline; a second polite signal is sent in the place of SIGKILL.",
        "Give every wait a deadline. After the grace, SIGKILL everything that the run started, whether or not its leader has left.",
    ),
    "no-survivors": Explanation(
        "All processes of the run are known by name: each one, wherever it has gone, opens a connection of its own to the recorder, which"
        " holds it by pidfd. At the deadline each is looked up by pid and start time. A zombie is dead, a stopped process is alive, and"
        " one that could not be read is neither.",
        "Signalling the leader only; signalling its group only, which whoever called setsid() or setpgid() has left; taking a snapshot of"
        " the tree once, so that what was started meanwhile is missed; finding descendants by parent once the parents are gone.",
        "Hold what cannot be left: a cgroup, a PID namespace, or a wrapper that is the subreaper of all it starts"
        " (PR_SET_CHILD_SUBREAPER). After the grace, kill what is in it, look again, and repeat until nothing is left.",
    ),
    "no-zombies": Explanation(
        "At the drill's end the process table is read: a dead process of the run whose parent is what started it, and that nobody has"
        " waited for. Zombies of other parents are theirs to wait for, and a wrapper that has ended has none.",
        "The child is killed and forgotten; only the leader is waited for, not what a subreaper adopts.",
        "Wait for every child, also after it was killed: waitpid(2), until there is none. A wrapper that is a subreaper, or the first"
        " process of a container, waits for strangers too.",
    ),
    "outcome-reported": Explanation(
        "The cancel call must have returned, and the outcome must be `cancelled`, `failed` or `succeeded`, within `kill_within` of gone,"
        " or of the deadline where the run is never gone. The outcome is asked for by the plugin, from outside.",
        "The wrapper waits for the end of the output, which a child that has inherited the pipe keeps open; it joins a thread that waits"
        " for the child; it stays at `cancelling` where a process could not be ended.",
        "Wait for processes and not for their pipes, and stop reading when they are dead. Let the cancel end in a terminal state whatever"
        " happens: a run that cannot be ended has failed, and says so.",
    ),
    "outcome-not-early": Explanation(
        "The first terminal outcome is known as an interval, from the question to its answer; it may begin at most `early` before the"
        " last process is dead. What the run still did in that window is shown.",
        "The record is changed at the press, and the processes are ended later; the leader's exit is taken for the end of the run; force"
        " is sent and its effect is not awaited.",
        "Set the terminal state only after every process of the run was seen dead; until then say `cancelling`. Where an engine's record"
        " must come first, write that risk down as `early`.",
    ),
    "outcome-not-success": Explanation(
        "The outcome is read when it first is terminal and once more after `settle`: it may at neither time be `succeeded`. Where nothing"
        " but the wrapper's exit status is known this is a SHOULD, since a status of 0 is no record of a cancel.",
        "A runner that ends with status 0 at its notice is taken for one that has done its work; the child's own result is written last"
        " and overwrites the cancel.",
        "Record the cancel before the run is told to stop, and let the record win over the runner's own exit status.",
    ),
    "stays-ended": Explanation(
        "For `retry` after the run was gone and its outcome reported, no new attempt at the task may begin. A new attempt says hello to"
        " the recorder by itself.",
        "A supervisor restarts what was killed; a queue hands the task out again because its worker died before it acknowledged; a retry"
        " policy takes the cancel for a failure.",
        "Take the cancel down before the run is told to stop, and let whatever starts runs look there first. A cancel must not count as a"
        " failure that is tried again.",
    ),
    "no-late-writes": Explanation(
        "From the handover on, in and beside the workspace: what changed is found by content and change time, against a file that was"
        " touched on the same file system at the handover, and by reading again what a living process holds open or mapped. A change"
        " accuses by the marks in it, or because one process of the run alone had the file open for writing.",
        "Survivors write on; the outcome is reported while the killed processes are still being ended; a mapped file, whose time no store"
        " changes; a folder that was moved aside while something in it lived.",
        "See every process of the run dead before the outcome is reported, and give a replacement a workspace of its own.",
    ),
    "fresh-start": Explanation(
        "The first run leaves poison of every kind, each with its own token, and is killed. The same task is started again, and the new"
        " run says what it finds where it finds itself: files, ignored files, locks, and in its command line and environment the old"
        " session. A workspace that was built anew at the same path passes.",
        "The workspace is used again; `git clean -fd` and `git stash`, which leave ignored files and git's own lock; a copy of the old"
        " workspace; a lock that a child of the killed run holds; the session id that is passed on to be resumed.",
        "Throw the workspace of a killed run away and build it anew from its source. Start a new session instead of resuming the old one."
        " Tie each lock to a process that ends with its run.",
    ),
    "no-overlap": Explanation(
        "The same task is started again at the handover. When the second run's leader says hello, every process of the first one must be"
        " dead, by the process table at that moment.",
        "The second start looks at the record, which says cancelled, and not at the processes; the lock is released by the wrapper and"
        " not by the end of its run.",
        "Let a start wait until every process of the task's last run was seen dead, and end what is left of it first.",
    ),
    "spend-stops": Explanation(
        "The provider's own meter, which the runner calls, is read: `spend_within` after the handover it stands still. What the runner or"
        " the wrapper counted is testimony and no proof.",
        "Survivors go on to call; a request that was sent goes on at the provider after its connection is closed; the wrapper's own"
        " counter is believed.",
        "End every process, then every request: cancel at the provider what goes on there without a connection, and let the runner have"
        " the grace to do so.",
    ),
    "requests-closed": Explanation(
        "At the provider no request that began before the handover is open `spend_within` after it, streams and work that goes on without"
        " a connection included. What begins later is judged by `spend-stops`.",
        "A connection pool that lives in the wrapper outlives the run; a stream is left to time out; work in the background is never"
        " called off.",
        "Close what the run opened with the run, and let connections belong to a process that ends with it.",
    ),
    "floor-holds": Explanation(
        "The wrapper is killed, or stopped, or nobody presses cancel: `time_limit` + `grace` + `kill_within` after its leader's hello"
        " every process of the run is dead. In `never-cancelled` a limit in the wrapper passes as well, so that one alone shows only"
        " half.",
        "The limit lives in the wrapper, which is what died; it lives in the parent of the run and ends the wrapper only; it counts the"
        " wrapper's life and leaves the run behind.",
        "Put the wall-clock limit outside of the wrapper: into a cgroup with a deadline, a unit of the service manager, the platform's"
        " own time limit. It must end everything that the run started, not only the process it knows.",
    ),
    "stall-detected": Explanation(
        "The runner works, then lives on without output, write or request. `stall_after` + `grace` + `kill_within` after its last"
        " progress every process of it is dead. A total limit as short as `stall_after` passes as well: that"
        " somebody watches is not shown.",
        "Being alive is taken for getting on: the wrapper heartbeats cheerfully for a run that is stuck; the only limit is the total one.",
        "Watch what the run gets done (output, files, requests), not that it is alive, and end it as a cancel would.",
    ),
    "heartbeat-steady": Explanation(
        "The heartbeats as the engine saw them, from start until gone: no two are further apart than `heartbeat_timeout`, and the last is"
        " no further than that from gone. The clause joins wherever heartbeats were seen.",
        "The heartbeat is tied to a line of output, so that a silent child sends none; it ends when the cancel arrives, so that the"
        " engine gives the run up in the midst of its grace.",
        "Send heartbeats on a timer of their own, from start until every process is dead, the grace included.",
    ),
    "heartbeat-ends": Explanation(
        "The heartbeats as the engine saw them: at most one interval after the run was gone there is none. The engine is asked two"
        " timeouts after gone, and 3 s after it at the latest; with a longer timeout it is kept where they had stood still for twice"
        " as long as they ever did.",
        "The timer belongs to the wrapper and goes on when the run is over.",
        "End the timer with the run, not with the wrapper.",
    ),
    "lease-fenced": Explanation(
        "The engine refuses, then does not answer. `lease` + `grace` + `kill_within` after its last answer every process of the run is"
        " dead: by then the engine may have started another. Kept counts from when the engine was being made to refuse, broken from when it"
        " did.",
        "The wrapper waits for the engine to say something; it tries again for ever; it counts from when it noticed and not from the last"
        " answer.",
        "Count from the last answer of the engine, on a clock of the wrapper's own, and end the run when the lease is over.",
    ),
    "bystander-unharmed": Explanation(
        "Two runs of the same wrapper are at work and one is cancelled. The other must have no notice, no stop, no death and no terminal"
        " outcome, and must say that it wrote after the first was gone. In every drill, the process in which the adapter runs must live"
        " on.",
        "Ending by name (`pkill`); killing a group or a session that both runs share, or that is the caller's own; a pid that was noted"
        " down and now belongs to another.",
        "Signal what this run started: by pidfd, or by a group or cgroup of its own. See that a group is not your own before killpg() is"
        " called on it.",
    ),
    "cancel-idempotent": Explanation(
        "Cancel is pressed again as soon as the run has notice. All that holds after one press must hold still, and the second call may"
        " fail only with an ordinary error.",
        "The second press runs into the first one's clean-up, raises out of it and calls off the kill; a handler is not re-entrant; the"
        " wrapper dies of the second signal.",
        "Let the second press find that a cancel is under way, and return. Whatever comes, the escalation that has begun is finished.",
    ),
    "cancel-any-time": Explanation(
        "Cancel is pressed before the runner is up, at three moments that a barrier holds: right after `start` returned, before its first"
        " handler, just before it works. It must end as it does later, or never start. After its end a cancel must change nothing: not"
        " the outcome, and nothing is signalled.",
        "A cancel that comes before there is a child is dropped; a flag is set back when the child is started; a pid of a run that is"
        " over is signalled; the outcome of a finished run is overwritten.",
        "Look for the cancel right after the child was started, too. Let the record of a run that is over be final.",
    ),
    "slot-reusable": Explanation(
        "After the cancel another task is run on the same wrapper. It must come up, work, end by itself, and be reported so.",
        "A flag, a lock, a semaphore or a handle of the cancelled run stays taken; a worker's loop has ended with the run.",
        "Keep what a cancel leaves (flags, locks, handles, timers) with the run that was cancelled, and let go of it when that is over.",
    ),
}
"""By the clause's id, in the order of the contract."""

SCENARIOS: Mapping[str, str] = {
    "polite": "A well-behaved program. If this one is broken, the press does not arrive at all, or the outcome is wrong.",
    "slow-cleanup": "A program that saves its work when it is told to stop, as most that hold a session or a lock do.",
    "slow-child": "A shell or a launcher that dies at once of the signal while the program that it started still saves its work.",
    "endless-cleanup": "A clean-up that hangs: it waits for a server that does not answer, or for a lock.",
    "deaf": "A program that catches every polite signal and goes on, by intent or because its handler waits for a lock.",
    "second-signal": "A program that takes the first signal as `finish this step`, as many interactive agents do with Ctrl-C.",
    "keeps-spending": (
        "A program that is quiet right after the signal and then retries its request: looked at too early, it seems to have stopped."
    ),
    "launcher": (
        "A shim in front of the real program (a version manager, `npx`, a shell script without exec) that does not pass signals on."
    ),
    "exits-zero": "A program that catches the signal and ends in good order, with status 0: its exit says nothing of the cancel.",
    "deaf-child": "A tool that the agent runs, such as a build or a test run, which ignores the signal that its parent obeyed.",
    "own-group-child": (
        "A child of an interactive shell, or of a program that makes a process group for its job: a signal to the wrapper's group misses"
        " it."
    ),
    "own-session-child": "A child that was started with setsid() so that it outlives a terminal, as servers and language tools are.",
    "daemon": "A development server or build daemon that has detached by a double fork: its parent is init, or the nearest subreaper.",
    "bare-daemon": "The same with nothing left by which it could be found: no environment, no working folder, no descriptors.",
    "successor": "A program that starts itself anew when it is told to stop, as one does that updates or reloads itself.",
    "respawner": "Two processes that watch over each other, so that whoever is killed alone comes back.",
    "pipe-holder": "A child in the background that has inherited the output: whoever waits for the end of the output waits for it.",
    "silent": (
        "A program that prints nothing for a long time, as an agent does that thinks: a wrapper that acts between two lines never acts."
    ),
    "chatty": (
        "A program that prints more than its reader takes: a wrapper that does not read lets it block, and one that only reads is busy."
    ),
    "frozen": "A stopped process (Ctrl-Z, a debugger, a paused container) to which no signal but SIGKILL arrives.",
    "mapped-writer": "A database or a cache that writes through a mapping: no call is made, and the file's time need not change.",
    "cancel-twice": "An operator who presses again because nothing seems to happen.",
    "cancel-at-start": "An operator who sees a mistake at once; a queue that cancels what it has just handed out.",
    "cancel-after-end": "A press that crosses the end of the run on its way.",
    "bystander": "Two runs on one machine, of which one is cancelled.",
    "next-task": "A worker that is to take the next task after a cancelled one.",
    "watched": "A retry policy, or a supervisor that brings up again whatever has died.",
    "second-run": "The reason for it all: the task is started again where a killed run has worked, and must not build on what it left.",
    "second-run-after-end": "The same where the run left at its notice and nobody had to kill it. Run only where the rule says that such a"
    " run may not be gone on with either: `--cancel-resume never`.",
    "second-run-after-limit": "The same where nobody pressed cancel and the time limit ended the run.",
    "streaming": "An agent in the midst of an answer, with a stream open at the provider.",
    "background-request": "Work that was handed to the provider and goes on there without a connection, until somebody calls it off.",
    "wrapper-killed": "The worker is killed: out of memory, a deployment, a crash. Nobody is left who could pass a cancel on.",
    "wrapper-frozen": "The worker hangs: alive by all looks, and never to do anything again.",
    "never-cancelled": "A run that everybody has forgotten. This alone shows half: a limit in the wrapper passes.",
    "wedged": "A program that waits for ever for an answer, under a wrapper that reports that all is well.",
    "engine-lost": "The network between worker and engine is cut, and the engine may give the task to another.",
}
"""What a scenario stands for in the world, by its id, in the order of the contract."""
