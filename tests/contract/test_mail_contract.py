"""Mail, the work queue, dead letters and control."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from bus.broker import MESSAGE_ID, ConsumerPlan, Message
from bus.bus import Bus
from bus.dead import ABOUT, BODY, About
from bus.errors import ChannelClosedError, LeaseLostError, MessageTooLargeError
from bus.objects import object_key
from protocol.codec import encode
from protocol.marks import Position, was_seen, with_mark
from protocol.messages import Answer, Ask, Pause, Question, Restore, Resume
from tests.contract.samples import a_record, a_story, an_envelope
from tests.contract.world import ACK_WAIT_SECONDS, World


async def test_a_request_waits_for_a_receiver_that_does_not_exist_yet(world: World) -> None:
    coder, architect = await world.bus(), await world.bus()
    await coder.mail.send(an_envelope())

    letter = await (await architect.mail.inbox("request", "architect", "main")).take()

    assert letter.envelope == an_envelope()


async def test_a_message_comes_again_until_it_is_acknowledged(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.mail.send(an_envelope())
    await inbox.take()  # and the process dies here

    async with asyncio.timeout(ACK_WAIT_SECONDS + 5):
        again = await inbox.take()
    await again.acknowledge()
    await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))
    third = await inbox.take()

    assert again.delivery.delivered == 2
    assert third.envelope.id == "s-1.1/2/0"


async def test_a_repeated_send_within_the_window_arrives_once(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.mail.send(an_envelope())
    await bus.mail.send(an_envelope())
    await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))

    ids = []
    for _ in range(2):
        letter = await inbox.take()
        await letter.acknowledge()
        ids.append(letter.envelope.id)

    assert ids == ["s-1.1/1/0", "s-1.1/2/0"]


async def test_a_repetition_after_the_window_is_refused_by_the_marks_that_were_committed(world: World) -> None:
    """The handler's commit holds the marks, so a repetition is known however late it comes."""
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    subject = world.subjects.request("architect", "main")
    handled: list[str] = []
    sequence = 0

    async def handle_one() -> None:
        nonlocal sequence
        last = await bus.journal.last("architect", "main")
        marks = msgspec.json.decode(last.record().after, type=dict[str, Position]) if last else {}
        letter = await inbox.take()
        if not was_seen(marks, letter.envelope.id):
            handled.append(letter.envelope.id)
            after = msgspec.Raw(encode(with_mark(marks, letter.envelope.id)))
            record = msgspec.structs.replace(a_record(len(handled), session="main"), machine="architect", after=after)
            sequence = await bus.journal.append(record, sequence)
        await letter.acknowledge()

    await bus.mail.send(an_envelope())
    await handle_one()
    await bus.broker.publish(subject, encode(an_envelope()))  # no id header: the broker's window cannot catch it
    await handle_one()
    await bus.mail.send(an_envelope(identifier="s-1.1/3/0"))
    await handle_one()

    assert handled == ["s-1.1/1/0", "s-1.1/3/0"]


async def test_a_reply_is_not_stuck_behind_a_parked_request(world: World) -> None:
    bus = await world.bus()
    requests = await bus.mail.inbox("request", "architect", "main")
    replies = await bus.mail.inbox("reply", "architect", "main")
    await bus.mail.send(an_envelope())
    parked = await requests.take()
    answer = an_envelope(Answer(answer="42"), identifier="p/1/0", kind="RESPONSE", sender="person.person")
    await bus.mail.send(answer)

    letter = await replies.take()

    assert letter.envelope == answer
    await parked.acknowledge()


async def test_request_and_response_find_each_other_and_the_waiter_has_no_clock(world: World) -> None:
    coder, architect = await world.bus(), await world.bus()
    replies = await coder.mail.inbox("reply", "coder", "s-1.1")
    asking = asyncio.create_task(coder.mail.request(an_envelope(), replies))
    requests = await architect.mail.inbox("request", "architect", "main")
    request = await requests.take()
    await request.acknowledge()
    stray = an_envelope(Answer(answer="other"), identifier="main/1/0", kind="RESPONSE", recipient="coder.s-1.1")
    await architect.mail.send(stray)
    answer = msgspec.structs.replace(
        stray, id="main/2/0", payload=Answer(answer="42"), correlation_id=request.envelope.id
    )
    await architect.mail.send(answer)

    async with asyncio.timeout(10):
        letter = await asking

    assert letter.envelope == answer


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "schema asks for"),
        (b'{"id": 1}', "schema asks for"),
        (encode(an_envelope()).replace(b'"question",', b'"unheard_of",', 1), "unheard_of"),
        (encode(msgspec.structs.replace(an_envelope(), schema=99)), "schema 99"),
        (encode(msgspec.structs.replace(an_envelope(), id="no position")), "is not <sender>/<n>/<k>"),
    ],
)
async def test_what_cannot_be_read_is_dead_and_the_next_message_is_handled(
    world: World, data: bytes, reason: str
) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    subject = world.subjects.request("architect", "main")
    await bus.broker.publish(subject, data)
    await bus.mail.send(an_envelope())

    letter = await inbox.take()
    dead = [letter async for letter in bus.dead.all()]

    assert letter.envelope == an_envelope()
    assert [(one.data, one.subject, one.holder) for one in dead] == [(data, subject, "architect.main")]
    assert reason in dead[0].reason


