"""What each half measure of the orchestrator breaks, and where it shows: ``(bridge, scenario, clause)``. A drill for each row."""

from __future__ import annotations

BREAKS: tuple[tuple[str, str, str], ...] = (
    ("no_heartbeat", "silent", "cancel-delivered"),
    ("no_heartbeat", "polite", "heartbeat-steady"),
    ("no_heartbeat", "polite", "spend-stops"),
    ("answer_unread", "silent", "cancel-delivered"),
    ("tied_to_output", "silent", "cancel-delivered"),
    ("tied_to_output", "silent", "heartbeat-steady"),
    ("stops_in_the_grace", "deaf", "heartbeat-steady"),
    ("beats_on", "polite", "heartbeat-ends"),
    ("waits_politely", "deaf", "grace-bounded"),
    ("limit_in_the_bridge", "wrapper-killed", "floor-holds"),
    ("limit_in_the_bridge", "wrapper-frozen", "floor-holds"),
    ("timeout_k", "never-cancelled", "floor-holds"),
    ("no_progress_check", "wedged", "stall-detected"),
    ("no_fence", "engine-lost", "lease-fenced"),
    ("starts_over_the_living", "second-run", "no-overlap"),
    ("starts_over_the_living", "second-run-after-limit", "no-overlap"),
)
