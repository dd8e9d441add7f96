"""`bus dead`: the list, a letter's reason and bytes, and sending it again."""

import base64
import json
import re
from datetime import datetime

from bus.bus import Bus
from protocol.codec import encode
from tests.bus.command import NOWHERE, Done, Person
from tests.contract.samples import an_envelope

NOISE = b'{"id": \x00\xff\x1b[2J\n'
NO_SUCH_LETTER = "project {} has no dead letter {}; `bus dead list` shows those it has"


async def bury_noise(bus: Bus) -> str:
    """Have the architect receive something that it cannot read; returns the subject."""
    subject = bus.subjects.request("architect", "main")
    inbox = await bus.mail.inbox("request", "architect", "main")
    await bus.broker.publish(subject, NOISE, {"Nats-Msg-Id": "noise-1"})
    await bus.mail.send(an_envelope())
    await (await inbox.take()).acknowledge()
    return subject


async def test_no_letters_are_said_to_be_none(person: Person, project_bus: Bus) -> None:
    said = f"there are no dead letters in project {project_bus.subjects.project}\n"

    assert await person.bus("dead", "list") == Done(code=0, out="", err=said)
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
    assert re.match(r" +1  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ  architect", listed.out)
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
    assert (again.code, again.err) == (1, f"bus: {NO_SUCH_LETTER.format(project_bus.subjects.project, 1)}\n")


async def test_a_letter_that_is_not_there_is_said_so(person: Person, project_bus: Bus) -> None:
    results = [await person.bus("dead", command, "7", "--json") for command in ("show", "replay", "drop")]

    message = NO_SUCH_LETTER.format(project_bus.subjects.project, 7)
    assert [(result.code, result.data) for result in results] == [(1, {"error": "failed", "message": message})] * 3


async def test_a_number_that_is_none_is_a_usage_error(person: Person) -> None:
    numbers = ("seven", "0", "-1", "1_0", "9" * 19, "9" * 5000)

    results = [await person.bus("dead", "show", "--", number) for number in numbers]

    assert [result.code for result in results] == [2] * len(numbers)
    assert [result.err.splitlines()[-1] for result in results] == [
        f"bus: NUMBER must be a whole number, 1 or more, not '{number}'" for number in numbers
    ]


async def test_bytes_and_json_cannot_be_had_at_once(person: Person) -> None:
    done = await person.bus("dead", "show", "1", "--json", "--raw", environ={"NATS_URL": NOWHERE})

    message = "--raw and --json contradict each other: leave one out"
    assert (done.code, done.data) == (2, {"error": "usage", "message": message})


async def test_a_dropped_letter_is_named_and_gone_with_the_message_that_the_broker_gave_up(
    person: Person, project_bus: Bus
) -> None:
    bus, subjects = project_bus, project_bus.subjects
    await bury_noise(bus)
    stuck = await bus.broker.publish(subjects.request("pm", "main"), b"{}")
    advisory = {"stream": subjects.mail_stream("pm"), "consumer": "request-main", "stream_seq": stuck.sequence}
    told = subjects.delivery_limit_advisories(subjects.mail_stream("pm")).replace("*", "request-main")
    await bus.broker.publish(told, json.dumps({**advisory, "deliveries": 5}).encode())

    said, as_data = await person.bus("dead", "drop", "1"), await person.bus("dead", "drop", "2", "--json")
    again = await person.bus("dead", "drop", "1")

    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("dropped letter 1 of architect.main: ")
    assert as_data.data == {
        "dropped": 2,
        "subject": subjects.request("pm", "main"),
        "reason": "delivered 5 times without being handled",
    }
    assert again.code == 1
    assert (await person.bus("dead", "list", "--json")).data == []
    assert await bus.broker.last(subjects.mail_stream("pm"), ">") is None


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

    listed, said = await person.bus("dead", "list", "--json"), await person.bus("dead", "list")
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
    assert [re.split(" {2,}", line.strip())[2:4] for line in said.out.splitlines()] == [
        [letter["holder"], letter["subject"] or "?"] for letter in letters
    ]
    assert [done.code for done in replayed] == [1, 1, 1, 1]
    assert all("cannot be sent again" in done.err for done in replayed)
    assert [done.err.rpartition("; ")[2] for done in replayed] == [
        f"`bus dead drop {number}` removes it for good\n" for number in (1, 2, 3, 4)
    ]
    assert [entry async for entry in bus.journal.read()] == []
    assert len((await person.bus("dead", "list", "--json")).data) == 5


async def test_a_mended_message_is_handled_after_the_dead_one(person: Person, project_bus: Bus) -> None:
    subject = await bury_noise(project_bus)
    await person.bus("dead", "replay", "1")
    await project_bus.mail.send(an_envelope(identifier="s-1.1/2/0"))

    letter = await (await project_bus.mail.inbox("request", "architect", "main")).take()

    assert encode(letter.envelope) == encode(an_envelope(identifier="s-1.1/2/0"))
    assert [one["subject"] for one in (await person.bus("dead", "list", "--json")).data] == [subject]