@pytest.mark.parametrize("status", ["100", "404", "408", "409", "503"])
async def test_mail_with_a_status_like_the_servers_own_is_dead_and_the_next_message_is_handled(
    world: World, status: str
) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.broker.publish(world.subjects.request("architect", "main"), b"", {"Status": status})
    await bus.mail.send(an_envelope())

    async with asyncio.timeout(10):
        letter = await inbox.take()

    assert letter.envelope == an_envelope()
    assert [one.data async for one in bus.dead.all()] == [b""]


async def test_a_dead_letter_can_be_replayed(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.broker.publish(world.subjects.request("architect", "main"), b"{")
    await bus.mail.send(an_envelope())
    await (await inbox.take()).acknowledge()
    (letter,) = [letter async for letter in bus.dead.all()]
    mended = msgspec.structs.replace(letter, data=encode(an_envelope(identifier="s-1.1/9/0")))

    await bus.dead.replay(mended)

    assert (await inbox.take()).envelope.id == "s-1.1/9/0"
    assert [left async for left in bus.dead.all()] == []


async def test_a_message_at_the_size_limit_can_die_too(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    data = b"x" * (bus.broker.message_bytes_max - 100)
    await bus.broker.publish(world.subjects.request("architect", "main"), data)
    await bus.mail.send(an_envelope())

    await inbox.take()

    assert [letter.data async for letter in bus.dead.all()] == [data]


async def test_a_message_with_an_id_of_many_bytes_can_die_too(world: World) -> None:
    """As JSON in a header it would be six times as long, and over the broker's limit for headers."""
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.broker.publish(world.subjects.request("architect", "main"), b"x", {MESSAGE_ID: "é" * 25_000})
    await bus.mail.send(an_envelope())

    letter = await inbox.take()

    assert letter.envelope == an_envelope()
    assert [one.data async for one in bus.dead.all()] == [b"x"]


async def test_a_letter_that_lies_about_its_id_cannot_add_headers_to_its_replay(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    subject = world.subjects.request("architect", "main")
    about = encode(About(reason="none", subject=subject, message_id="x\r\nInjected: yes")).decode()
    await bus.broker.publish(world.subjects.dead("coder", "s-1"), encode(an_envelope()), {ABOUT: about})
    (letter,) = [letter async for letter in bus.dead.all()]

    await bus.dead.replay(letter)

    assert set((await inbox.take()).delivery.headers) == {MESSAGE_ID}


async def test_a_letter_that_cannot_be_shown_hides_no_other(world: World) -> None:
    bus = await world.bus()
    subject, lost = world.subjects.dead("coder", "s-1"), object_key(b"lost")
    about = encode(About(reason="none", subject=world.subjects.request("pm", "main"))).decode()
    name = base64.urlsafe_b64encode(lost.encode()).decode()
    await bus.broker.publish(world.subjects.object_meta("objects", name), b"garbage")
    await bus.broker.publish(subject, b"", {ABOUT: about, BODY: lost})
    await bus.broker.publish(subject, b"", {ABOUT: '{"reason":"' + chr(0xFF)})
    for stream, sequence in (("a b", 1), ("", 1), ("NONE", 1), (world.subjects.stream("JOURNAL"), 1), ("*", -1)):
        limit = f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{world.subjects.mail_stream('pm')}.c"
        advisory = {"stream": stream, "consumer": "c", "stream_seq": sequence, "deliveries": 1}
        await bus.broker.publish(limit, msgspec.json.encode(advisory))
    await bus.broker.publish(subject, b"x", {ABOUT: about})

    letters = [letter async for letter in bus.dead.all()]

    assert [letter.number for letter in letters] == list(range(1, 9))
    assert [letter.subject for letter in letters[:-1]] == [""] * 7
    assert (letters[-1].subject, letters[-1].data) == (world.subjects.request("pm", "main"), b"x")


async def test_a_message_that_is_too_large_is_refused_with_its_size(world: World) -> None:
    bus = await world.bus()
    huge = an_envelope(Question(story="s-1", question="x" * bus.post.letter_bytes_max))

    with pytest.raises(MessageTooLargeError, match="object store"):
        await bus.mail.send(huge)


@pytest.mark.parametrize("sender", ["nobody", "ceo.main", "coder.", "coder.no such name", "coder.a*"])
async def test_a_letter_whose_sender_cannot_be_answered_is_dead(world: World, sender: str) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.mail.send(an_envelope(sender=sender, identifier="s-1.1/1/0"))
    await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))

    assert (await inbox.take()).envelope.id == "s-1.1/2/0"
    assert ["cannot be answered" in letter.reason async for letter in bus.dead.all()] == [True]


async def test_a_letter_that_no_record_could_hold_is_dead(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    huge = encode(an_envelope(Question(story="s-1", question="x" * bus.post.letter_bytes_max)))
    await bus.broker.publish(world.subjects.request("architect", "main"), huge)
    await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))

    assert (await inbox.take()).envelope.id == "s-1.1/2/0"
    assert ["that a letter may have" in letter.reason async for letter in bus.dead.all()] == [True]


