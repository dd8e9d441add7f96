"""Publishing a spec: once per text, whoever publishes, however many at once, and whenever one of them dies."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from bus.broker import Acknowledged
from bus.bus import Bus
from bus.errors import BusClosedError, NotAcknowledgedError
from bus.publishing import INLINE_BYTES_MAX, Publication, publish_spec
from protocol.errors import MalformedMessageError
from protocol.marks import message_id
from protocol.messages import Envelope, SpecUpload
from protocol.subjects import Role, Subjects
from tests.contract.samples import NOW
from tests.contract.world import World, memory_world, nats_world

TEXT = "# A to-do list"
KEY = "specs.todo"


@pytest.fixture(params=["memory", "nats"])
async def world(request: pytest.FixtureRequest, subjects: Subjects) -> AsyncIterator[World]:
    """A project in memory and on a real server."""
    if request.param == "memory":
        context = memory_world(subjects, fence_first=True)
    else:
        context = nats_world(subjects, request.getfixturevalue("shared_server").url, 1)
    async with context as world:
        yield world


async def publish(bus: Bus, text: str = TEXT, edition: str = "standard") -> Publication:
    return await publish_spec(bus, spec="todo", markdown=text, edition=edition, now=NOW)


async def sent(bus: Bus, role: Role = "pm") -> list[Envelope]:
    """Every message that waits for whoever takes specs."""
    count = len([message async for message in bus.broker.read(bus.subjects.mail_stream(role), ">")])
    inbox = await bus.mail.inbox("spec", role, "main")
    found = []
    for _ in range(count):
        letter = await inbox.take()
        await letter.acknowledge()
        found.append(letter.envelope)
    return found


def revisions(envelopes: list[Envelope]) -> list[tuple[int, str]]:
    uploads = [envelope.payload for envelope in envelopes if isinstance(envelope.payload, SpecUpload)]
    return [(upload.revision, upload.markdown) for upload in uploads]


class Dying:
    """A bus whose process dies at one publish: just before it (nothing is stored) or just after (nobody is told)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, bus: Bus, subject: str, *, nth: int = 1, stored: bool) -> None:
        self._publish = bus.broker.publish
        self._subject = subject
        self._left = nth
        self._stored = stored
        monkeypatch.setattr(bus.broker, "publish", self.publish)

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str] | None = None) -> Acknowledged:
        if subject == self._subject:
            self._left -= 1
            if self._left == 0:
                if self._stored:
                    await self._publish(subject, data, headers)
                raise BusClosedError("the process died here")
        return await self._publish(subject, data, headers)


async def test_the_same_text_is_sent_once(world: World) -> None:
    first, second = await world.bus(), await world.bus()

    published, repeated = await publish(first), await publish(second)

    digest = published.digest
    assert published == Publication(status="published", spec="todo", revision=1, digest=digest)
    assert repeated == Publication(status="unchanged", spec="todo", revision=1, digest=digest)
    (envelope,) = await sent(first)
    assert envelope == Envelope(
        id=message_id("spec.todo", 1, 0),
        kind="REQUEST",
        sender="person.person",
        recipient="pm.main",
        payload=SpecUpload(spec="todo", revision=1, markdown=TEXT, digest=digest),
        sent_at=NOW,
    )


async def test_each_change_is_a_revision_and_so_is_a_change_back(world: World) -> None:
    bus = await world.bus()

    results = [await publish(bus, text) for text in (TEXT, "changed", TEXT)]

    assert [(result.status, result.revision) for result in results] == [
        ("published", 1),
        ("revised", 2),
        ("revised", 3),
    ]
    assert revisions(await sent(bus)) == [(1, TEXT), (2, "changed"), (3, TEXT)]


@pytest.mark.parametrize(
    "written", ["\ufeff# A\n\nlist\n", "# A\r\n\r\nlist\r\n", "\ufeff# A\r\rlist\r"], ids=["BOM", "CRLF", "BOM and CR"]
)
async def test_line_ends_and_a_byte_order_mark_are_no_change(world: World, written: str) -> None:
    bus = await world.bus()
    published = await publish(bus, "# A\n\nlist\n")

    repeated = await publish(bus, written)

    assert repeated == Publication(status="unchanged", spec="todo", revision=1, digest=published.digest)


