"""`bus dead`: the list, a letter's reason and bytes, and sending it again."""

import base64
from datetime import datetime

from bus.bus import Bus
from protocol.codec import encode
from tests.bus.command import Done, Person
from tests.contract.samples import an_envelope

NOISE = b'{"id": \x00\xff\x1b[2J\n'
NO_SUCH_LETTER = "there is no dead letter 7; `bus dead list` shows them"


async def bury_noise(bus: Bus) -> str:
    """Have the architect receive something that it cannot read; returns the subject."""
    subject = bus.subjects.request("architect", "main")
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.broker.publish(subject, NOISE, {"Nats-Msg-Id": "noise-1"})
    await bus.mail.send(an_envelope())
    await (await inbox.take()).acknowledge()
    return subject


async def test_no_letters_are_said_to_be_none(person: Person) -> None:
    assert await person.bus("dead", "list") == Done(code=0, out="", err="there are no dead letters\n")
    assert await person.bus("dead", "list", "--json") == Done(code=0, out="[]\n", err="")


async def test_a_letter_is_listed_and_shown_with_its_reason_and_bytes(person: Person, project_bus: Bus) -> None:
    subject = await bury_noise(project_bus)

    listed, as_data = await person.bus("dead", "list"), await person.bus("dead", "list", "--json")
    shown, one = await person.bus("dead", "show", "1"), await person.bus("dead", "show", "1", "--json")
    raw = await person.shell("bus dead show 1 --raw | base64 --wrap 0")

    (letter,) = as_data.data
    assert one.data == letter
    assert datetime.fromisoformat(letter.pop("at")).tzinfo is not None
    assert "not JSON" in letter["reason"]
    assert letter == {
        "number": 1,
        "holder": "architect.main",
        "reason": letter["reason"],
        "subject": subject,
        "sequence": 1,
        "message_id": "noise-1",
        "data_base64": base64.b64encode(NOISE).decode(),
    }
    assert listed.out.split(maxsplit=3)[0] == "1"
    assert listed.out.endswith(f"architect.main  {subject}  {letter['reason']}\n")
    assert listed.err == "1 dead letter\n"
    assert f"reason:     {letter['reason']}\n" in shown.out
    assert shown.out.endswith('\n{"id": \\x00\\xff\\x1b[2J\n\n')
    assert base64.b64decode(raw.out) == NOISE


async def test_a_replayed_letter_is_sent_again_and_gone(person: Person, project_bus: Bus) -> None:
    subject = await bury_noise(project_bus)

    done = await person.bus("dead", "replay", "1", "--json")
    listed = await person.bus("dead", "list", "--json")
    again = await person.bus("dead", "replay", "1")

    stored = await project_bus.broker.last(project_bus.subjects.mail_stream("architect"), subject)
    assert done == Done(code=0, out=f'{{"replayed":1,"subject":"{subject}"}}\n', err="")
    assert listed.data == []
    assert stored is not None
    assert stored.data == NOISE
    assert (again.code, again.err) == (1, NO_SUCH_LETTER.replace("7", "1").join(("bus: ", "\n")))


async def test_a_letter_that_is_not_there_is_said_so(person: Person) -> None:
    results = [await person.bus("dead", command, "7", "--json") for command in ("show", "replay")]

    assert [(result.code, result.data) for result in results] == [
        (1, {"error": "failed", "message": NO_SUCH_LETTER}),
        (1, {"error": "failed", "message": NO_SUCH_LETTER}),
    ]


async def test_a_number_that_is_none_is_a_usage_error(person: Person) -> None:
    results = [await person.bus("dead", "show", "--", number) for number in ("seven", "0", "-1")]

    assert [result.code for result in results] == [2, 2, 2]


async def test_what_a_stranger_put_among_the_letters_is_shown_and_hides_no_other(
    person: Person, project_bus: Bus
) -> None:
    bus, subject = project_bus, project_bus.subjects.dead("coder", "coder-1")
    journal = bus.subjects.journal("coder", "s-1.1")
    about = f'{{"reason": "forged", "subject": "{journal}"}}'
    await bus.broker.publish(subject, b"no headers")
    await bus.broker.publish(subject, b"no JSON", {"Callboard-Dead": "{"})
    await bus.broker.publish(subject, b"no object", {"Callboard-Dead": about, "Callboard-Body": "sha256-" + "0" * 64})
    await bus.broker.publish(subject, b"a forged record", {"Callboard-Dead": about})
    await bury_noise(bus)

    listed = await person.bus("dead", "list", "--json")
    replayed = [await person.bus("dead", "replay", str(number)) for number in (1, 2, 3, 4)]

    letters = listed.data
    assert [letter["holder"] for letter in letters] == ["coder.coder-1"] * 4 + ["architect.main"]
    assert [base64.b64decode(letter["data_base64"]) for letter in letters] == [
        b"no headers",
        b"no JSON",
        b"no object",
        b"a forged record",
        NOISE,
    ]
    assert "its body is lost" in letters[2]["reason"]
    assert [done.code for done in replayed] == [1, 1, 1, 1]
    assert all("cannot be sent again" in done.err for done in replayed)
    assert [entry async for entry in bus.journal.read()] == []
    assert len((await person.bus("dead", "list", "--json")).data) == 5


async def test_a_mended_message_is_handled_after_the_dead_one(person: Person, project_bus: Bus) -> None:
    subject = await bury_noise(project_bus)
    await person.bus("dead", "replay", "1")
    await project_bus.mail.send(an_envelope(identifier="s-1.1/2/0"))

    letter = await (await project_bus.mail.inbox("request", "architect", "main")).take()

    assert encode(letter.envelope) == encode(an_envelope(identifier="s-1.1/2/0"))
    assert [one["subject"] for one in (await person.bus("dead", "list", "--json")).data] == [subject]
