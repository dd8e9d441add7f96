"""Processes of a race: each makes calls as long as there is room, and says which thresholds it was told of."""

import asyncio
import os
import random
import sys

import msgspec

from bus.bus import Bus
from bus.jetstream.broker import JetStreamBroker
from bus.jetstream.connection import Connection, ConnectOptions
from bus.ledger import Amount, Ceilings, Crossed, Reservation
from protocol.subjects import Subjects
from tests.contract.calls import a_hold, the_cost

CEILING = 600
CALL = 10
CEILINGS = Ceilings(spec=Amount(microdollars=CEILING))


async def race(bus: Bus, name: str) -> list[Crossed]:
    """Use up what is left together with all others; what another holds may come back, so that is waited for."""
    told: list[Crossed] = []
    number, chance = 0, random.Random(name)
    while True:
        book = await bus.ledger.read()
        left = book.room((("spec", "todo"),), CEILINGS).microdollars
        if not left:
            if not book.account("spec", "todo").held.microdollars:
                return told
            await asyncio.sleep(0.005)
            continue
        number += 1
        wanted = a_hold(f"{name}/{number}/0", min(CALL, left), story=name)
        answer = await bus.ledger.reserve(wanted, CEILINGS)
        if isinstance(answer, Reservation):
            cost = chance.randint(1, answer.entry.hold.microdollars)
            told += await bus.ledger.settle(the_cost(answer.entry, cost), CEILINGS)


async def run(url: str, project: str, name: str) -> None:
    """One process: it says that it is ready, begins when standard input ends, and says what it was told."""
    broker = JetStreamBroker(await Connection.open(ConnectOptions(url=url, connect_seconds=10.0)))
    bus = Bus(broker, Subjects(project))
    say(b"ready")
    await asyncio.to_thread(os.read, 0, 1)
    say(msgspec.json.encode(await race(bus, name)))
    await bus.close()


def say(line: bytes) -> None:
    """All write to one pipe: a line at once."""
    os.write(1, line + b"\n")


def main(url: str, project: str, processes: str) -> None:
    """Fork them: sixteen interpreters would take longer to start than the race takes."""
    for number in range(int(processes)):
        if os.fork() == 0:
            asyncio.run(run(url, project, f"p-{number}"))
            os._exit(0)
    codes = [os.wait()[1] for _ in range(int(processes))]
    sys.exit(max(codes) != 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