async def test_a_delivery_limit_leaves_a_dead_letter_and_the_message_can_be_replayed(world: World) -> None:
    bus = await world.bus()
    stream, subject = world.subjects.mail_stream("pm"), world.subjects.request("pm", "main")
    plan = ConsumerPlan(stream=stream, name="limited", filter=subject, ack_wait_seconds=0.3, deliveries_max=2)
    await bus.broker.ensure_consumer(plan)
    poison = an_envelope(recipient="pm.main")
    await bus.mail.send(poison)
    for _ in range(2):
        await bus.broker.pull(stream, "limited")
    waiting = asyncio.create_task(bus.broker.pull(stream, "limited"))

    async with asyncio.timeout(10):
        while not (dead := [letter async for letter in bus.dead.all()]):
            await asyncio.sleep(0.02)
    await bus.dead.replay(dead[0])
    async with asyncio.timeout(10):
        replayed = await waiting

    assert (dead[0].data, dead[0].subject) == (encode(poison), subject)
    assert "delivered 2 times" in dead[0].reason
    assert replayed.data == encode(poison)


async def test_a_letter_that_nobody_ever_settles_is_dead_and_the_next_is_handled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.mail.DELIVERIES_MAX", 3)
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.mail.send(an_envelope())
    await bus.mail.send(an_envelope(identifier="s-1.1/2/0"))
    for _ in range(3):
        await (await inbox.take()).give_back()

    async with asyncio.timeout(10):
        letter = await inbox.take()
        while not (dead := [letter async for letter in bus.dead.all()]):
            await asyncio.sleep(0.02)

    assert letter.envelope.id == "s-1.1/2/0"
    assert [one.data for one in dead] == [encode(an_envelope())]


async def test_a_deleted_consumer_is_told_from_silence(world: World) -> None:
    bus = await world.bus()
    inbox = await bus.mail.inbox("request", "architect", "main")
    taking = asyncio.create_task(inbox.take())
    await asyncio.sleep(0.05)
    await inbox.close()

    with pytest.raises(ChannelClosedError):
        async with asyncio.timeout(20):
            await taking


async def test_a_cancelled_taker_does_not_keep_the_message(world: World) -> None:
    bus, other = await world.bus(ack_wait_seconds=60.0), await world.bus(ack_wait_seconds=60.0)
    inbox = await bus.mail.inbox("request", "architect", "main")
    elsewhere = await other.mail.inbox("request", "architect", "main")
    taking = asyncio.create_task(inbox.take())
    await asyncio.sleep(0.05)
    taking.cancel()
    await asyncio.gather(taking, return_exceptions=True)
    await other.mail.send(an_envelope())

    async with asyncio.timeout(10):  # far below the time after which it would come again by itself
        letter = await elsewhere.take()

    assert letter.envelope == an_envelope()


async def test_each_story_goes_to_one_coder_and_is_gone_when_finished(world: World) -> None:
    bus = await world.bus()
    await bus.work.put(a_story("s-1", "main/1/0"))
    await bus.work.put(a_story("s-2", "main/1/1"))

    first, second = await bus.work.take("coder-1/a"), await bus.work.take("coder-2/b")
    await bus.work.finish(first.claim)
    await bus.work.finish(second.claim)

    assert {first.story.story, second.story.story} == {"s-1", "s-2"}
    assert not first.taken_over
    await queue_is_empty(world, bus)


