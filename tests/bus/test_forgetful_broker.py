"""What a broker that is killed has confirmed and not noted: a consumer, a delivery, an acknowledgement.

A server writes some of what it confirms only a moment later. Here its files are put back to what they were before.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from bus.errors import ChannelClosedError
from bus.mail import Letter
from protocol.subjects import Subjects
from tests.bus.brokers import eventually, project, restart
from tests.contract.samples import an_envelope
from tests.nats_server import NatsServer

DELIVERY_SECONDS = 5.0
"""Far above the moment that it takes, far below all that would otherwise have to pass: 15 and 60 seconds."""


def lose_consumer(server: NatsServer, stream: str, consumer: str) -> None:
    """What a server that is killed can do with a consumer that it has just confirmed."""
    for known in server.folder.glob(f"data/jetstream/*/streams/{stream}/obs/{consumer}"):
        shutil.rmtree(known)


def state_of(server: NatsServer, consumer: str) -> list[Path]:
    """Where a server keeps what it knows of a consumer's deliveries, once it has noted any."""
    return list(server.folder.glob(f"data/jetstream/*/streams/*/obs/{consumer}/o.dat"))


def noted(server: NatsServer, consumer: str) -> bytes:
    return b"".join(path.read_bytes() for path in state_of(server, consumer))


@pytest.mark.parametrize("waiting", [True, False], ids=["while somebody waits", "before anybody waits"])
async def test_an_inbox_that_a_kill_has_lost_is_opened_again_at_once(
    own_server: NatsServer, subjects: Subjects, *, waiting: bool
) -> None:
    async with project(own_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        taking = asyncio.create_task(inbox.take()) if waiting else None
        await bus.mail.send(an_envelope(recipient="pm.main"))  # the server has our pull by now

        own_server.kill()
        lose_consumer(own_server, subjects.mail_stream("architect"), "request-main")
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(DELIVERY_SECONDS):
            await bus.mail.send(an_envelope())
            letter = await (taking or inbox.take())

    assert letter.envelope == an_envelope()


@pytest.mark.parametrize("settle", [Letter.acknowledge, Letter.give_back], ids=["acknowledge", "give back"])
async def test_a_letter_in_hand_comes_again_when_a_kill_has_lost_its_inbox(
    own_server: NatsServer, subjects: Subjects, settle: Callable[[Letter], Awaitable[None]]
) -> None:
    async with project(own_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        await bus.mail.send(an_envelope())
        letter = await inbox.take()

        own_server.kill()
        lose_consumer(own_server, subjects.mail_stream("architect"), "request-main")
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(DELIVERY_SECONDS):
            await settle(letter)
            again = await inbox.take()
            await again.acknowledge()

        assert again.envelope == letter.envelope
        assert await bus.broker.last(subjects.mail_stream("architect"), ">") is None


async def test_an_acknowledgement_that_a_kill_has_undone_does_not_hold_up_the_next_letter(
    own_server: NatsServer, subjects: Subjects
) -> None:
    """A server notes an acknowledgement only after a while: killed before, it waits for one of what is gone."""
    async with project(own_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        await bus.mail.send(an_envelope(recipient="architect.other"))  # else the server sees that all before is gone
        await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))
        before = noted(own_server, "request-main")
        letter = await inbox.take()
        await eventually("the delivery is noted", lambda: noted(own_server, "request-main") != before)
        delivered = noted(own_server, "request-main")
        await letter.acknowledge()
        await eventually("so is the acknowledgement", lambda: noted(own_server, "request-main") != delivered)
        taking = asyncio.create_task(inbox.take())

        own_server.kill()
        state_of(own_server, "request-main")[0].write_bytes(delivered)
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(DELIVERY_SECONDS):
            await bus.mail.send(an_envelope(identifier="s-1.1/3/0"))
            following = await taking

    assert following.envelope.id == "s-1.1/3/0"


async def test_a_letter_in_hand_is_not_given_back_by_an_outage(own_server: NatsServer, subjects: Subjects) -> None:
    async with project(own_server.url, subjects) as bus:
        inbox = await bus.mail.inbox("request", "architect", "main")
        await bus.mail.send(an_envelope(identifier="s-1.1/1/0"))
        before = noted(own_server, "request-main")
        first = await inbox.take()
        await eventually("the delivery is noted", lambda: noted(own_server, "request-main") != before)
        taking = asyncio.create_task(inbox.take())
        await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))

        await restart(own_server)
        async with asyncio.timeout(DELIVERY_SECONDS):
            await bus.mail.send(an_envelope(identifier="s-1.1/3/0"))  # the server has our pull by now
            await first.acknowledge()
            second = await taking

    assert (second.envelope.id, second.delivery.delivered) == ("s-1.1/2/0", 1)


async def test_an_inbox_that_is_deleted_after_an_outage_is_not_opened_again(
    own_server: NatsServer, subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.jetstream.puller.MISSING_SECONDS", 0.2)
    async with project(own_server.url, subjects) as bus, project(own_server.url, subjects) as other:
        inbox = await bus.mail.inbox("request", "architect", "main")
        await restart(own_server)
        await bus.mail.send(an_envelope())
        await (await inbox.take()).acknowledge()
        await (await other.mail.inbox("request", "architect", "main")).close()

        with pytest.raises(ChannelClosedError, match="the consumer was deleted"):
            async with asyncio.timeout(DELIVERY_SECONDS):
                await inbox.take()
