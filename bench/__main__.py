"""`python -m bench [--json]`: a table on stdout, bench/latest.json, and exit 0 even when a target is missed.

`--only PART` measures one part and leaves bench/latest.json as it is.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog
import uvloop
from rich.console import Console
from rich.table import Table

from bench.caching import measure_caching
from bench.measures import Result, results
from bench.run import measure, talk
from bench.runtime import measure_peers, measure_runtime, measure_simulation
from bench.supervision import measure_supervision

LATEST = Path(__file__).parent / "latest.json"
TABLE_WIDTH = 100

PARTS: Mapping[str, Callable[[], dict[str, Result]]] = {
    "bus": lambda: results(uvloop.run(measure())),
    "runtime": lambda: uvloop.run(measure_runtime()),
    "peers": lambda: uvloop.run(measure_peers()),
    "simulator": measure_simulation,
    "supervision": measure_supervision,
    "caching": measure_caching,
}


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Ratios against nats-py and other systems.")
    parser.add_argument("--json", action="store_true", help="print what bench/latest.json holds instead of a table")
    parser.add_argument("--only", choices=PARTS, help="measure one part; bench/latest.json stays as it is")
    args = parser.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),  # stdout is for the figures
    )
    start = time.monotonic()
    outcome: dict[str, Result] = {}
    for name in [args.only] if args.only else PARTS:
        outcome |= PARTS[name]()
    document = msgspec.json.format(msgspec.json.encode(outcome), indent=2)
    if not args.only:
        LATEST.write_bytes(document + b"\n")
    if args.json:
        print(document.decode())
    else:
        # A pipe has no width of its own, and a table that is wrapped there cannot be searched.
        console = Console()
        Console(width=None if console.is_terminal else TABLE_WIDTH).print(_table(outcome))
    missed = [name for name, result in outcome.items() if not result.met]
    talk(f"{time.monotonic() - start:.0f} s" + ("" if args.only else f", written to {LATEST}"))
    talk(f"MISSED: {', '.join(missed)}" if missed else "all targets met")


def _table(outcome: Mapping[str, Result]) -> Table:
    table = Table(title="Ours over theirs, same machine, same durability")
    table.add_column("measure")
    for heading in ("value", "ratio", "target", "met"):
        table.add_column(heading, justify="right")
    for name, result in outcome.items():
        met = "yes" if result.met else "[bold red]NO[/]"
        table.add_row(name, f"{result.value:.3f}", f"{result.ratio:.3f}", f"≤ {result.target:.3f}", met)
    return table


if __name__ == "__main__":
    main()
