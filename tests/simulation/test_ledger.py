"""Many processes at one ledger over a faulty network, on a virtual clock: no seed makes them spend too much."""

import asyncio
import random

import pytest

from bus.broker import MESSAGE_ID
from bus.bus import Bus
from bus.fence import Fence
from bus.ledger import Amount, Book, Ceilings, Crossed, Entry, Refusal
from bus.ledger.entries import SCOPES
from bus.memory import MemoryServer
from bus.retrying import surely
from bus.topology import apply_topology, plan_topology
from protocol.subjects import Subjects
from tests.contract.calls import a_hold, the_cost
from tests.simulation.loop import Process, VirtualLoop, run_virtual
from tests.simulation.wire import Network, Wire

SUBJECTS = Subjects("sim")
PROCESSES, CALLS = 8, 12
CEILINGS = Ceilings(story=Amount(microdollars=200), spec=Amount(microdollars=300), day=Amount(microdollars=280))
SEEDS = 60
LIVES_MAX = 3
HOUR_SECONDS = 3600.0


class Play:
    """Processes that call, settle and die; whoever dies is followed by another that tries the same effect again."""

    def __init__(self, seed: int) -> None:
        random.seed(seed)  # pauses between tries are drawn from there
        self.chance = random.Random(seed)
        self.server = MemoryServer(fence_first=self.chance.random() < 0.5)
        self.told: list[tuple[str, str, int]] = []
        self.refused: list[Refusal] = []
        self.done = [0] * PROCESSES

    def bus(self) -> Bus:
        network = Network(random.Random(self.chance.random()), delay_seconds=0.05, loss=0.05)
        network.cut_until = asyncio.get_running_loop().time() + self.chance.choice([0.0, 0.0, 1.5])
        return Bus(Wire(self.server, network), SUBJECTS)

    async def main(self, loop: VirtualLoop) -> list[Entry]:
        bus = Bus(Wire(self.server), SUBJECTS)
        await apply_topology(bus.broker, plan_topology(SUBJECTS))
        for number in range(PROCESSES):
            self.begin(loop, number, 0)
        while min(self.done) < CALLS:
            assert loop.time() < HOUR_SECONDS, f"not done: {self.done}"
            await asyncio.sleep(1.0)
        return [stored.entry async for stored in bus.ledger.read_entries() if stored.entry is not None]

    def begin(self, loop: VirtualLoop, number: int, life: int) -> None:
        process = Process(f"{number}.{life}")
        if life < LIVES_MAX:
            loop.in_world(self.chance.random() * 2, self.kill, loop, process, number, life)
        loop.spawn(process, self.work(number, life))

    def kill(self, loop: VirtualLoop, process: Process, number: int, life: int) -> None:
        process.is_alive = False
        loop.in_world(self.chance.random(), self.begin, loop, number, life + 1)

    async def work(self, number: int, life: int) -> None:
        bus = self.bus()
        while self.done[number] < CALLS:
            effect = f"s-{number % 2}.{number}/{self.done[number]}/0"
            wanted = a_hold(effect, self.chance.randint(1, 20), incarnation=str(life), story=f"s-{number % 2}")
            answer = await bus.ledger.reserve(wanted, CEILINGS)
            if isinstance(answer, Refusal):
                self.refused.append(answer)
            else:
                self.tell(answer.crossed)
                await asyncio.sleep(self.chance.random() * 0.2)
                cost = self.chance.randint(0, answer.entry.hold.microdollars)
                self.tell(await bus.ledger.settle(the_cost(answer.entry, cost), CEILINGS))
            self.done[number] += 1

    def tell(self, crossed: tuple[Crossed, ...]) -> None:
        self.told += [(each.scope, each.name, each.percent) for each in crossed]


def over(book: Book) -> list[str]:
    """The scopes that are over their ceiling."""
    return [
        f"{scope} {name}"
        for scope in SCOPES
        for name in book.names(scope)
        if book.account(scope, name).claimed.microdollars > CEILINGS.of(scope).microdollars
    ]


@pytest.mark.parametrize("chunk", range(6))
def test_no_seed_makes_them_spend_too_much_or_store_a_call_twice(chunk: int) -> None:
    for seed in range(chunk * SEEDS // 6, (chunk + 1) * SEEDS // 6):
        play, book = Play(seed), Book()
        entries = run_virtual(play.main)

        reserved: list[str] = []
        for sequence, entry in enumerate(entries, 1):
            change = book.add(entry, sequence)
            assert over(book) == [], f"seed {seed}"
            if change.opened is not None:
                reserved.append(change.opened.call)
        assert len(reserved) == len(set(reserved)), f"seed {seed}"
        assert len(play.told) == len(set(play.told)), f"seed {seed}: {play.told}"
        assert play.refused, f"seed {seed}: nobody came near a ceiling"


def test_without_the_fence_some_seed_spends_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the seeds above would prove nothing."""

    async def append(fence: Fence, subject: str, data: bytes, message_id: str, _: int) -> int:
        headers = {MESSAGE_ID: message_id}
        return (await surely(lambda: fence._broker.publish(subject, data, headers))).sequence

    monkeypatch.setattr(Fence, "append", append)

    assert any(spends_too_much(seed) for seed in range(SEEDS))


def spends_too_much(seed: int) -> bool:
    book = Book()
    for sequence, entry in enumerate(run_virtual(Play(seed).main), 1):
        book.add(entry, sequence)
        if over(book):
            return True
    return False
