"""The ledger: holds behind one fence, settlements that count once, and a checkpoint that is no truth."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from bus.broker import Acknowledged
from bus.bus import Bus
from bus.errors import HoldOpenError, NotAcknowledgedError
from bus.ledger import Amount, Book, Ceilings, Refusal, Reservation, Reserved
from bus.ledger.book import Account
from bus.ledger.checkpoint import CHECKPOINT_KEY
from bus.ledger.ledger import NEVER_MADE
from protocol.codec import encode
from tests.contract.calls import ALLOWED, DAY, a_hold, a_raise, the_cost
from tests.contract.test_store_contract import lose_an_answer
from tests.contract.world import World


async def reserve(bus: Bus, wanted: Reserved, ceilings: Ceilings = ALLOWED) -> Reservation:
    """A reservation that must succeed."""
    answer = await bus.ledger.reserve(wanted, ceilings)
    assert isinstance(answer, Reservation), answer
    return answer


async def entries(bus: Bus) -> list[str]:
    """What stands in the ledger, by tag and call."""
    found = [stored.entry async for stored in bus.ledger.read_entries()]
    return [f"{type(each).__name__} {getattr(each, 'call', getattr(each, 'id', '?'))}" for each in found]


def an_account(spent: int = 0, held: int = 0, **facts: Any) -> Account:
    return Account(spent=Amount(microdollars=spent), held=Amount(microdollars=held), **facts)


async def test_what_is_held_by_one_is_seen_by_all_and_settling_makes_room(world: World) -> None:
    ours, theirs = await world.bus(), await world.bus()
    first = await reserve(ours, a_hold("s-1.1/1/0", 60))

    refused = await theirs.ledger.reserve(a_hold("s-1.1/2/0", 50), ALLOWED)
    await ours.ledger.settle(the_cost(first.entry, 20), ALLOWED)
    second = await theirs.ledger.reserve(a_hold("s-1.1/2/0", 50), ALLOWED)

    assert refused == Refusal(scope="story", name="s-1", kind="dollars", ceiling=100, spent=0, held=60, wanted=50)
    assert isinstance(second, Reservation)
    book = await (await world.bus()).ledger.read()
    assert book.account("story", "s-1") == an_account(spent=20, held=50)
    assert book.account("spec", "todo") == an_account(spent=20, held=50)
    assert book.account("day", DAY.isoformat()) == an_account(spent=20, held=50)


async def test_a_refused_call_leaves_no_entry(world: World) -> None:
    bus = await world.bus()

    refused = await bus.ledger.reserve(a_hold(microdollars=101), ALLOWED)

    assert isinstance(refused, Refusal)
    assert await entries(bus) == []


async def test_many_at_once_hold_as_much_as_there_is_and_no_more(world: World) -> None:
    buses = [await world.bus() for _ in range(4)]

    answers = await asyncio.gather(
        *(bus.ledger.reserve(a_hold(f"s-1.1/{k}/{n}", 10), ALLOWED) for n, bus in enumerate(buses) for k in range(4))
    )

    assert sum(isinstance(answer, Reservation) for answer in answers) == 10
    assert (await buses[0].ledger.read()).account("story", "s-1") == an_account(held=100)


@pytest.mark.parametrize("outage_seconds", [0.0, 0.3])
async def test_a_hold_whose_acknowledgement_was_lost_is_stored_once(
    world: World, monkeypatch: pytest.MonkeyPatch, outage_seconds: float
) -> None:
    bus = await world.bus()
    lose_an_answer(bus, monkeypatch, outage_seconds)

    await reserve(bus, a_hold())

    assert await entries(bus) == ["Reserved s-1.1/1/0#one#0"]


async def test_a_hold_whose_acknowledgement_was_lost_is_found_behind_what_others_wrote_since(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, other = await world.bus(), await world.bus()
    publish, lost = bus.broker.publish, iter([True])

    async def deaf(subject: str, data: bytes, headers: dict[str, str] | None = None) -> Acknowledged:
        answer = await publish(subject, data, headers)
        if next(lost, False):
            await reserve(other, a_hold("s-2.1/1/0", story="s-2"))
            raise NotAcknowledgedError(subject, "the answer was lost")
        return answer

    monkeypatch.setattr(bus.broker, "publish", deaf)
    await reserve(bus, a_hold())

    assert sorted(await entries(bus)) == ["Reserved s-1.1/1/0#one#0", "Reserved s-2.1/1/0#one#0"]


async def test_a_hold_that_another_process_took_for_lost_meanwhile_is_stored_and_counts_in_full(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, successor = await world.bus(), await world.bus()
    publish, lost = bus.broker.publish, iter([True])

    async def deaf(subject: str, data: bytes, headers: dict[str, str] | None = None) -> Acknowledged:
        answer = await publish(subject, data, headers)
        if next(lost, False):
            await reserve(successor, a_hold(incarnation="two"))
            raise NotAcknowledgedError(subject, "the answer was lost")
        return answer

    monkeypatch.setattr(bus.broker, "publish", deaf)
    ours = await reserve(bus, a_hold())
    await bus.ledger.settle(the_cost(ours.entry, 1), ALLOWED)

    assert (await bus.ledger.read()).account("story", "s-1") == an_account(spent=10, held=10)


async def test_a_call_settles_once_however_often_it_is_said_and_however_late(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    held = (await reserve(bus, a_hold(microdollars=100))).entry
    lose_an_answer(bus, monkeypatch)

    first = await bus.ledger.settle(the_cost(held, 85), ALLOWED)
    again = await bus.ledger.settle(the_cost(held, 85), ALLOWED)
    await bus.broker.publish(world.subjects.ledger, encode(the_cost(held, 85)))  # the id is long forgotten

    assert [crossed.percent for crossed in first] == [80]
    assert again == ()
    assert (await bus.ledger.read()).account("story", "s-1") == an_account(spent=85)


async def test_a_settlement_of_nobodys_call_changes_nothing(world: World) -> None:
    bus = await world.bus()

    assert await bus.ledger.settle(the_cost(a_hold()), ALLOWED) == ()

    assert (await bus.ledger.read()).names("story") == ()


async def test_each_threshold_is_told_to_exactly_one_of_all(world: World) -> None:
    buses = [await world.bus() for _ in range(4)]
    held = [
        (await reserve(bus, a_hold(f"s-1.1/{k}/{n}", 10), ALLOWED)).entry
        for n, bus in enumerate(buses)
        for k in range(3 if n < 2 else 2)
    ]

    told = await asyncio.gather(
        *(buses[n % 4].ledger.settle(the_cost(each, 10), ALLOWED) for n, each in enumerate(held))
    )

    assert sorted(crossed.percent for each in told for crossed in each) == [80, 95, 100]
    assert all(crossed.scope == "story" for each in told for crossed in each)


async def test_a_repetition_counts_the_earlier_call_in_full_and_says_so(world: World) -> None:
    dead, alive = await world.bus(), await world.bus()
    before = await reserve(dead, a_hold(microdollars=85, incarnation="one"))

    refused = await alive.ledger.reserve(a_hold(microdollars=16, incarnation="two"), ALLOWED)
    after = await reserve(alive, a_hold(microdollars=15, incarnation="two"))
    late = await dead.ledger.settle(the_cost(before.entry, 1), ALLOWED)

    assert isinstance(refused, Refusal)
    assert (before.entry.repeats, after.entry.repeats) == (False, True)
    assert [crossed.percent for crossed in after.crossed] == [80]
    assert late == ()
    assert (await alive.ledger.read()).account("story", "s-1") == an_account(spent=85, held=15)


async def test_a_process_has_one_open_call_of_an_effect_and_the_same_call_again_is_the_same_hold(world: World) -> None:
    bus = await world.bus()
    first = await reserve(bus, a_hold())

    again = await reserve(bus, a_hold())
    with pytest.raises(HoldOpenError, match=r"before s-1\.1/1/0#one#0"):
        await bus.ledger.reserve(a_hold(attempt=1), ALLOWED)
    await bus.ledger.settle(the_cost(first.entry), ALLOWED)
    next_attempt = await reserve(bus, a_hold(attempt=1))

    assert again.entry == first.entry
    assert not next_attempt.entry.repeats
    assert len(await entries(bus)) == 3


def hang_once(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let the next publish be stored and never answered; the event says that it is stored."""
    publish, stored = bus.broker.publish, asyncio.Event()

    async def hangs(subject: str, data: bytes, headers: dict[str, str] | None = None) -> Acknowledged:
        answer = await publish(subject, data, headers)
        if not stored.is_set():
            stored.set()
            await asyncio.Event().wait()
        return answer

    monkeypatch.setattr(bus.broker, "publish", hangs)
    return stored