async def test_a_story_in_progress_stays_with_its_coder(world: World) -> None:
    owner, idle = await world.bus(), await world.bus()
    await owner.work.put(a_story())
    claim = (await owner.work.take("coder-1/a")).claim
    waiting = asyncio.create_task(idle.work.take("coder-2/b"))

    for _ in range(8):
        await asyncio.sleep(ACK_WAIT_SECONDS / 4)
        claim = await owner.work.keep(claim)

    assert not waiting.done()
    await owner.work.hand_back(claim)
    async with asyncio.timeout(10):
        assignment = await waiting
    assert assignment.delivered == 2, "it was offered to others while it was kept"


async def test_a_redelivered_story_whose_owner_lives_is_given_back(world: World) -> None:
    """The broker delivers it again because nothing was heard; the lease says that its owner is alive."""
    owner, idle = await world.bus(), await world.bus()
    await owner.work.put(a_story())
    claim = (await owner.work.take("coder-1/a")).claim
    waiting = asyncio.create_task(idle.work.take("coder-2/b"))

    lease = claim.lease
    for _ in range(8):
        await asyncio.sleep(ACK_WAIT_SECONDS / 4)
        lease = await owner.leases.renew(lease)  # the lease only: the delivery itself runs out

    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_a_lost_coders_story_is_taken_over_and_the_zombie_cannot_finish_it(world: World) -> None:
    lost, successor = await world.bus(), await world.bus()
    await lost.work.put(a_story())
    zombie = (await lost.work.take("coder-1/a")).claim

    async with asyncio.timeout(20):
        assignment = await successor.work.take("coder-2/b")

    assert assignment.taken_over
    assert assignment.claim.lease.epoch > zombie.lease.epoch
    with pytest.raises(LeaseLostError):
        await lost.work.keep(zombie)
    with pytest.raises(LeaseLostError):
        await lost.work.finish(zombie)
    await successor.work.finish(assignment.claim)


async def test_a_story_that_is_handed_back_is_offered_at_once(world: World) -> None:
    bus = await world.bus(lease_seconds=60)
    await bus.work.put(a_story())
    assignment = await bus.work.take("coder-1/a")

    await bus.work.hand_back(assignment.claim)
    async with asyncio.timeout(10):  # far below the lease's time
        again = await bus.work.take("coder-2/b")

    assert again.story == assignment.story


async def test_a_zombie_cannot_hand_back_what_is_another_coders_now(world: World) -> None:
    lost, successor = await world.bus(), await world.bus()
    await lost.work.put(a_story())
    zombie = (await lost.work.take("coder-1/a")).claim
    claim = await successor.work.claim("s-1", zombie.ack_subject, "coder-2/b", instead_of="coder-1/a")
    assert claim is not None

    with pytest.raises(LeaseLostError):
        await lost.work.hand_back(zombie)
    await successor.work.hand_back(claim)

    assert (await successor.work.take("coder-3/c")).delivered == 2


async def test_what_a_dead_reader_had_in_hand_comes_again_at_once(world: World) -> None:
    dead, successor = await world.bus(), await world.bus()
    inbox = await dead.mail.inbox("request", "architect", "main")
    await dead.mail.send(an_envelope(identifier="s-1.1/1/0"))
    await dead.mail.send(an_envelope(identifier="s-1.1/2/0"))
    first = await inbox.take()

    taken = await successor.mail.inbox("request", "architect", "main")
    async with asyncio.timeout(ACK_WAIT_SECONDS / 2):
        again = await taken.take()

    assert again.envelope == first.envelope
    assert again.delivery.delivered == 2
    await again.acknowledge()
    assert (await taken.take()).envelope.id == "s-1.1/2/0"


async def test_a_restarted_coder_claims_its_story_again_at_once(world: World) -> None:
    bus = await world.bus()
    await bus.work.put(a_story())
    old = (await bus.work.take("coder-1/a")).claim

    assert await bus.work.claim("s-1", old.ack_subject, "coder-2/x") is None
    new = await bus.work.claim("s-1", old.ack_subject, "coder-1/b", instead_of="coder-1/a")

    assert new is not None
    with pytest.raises(LeaseLostError):
        await bus.work.keep(old)
    await bus.work.finish(await bus.work.keep(new))
    await queue_is_empty(world, bus)


async def queue_is_empty(world: World, bus: Bus) -> None:
    """Nothing is left on the work queue; a cluster removes it a moment after it has confirmed."""
    async with asyncio.timeout(5):
        while await bus.broker.last(world.subjects.stream("WORK"), world.subjects.every("work")) is not None:
            await asyncio.sleep(0.02)


