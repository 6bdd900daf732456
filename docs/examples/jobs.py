"""A service in miniature, with three commands; each run has a worker that keeps a record (``record.py``, one of the samples).

python jobs.py submit WORKSPACE SOURCE RUNNER…      prints the job's id
python jobs.py cancel ID
python jobs.py state ID                             QUEUED, RUNNING, REVOKED, DONE or FAILED
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

JOBS = Path(__file__).resolve().with_name("jobs")
STATES = {"running": "RUNNING", "cancelling": "RUNNING", "cancelled": "REVOKED", "succeeded": "DONE", "failed": "FAILED"}


def submit(workspace, source, *runner):
    JOBS.mkdir(exist_ok=True)
    job = Path(tempfile.mkdtemp(dir=JOBS))
    words = ["--record", str(job / "record"), "--grace", "0.8", workspace, source, *runner]
    worker = subprocess.Popen(
        [sys.executable, "record.py", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    (job / "pid").write_text(str(worker.pid))
    print(job)  # its last line is the id


def cancel(job):
    os.kill(int(Path(job, "pid").read_text()), signal.SIGTERM)


def state(job):
    record = Path(job, "record")
    print(STATES[record.read_text().strip()] if record.exists() else "QUEUED")


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    {"submit": submit, "cancel": cancel, "state": state}[command](*words)
