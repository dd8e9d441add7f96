"""`make simulate`: play many seeds, and say which of them found something.

python -m tests.simulation [--seed FIRST] [--seeds COUNT] [--digest]
"""

import argparse
import logging
import sys
import time
from datetime import UTC, datetime

import structlog

from tests.simulation.playbill import play_seed


def seed_of_the_day() -> int:
    """The first seed, if none is given: another one each day, the same all day."""
    return int(datetime.now(UTC).strftime("%Y%m%d")) * 1000


def main() -> int:
    """Play the seeds; 1 if any violated an invariant."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: by the date)")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--digest", action="store_true", help="only print the digest of each seed's trace")
    parser.add_argument("--first", action="store_true", help="only say which seed is the first today")
    asked = parser.parse_args()
    if asked.first:
        sys.stdout.write(f"The simulator's seeds begin with {seed_of_the_day()} today.\n")
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    first = seed_of_the_day() if asked.seed is None else asked.seed
    began, records, bad = time.monotonic(), 0, 0
    for number in range(asked.seeds):
        run = play_seed(first + number)
        records += run.records
        if asked.digest:
            sys.stdout.write(f"{run.seed} {run.digest}\n")
        if run.violations:
            bad += 1
            sys.stdout.write(f"{run.report()}\n")
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{number + 1} of {asked.seeds} seeds, {bad} bad ")
    seconds = time.monotonic() - began
    sys.stderr.write(
        f"{asked.seeds} seeds from {first}: {bad} bad, {records} records in {seconds:.1f} s "
        f"({records / seconds:.0f} per second)\n"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