async def cancelled(work: Coroutine[Any, Any, Any], when: asyncio.Event) -> None:
    """Begin something and cancel it once `when` is set."""
    task = asyncio.create_task(work)
    await when.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_call_whose_caller_was_cancelled_holds_nothing_once_the_next_is_reserved(
    world: World, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    bus = await world.bus()
    await cancelled(bus.ledger.reserve(a_hold(), ALLOWED), hang_once(bus, monkeypatch))
    if is_known:
        assert (await bus.ledger.read()).account("story", "s-1") == an_account(held=10)

    await reserve(bus, a_hold(attempt=1, microdollars=100))

    outcomes = [getattr(stored.entry, "outcome", "") async for stored in bus.ledger.read_entries()]
    assert outcomes == ["", NEVER_MADE, ""]
    assert (await bus.ledger.read()).account("story", "s-1") == an_account(held=100)


async def test_the_same_call_again_after_it_was_cancelled_is_the_same_hold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    await cancelled(bus.ledger.reserve(a_hold(), ALLOWED), hang_once(bus, monkeypatch))

    await reserve(bus, a_hold())

    assert await entries(bus) == ["Reserved s-1.1/1/0#one#0"]


async def test_a_settlement_that_was_cancelled_is_said_before_the_next_reservation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = await world.bus()
    held = await reserve(bus, a_hold(microdollars=100))
    await cancelled(bus.ledger.settle(the_cost(held.entry, 40), ALLOWED), hang_once(bus, monkeypatch))

    await reserve(bus, a_hold(attempt=1, microdollars=60))

    assert (await bus.ledger.read()).account("story", "s-1") == an_account(spent=40, held=60)


async def test_a_person_raises_a_ceiling_once_however_often_it_is_said(world: World) -> None:
    bus, person = await world.bus(), await world.bus()
    assert isinstance(await bus.ledger.reserve(a_hold(microdollars=110), ALLOWED), Refusal)

    for _ in range(2):
        await person.ledger.raise_ceiling(a_raise(10))
    await bus.broker.publish(world.subjects.ledger, encode(a_raise(10)))

    assert isinstance(await bus.ledger.reserve(a_hold(microdollars=111), ALLOWED), Refusal)
    await reserve(bus, a_hold(microdollars=110))


async def test_continue_once_lets_one_call_pass_and_no_second(world: World) -> None:
    bus, other = await world.bus(), await world.bus()
    await person_says_once(other)

    answers = await asyncio.gather(
        bus.ledger.reserve(a_hold("s-1.1/1/0", 500), ALLOWED), other.ledger.reserve(a_hold("s-1.1/2/0", 500), ALLOWED)
    )

    passed = [answer for answer in answers if isinstance(answer, Reservation)]
    assert [answer.entry.passes for answer in passed] == [("story",)]
    assert (await bus.ledger.read()).account("story", "s-1") == an_account(held=500)


async def person_says_once(bus: Bus) -> None:
    await bus.ledger.raise_ceiling(a_raise(once=True))


async def test_a_pass_is_kept_for_a_call_that_needs_it(world: World) -> None:
    bus = await world.bus()
    await person_says_once(bus)

    within = await reserve(bus, a_hold("s-1.1/1/0", 50))
    over = await reserve(bus, a_hold("s-1.1/2/0", 51))

    assert (within.entry.passes, over.entry.passes) == ((), ("story",))


NOISE = [b"", b"not json", b"\xff\xfe", b'{"entry":"gossip"}', b'{"entry":"settled","call":"x","microdollars":-1}']
NOISE += [b'{"entry":"settled","call":"s-1.1/1/0#one#0","at":"2026-01-02T03:04:05Z","microdollars":1e99}', b"[" * 9999]


async def test_what_is_no_entry_is_passed_over_with_a_warning(world: World) -> None:
    bus, other = await world.bus(), await world.bus()
    held = await reserve(bus, a_hold())
    noted = [(await bus.broker.publish(world.subjects.ledger, each)).sequence for each in NOISE]

    with capture_logs() as logs:
        await bus.ledger.settle(the_cost(held.entry), ALLOWED)
        await reserve(other, a_hold("s-1.1/2/0"))

    assert (await bus.ledger.read()).account("story", "s-1") == an_account(spent=10, held=10)
    assert {(each["event"], each["sequence"]) for each in logs} == {("ledger.entry_unreadable", n) for n in noted}


async def test_what_nobody_could_read_is_not_written(world: World) -> None:
    bus = await world.bus()

    with pytest.raises(msgspec.ValidationError):
        await bus.ledger.reserve(a_hold(microdollars=-1), ALLOWED)
    with pytest.raises(msgspec.ValidationError):
        await bus.ledger.raise_ceiling(a_raise(10, name=""))

    assert await entries(bus) == []


async def filled(world: World, monkeypatch: pytest.MonkeyPatch, calls: int = 6) -> Bus:
    """A ledger with some settled calls, an open one, and a checkpoint in between."""
    monkeypatch.setattr("bus.ledger.ledger.ENTRIES_BETWEEN", 4)
    bus = await world.bus()
    for n in range(calls):
        held = await reserve(bus, a_hold(f"s-1.1/{n}/0", 10))
        await bus.ledger.settle(the_cost(held.entry, 3), ALLOWED)
    await bus.ledger.raise_ceiling(a_raise(7))
    await reserve(bus, a_hold("s-1.1/99/0"))
    return bus


async def test_a_fresh_process_begins_at_the_checkpoint_and_comes_to_the_same_book(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, fresh = await filled(world, monkeypatch), await world.bus()
    read, asked = fresh.broker.read, []

    def counts(stream: str, subject: str, first: int = 1) -> Any:
        asked.append(first)
        return read(stream, subject, first)

    monkeypatch.setattr(fresh.broker, "read", counts)

    books = [await fresh.ledger.read(), await bus.ledger.read(), await folded(bus)]

    assert books[0].totals() == books[1].totals() == books[2].totals()
    assert asked[0] > 4


async def folded(bus: Bus) -> Book:
    """The book without any checkpoint."""
    book = Book()
    async for stored in bus.ledger.read_entries():
        assert stored.entry is not None
        book.add(stored.entry, stored.sequence)
    return book


def beyond(value: bytes) -> bytes:
    return changed(value, sequence=10_000)


def of_other_rules(value: bytes) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(value), "version": 0, "totals": emptied(value)})