async def test_noise_on_the_work_queue_is_dead_and_the_next_story_is_taken(world: World) -> None:
    bus = await world.bus()
    await bus.broker.publish(world.subjects.work("coder", "s-0"), encode(an_envelope()))
    await bus.work.put(a_story())

    assignment = await bus.work.take("coder-1/a")

    assert assignment.story.story == "s-1"
    assert ["is no story" in letter.reason async for letter in bus.dead.all()] == [True]


@pytest.mark.parametrize("story", ["bad id *", "", "UPPER", "a..b", "s" * 65])
async def test_a_story_whose_id_cannot_be_a_name_is_dead_and_the_next_is_taken(world: World, story: str) -> None:
    bus = await world.bus()
    await bus.broker.publish(world.subjects.work("coder", "s-0"), encode(a_story(story)))
    await bus.work.put(a_story(identifier="main/2/0"))

    assignment = await bus.work.take("coder-1/a")

    assert assignment.story.story == "s-1"
    assert ["story id" in letter.reason async for letter in bus.dead.all()] == [True]


async def test_control_reaches_those_it_is_for_in_order_and_those_who_were_away(world: World) -> None:
    bus, actor = await world.bus(), await world.bus()
    signals = [
        an_envelope(Pause(), identifier="p/1/0", kind="CONTROL", recipient="all.all"),
        an_envelope(Resume(), identifier="p/2/0", kind="CONTROL", recipient="coder.all"),
        an_envelope(Pause(), identifier="p/3/0", kind="CONTROL", recipient="pm.all"),
        an_envelope(Restore(), identifier="p/4/0", kind="CONTROL", recipient="coder.coder-1"),
    ]
    for signal in signals[:2]:
        await bus.control.broadcast(signal)
    heard = []

    async def listen() -> None:
        async for signal in actor.control.listen("coder", "coder-1"):
            heard.append(signal)
            if len(heard) == 3:
                return

    listener = asyncio.create_task(listen())
    for signal in signals[2:]:
        await bus.control.broadcast(signal)
    async with asyncio.timeout(20):
        await listener

    assert [signal.envelope for signal in heard] == [signals[0], signals[1], signals[3]]
    assert heard[-1].generation == await bus.control.generation()
    assert [signal async for signal in bus.control.read("coder", "coder-1", heard[0].generation)] == heard[1:]


async def test_a_signal_that_is_heard_is_not_read_again_and_one_that_was_missed_is_read_in_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, actor = await world.bus(), await world.bus()
    signals = [an_envelope(Restore(), identifier=f"p/{n}/0", kind="CONTROL", recipient="all.all") for n in range(4)]
    missed = 3
    listen, read = actor.broker.listen, actor.broker.read
    reads = 0

    @asynccontextmanager
    async def mishears(subject: str) -> "AsyncIterator[asyncio.Queue[Message | None]]":
        async with listen(subject) as hints:
            get = hints.get

            async def get_what_is_not_missed() -> Message | None:
                while (hint := await get()) is not None and hint.sequence == missed:
                    continue
                return hint

            monkeypatch.setattr(hints, "get", get_what_is_not_missed)
            yield hints

    def counted(stream: str, subject: str, first: int = 1) -> AsyncIterator[Message]:
        nonlocal reads
        reads += 1
        return read(stream, subject, first)

    monkeypatch.setattr(actor.broker, "listen", mishears)
    monkeypatch.setattr(actor.broker, "read", counted)
    await bus.control.broadcast(signals[0])
    listening = actor.control.listen("coder", "coder-1")
    async with asyncio.timeout(20):
        told = [await anext(listening)]
        for signal in signals[1:]:
            await bus.control.broadcast(signal)
        told += [await anext(listening) for _ in signals[1:]]

    assert [signal.envelope for signal in told] == signals
    assert reads == 2, "once to begin with, once for what was missed"


async def test_an_unreadable_control_signal_does_not_stop_the_next(world: World) -> None:
    bus = await world.bus()
    await bus.broker.publish(world.subjects.control(), b"{")
    restore = an_envelope(Restore(), identifier="p/1/0", kind="CONTROL", recipient="all.all")
    await bus.control.broadcast(restore)

    async for signal in bus.control.listen("coder", "coder-1"):
        assert signal.envelope == restore
        break


async def test_an_ask_to_a_person_is_mail_like_any_other(world: World) -> None:
    bus = await world.bus()
    ask = an_envelope(Ask(ask="a-1", question="which?"), recipient="person.person")
    await bus.mail.send(ask)

    letter = await (await bus.mail.inbox("request", "person", "person")).take()

    assert letter.envelope == ask