async def test_the_same_text_for_another_edition_is_sent_to_whoever_takes_it_there(world: World) -> None:
    bus = await world.bus()
    await publish(bus)

    switched = await publish(bus, edition="classic")

    assert (switched.status, switched.revision) == ("revised", 2)
    assert revisions(await sent(bus, "architect")) == [(2, TEXT)]


async def test_in_classic_the_architect_takes_specs(world: World) -> None:
    bus = await world.bus()

    await publish(bus, edition="classic")

    assert [envelope.recipient for envelope in await sent(bus, "architect")] == ["architect.main"]


async def test_many_publishers_of_one_text_send_one_message(world: World) -> None:
    buses = [await world.bus() for _ in range(5)]

    results = await asyncio.gather(*(publish(bus) for bus in buses))

    assert {result.revision for result in results} == {1}
    assert {result.status for result in results} <= {"published", "unchanged"}
    assert revisions(await sent(buses[0])) == [(1, TEXT)]
    assert (await publish(buses[0])).status == "unchanged"


async def test_publishers_of_different_texts_get_a_revision_each(world: World) -> None:
    buses = [await world.bus() for _ in range(4)]
    texts = [f"text {number}" for number in range(4)]

    results = await asyncio.gather(*(publish(bus, text) for bus, text in zip(buses, texts, strict=True)))

    by_revision = {result.revision: text for result, text in zip(results, texts, strict=True)}
    assert sorted(by_revision) == [1, 2, 3, 4]
    assert dict(revisions(await sent(buses[0]))) == by_revision


@pytest.mark.parametrize("stored", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("place", ["claim", "send", "mark"])
async def test_a_publisher_that_dies_anywhere_is_completed_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str, stored: bool
) -> None:
    dying, heir = await world.bus(), await world.bus()
    spec, board = world.subjects.spec("pm", "main"), world.subjects.key("board", KEY)
    subject, nth = {"claim": (board, 1), "send": (spec, 1), "mark": (board, 2)}[place]
    Dying(monkeypatch, dying, subject, nth=nth, stored=stored)
    with pytest.raises(BusClosedError):
        await publish(dying)

    completed, repeated = await publish(heir), await publish(heir)

    assert completed.revision == 1
    assert completed.status == ("unchanged" if (place, stored) == ("mark", True) else "published")
    assert repeated.status == "unchanged"
    assert revisions(await sent(heir)) == [(1, TEXT)]


async def test_a_publisher_that_died_does_not_hold_up_a_changed_text(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying, heir = await world.bus(), await world.bus()
    Dying(monkeypatch, dying, world.subjects.spec("pm", "main"), stored=False)
    with pytest.raises(BusClosedError):
        await publish(dying)

    changed = await publish(heir, "changed")

    assert (changed.status, changed.revision) == ("revised", 2)
    assert revisions(await sent(heir)) == [(2, "changed")]


@pytest.mark.parametrize(
    "text",
    ["x" * (INLINE_BYTES_MAX + 1), "\x01" * INLINE_BYTES_MAX],
    ids=["too long", "too long as JSON"],
)
async def test_a_text_that_no_message_can_carry_goes_to_the_object_store(world: World, text: str) -> None:
    bus = await world.bus()

    await publish(bus, text)

    (envelope,) = await sent(bus)
    assert isinstance(envelope.payload, SpecUpload)
    assert envelope.payload.markdown == ""
    assert await bus.objects.get(envelope.payload.object) == text.encode()


async def test_a_text_that_just_fits_travels_whole(world: World) -> None:
    bus = await world.bus()
    text = "ä" * (INLINE_BYTES_MAX // 2)

    await publish(bus, text)

    assert revisions(await sent(bus)) == [(1, text)]


@pytest.mark.parametrize("noise", [b"{", b"\xff", b'{"spec": 1}', b"[" * 100_000])
async def test_noise_on_the_board_is_an_error_that_names_it(world: World, noise: bytes) -> None:
    bus = await world.bus()
    await bus.board.put(KEY, noise)

    with pytest.raises(MalformedMessageError, match=r"under specs\.todo was not written by publishing"):
        await publish(bus)

    assert await sent(bus) == []


async def test_a_claim_that_others_always_overtake_gives_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = await world.bus()

    async def overtaken(*_: object) -> None:
        return None

    monkeypatch.setattr(bus.board, "replace", overtaken)

    with pytest.raises(NotAcknowledgedError, match="publish again"):
        await publish(bus)
