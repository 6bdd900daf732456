"""The operator's commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fixtures.orchestrator import office
from fixtures.orchestrator.local import Orchestrator
from tests.orchestrator.desk import RUNNER, STAMP, Desk


def _ask(orchestrator: Orchestrator, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert office.main(["--folder", str(orchestrator.folder), *words]) == 0
    return capsys.readouterr().out.strip()


def test_a_run_is_submitted_looked_at_and_cancelled(
    orchestrator: Orchestrator, desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STAMP, "by-hand")
    where = ["--workspace", str(tmp_path / "w"), "--source", str(desk.source)]
    words = ["--grace", "0.3", "--heartbeat-every", "0.1", "--", sys.executable, str(RUNNER), "--habit", "deaf"]
    assert _ask(orchestrator, capsys, "submit", "--id", "by-hand", *where, *words) == "by-hand"
    run = desk.take("by-hand", tmp_path / "w").until_working()
    assert _ask(orchestrator, capsys, "state", run.id) == "running"
    assert json.loads(_ask(orchestrator, capsys, "door", run.id, "up", "--slow", "0.2")) == {"state": "up", "slow_s": 0.2}
    assert _ask(orchestrator, capsys, "cancel", run.id) == "cancelling"
    run.until_ended()
    assert json.loads(_ask(orchestrator, capsys, "show", run.id))["why"] == "cancel"
    assert json.loads(_ask(orchestrator, capsys, "heartbeats", run.id))[-1]["answer"] == "cancel"


def test_what_is_refused_is_said(orchestrator: Orchestrator, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert office.main(["--folder", str(orchestrator.folder), "cancel", "nobody"]) == 1
    assert "no run 'nobody' is known" in capsys.readouterr().err
    assert office.main(["--folder", str(tmp_path), "state", "nobody"]) == 1
    assert "address.json" in capsys.readouterr().err
