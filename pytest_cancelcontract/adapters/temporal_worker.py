"""Be a Temporal worker for a drill: connect as the adapter says, have the team's function make the worker, and run it.

    python -m pytest_cancelcontract.adapters.temporal_worker MODULE:FUNCTION     (or path/to/file.py:FUNCTION)

The function gets a client and the name of the task queue, and returns a :class:`temporalio.worker.Worker`; it may be ``async``. Where
to connect is in the environment, by the names that Temporal's own tools use.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

from temporalio.client import Client
from temporalio.worker import Worker

Make = Callable[[Client, str], Worker | Awaitable[Worker]]


def find(named: str) -> Make:
    """The function of that name.

    Raises:
        ImportError: there is no such module, or no such function in it.
    """
    where, _, name = named.rpartition(":")
    module = _load(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    try:
        made: Make = getattr(module, name)
    except AttributeError:
        raise ImportError(f"{where} has no {name!r}, which would make the worker") from None
    return made


def _load(path: Path) -> ModuleType:
    """A file as a module of its own name, which Temporal's sandbox must be able to import again."""
    sys.path.insert(0, str(path.resolve().parent))
    return importlib.import_module(path.stem)


async def main(named: str) -> None:
    """Run the worker until a signal tells it to shut down, as a worker in production would."""
    make = find(named)
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], namespace=os.environ["TEMPORAL_NAMESPACE"])
    made = make(client, os.environ["TEMPORAL_TASK_QUEUE"])
    worker = await made if inspect.isawaitable(made) else made
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    async with worker:
        await told.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
