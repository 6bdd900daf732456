"""A test that presses the buttons itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from pytest_cancelcontract import assert_grace_bounded, assert_no_survivors

WRAPPER = str(Path(__file__).with_name("subreaper.py"))


def test_revoke(cancel_drill):
    with cancel_drill("deaf", grace=1) as drill:
        run = drill.run
        command = [sys.executable, WRAPPER, "--grace", "0.8", str(run.workspace), str(run.source), *run.argv]
        job = subprocess.Popen(command, env=run.env)
        drill.watch(lambda: "STARTED" if job.poll() is None else "REVOKED", {"STARTED": "running", "REVOKED": "cancelled"})
        drill.until_working()
        with drill.pressing():
            os.kill(job.pid, signal.SIGTERM)
        drill.until_over()
    assert_no_survivors(drill)
    assert_grace_bounded(drill)
