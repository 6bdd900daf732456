"""What each sample agent does not keep, trial by trial; what is not named is kept, and the test compares all clauses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents"
LIVES_ON = {"no-survivors": "broken", "outcome-not-early": "broken"}
TOOL_LIVES = LIVES_ON | {"no-late-writes": "broken"}
SPENDS = {"spend-stops": "broken", "requests-closed": "broken"}
NEVER_ENDS = {"no-survivors": "broken", "outcome-reported": "broken"} | dict.fromkeys(
    ("outcome-not-early", "outcome-not-success"), "inconclusive"
)
ASKS_AGAIN = {"outcome-not-early": "broken", "stays-ended": "broken", "spend-stops": "broken"}
EVERYWHERE = (
    *("streaming-int", "streaming-term-group", "tool-term", "tool-nohup-hup", "tool-setsid-int"),
    *("tool-daemon-term", "tool-daemon-term-group", "start-hup", "spawn-term"),
)


@dataclass(frozen=True)
class Sample:
    """A sample and the trials that it is put through, each with what is not kept in it."""

    name: str
    not_kept: dict[str, dict[str, str]] = field(default_factory=dict)
    grace_s: float = 1.0


TABLE = (
    Sample(
        "ends_its_tools",
        {id: {} for id in EVERYWHERE},
    ),
    Sample(
        "leaves_its_tools",
        {
            "streaming-term": {},
            "start-hup": {},
            **dict.fromkeys(("tool-term", "tool-term-group", "tool-nohup-hup", "tool-daemon-int"), TOOL_LIVES),
        },
    ),
    Sample("streams_on", {"streaming-term": NEVER_ENDS | SPENDS, "tool-int": NEVER_ENDS | {"no-late-writes": "broken"}}),
    Sample("asks_again", {"streaming-term": ASKS_AGAIN, "start-hup": ASKS_AGAIN}, grace_s=2.5),
    Sample(
        "orphans_its_worker",
        {"streaming-term": LIVES_ON | SPENDS, "streaming-term-group": {}, "tool-term": TOOL_LIVES, "start-term": LIVES_ON | SPENDS},
    ),
)