def of_another_history(value: bytes) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(value), "digest": "0" * 64, "totals": emptied(value)})


def emptied(value: bytes) -> Any:
    return {**msgspec.json.decode(value)["totals"], "accounts": []}


def changed(value: bytes, **facts: Any) -> bytes:
    found = msgspec.json.decode(value)
    return msgspec.json.encode({**found, "totals": {**found["totals"], "accounts": [], **facts}})


def noise(_: bytes) -> bytes:
    return b"\x00 not json"


async def test_a_checkpoint_that_cannot_be_is_not_believed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = await filled(world, monkeypatch)
    posted = await bus.board.get(CHECKPOINT_KEY)
    assert posted is not None
    assert posted.value is not None

    for spoil in (beyond, of_other_rules, of_another_history, noise):
        await bus.board.put(CHECKPOINT_KEY, spoil(posted.value))
        with capture_logs() as logs:
            book = await (await world.bus()).ledger.read()
        assert book.totals() == (await folded(bus)).totals(), spoil.__name__
        assert [each["event"].partition("_")[0] for each in logs] == ["ledger.checkpoint"], spoil.__name__


async def test_the_ledger_can_be_followed(world: World) -> None:
    bus, writer = await world.bus(), await world.bus()
    held = await reserve(writer, a_hold())
    seen: list[str] = []

    async def follow() -> None:
        async for stored in bus.ledger.follow_entries():
            seen.append(type(stored.entry).__name__)
            if len(seen) == 2:
                return

    async with asyncio.timeout(20):
        follower = asyncio.create_task(follow())
        while not seen:
            await asyncio.sleep(0.01)
        await writer.ledger.settle(the_cost(held.entry), ALLOWED)
        await follower

    assert seen == ["Reserved", "Settled"]
