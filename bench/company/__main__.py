"""`python -m bench.company`: measure, and print the results as JSON. Run by the interpreter that has the peers."""

import asyncio
import signal
import sys
from importlib.util import find_spec

import msgspec
import structlog
import uvloop

from bench.company.idle import measure_idle_actors, measure_idle_company
from bench.company.restart import measure_restart
from bench.company.restore import measure_restore
from bench.measures import Result
from bench.run import talk

PARTS = (measure_restart, measure_restore, measure_idle_actors, measure_idle_company)
NEEDED = ("anthropic", "mcp")


async def measure() -> dict[str, Result]:
    """All of it, one after the other; when it is told to end, the company that runs is closed first."""
    measuring = asyncio.current_task()
    assert measuring is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, measuring.cancel)
    found: dict[str, Result] = {}
    for part in PARTS:
        found |= await part()
    return found


def main() -> None:
    """Nothing is measured without what agents will import: everything would be smaller and faster than it will be."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for the figures
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        talk(f"SKIPPED: supervision, because of what is not installed: {', '.join(missing)}")
    sys.stdout.write(msgspec.json.encode({} if missing else uvloop.run(measure())).decode())


if __name__ == "__main__":
    main()
