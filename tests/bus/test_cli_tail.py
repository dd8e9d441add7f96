"""`bus tail`: what is said, as it is said; for people, for programs, and until somebody has heard enough."""

import base64
import json
import signal

import pytest

from bus.bus import Bus
from protocol.codec import encode
from tests.bus.command import NOWHERE, SPEC, Person
from tests.contract.samples import a_record, an_envelope


async def test_messages_are_shown_as_they_are_sent_each_once(person: Person, project_bus: Bus) -> None:
    bus, prefix = project_bus, f"callboard.{project_bus.subjects.project}"
    async with person.running("tail", "--count", "3") as tail:
        await tail.until_said("listening")
        await bus.mail.send(an_envelope())
        await bus.journal.append(a_record(), 0)  # the broker repeats it for followers, which is not news
        await bus.broker.publish(bus.subjects.event("coder", "coder-1"), b"\x1b[2J\xff noise\n" + b"x" * 1000)

        done = await tail.end()

    request, record, noise = done.out.splitlines()
    assert (done.code, done.err) == (0, f"listening to {prefix}.>\n")
    assert request.split() == [
        f"{prefix}.request.architect.main",
        *("2026-01-02T03:04:05Z", "REQUEST", "Question", "coder.coder-1", "→", "architect.main", "s-1.1/1/0"),
    ]
    assert record.split() == [
        f"{prefix}.journal.coder.s-1.1",
        *("coder", "s-1.1", "1", "2026-01-02T03:04:05Z", "WAITING", "→", "SETUP", "timer"),
    ]
    assert noise.startswith(f"{prefix}.event.coder.coder-1  \\x1b[2J\\xff noise\\nxxx")
    assert len(noise) < 300


async def test_programs_get_a_line_of_json_each(person: Person, project_bus: Bus) -> None:
    bus = project_bus
    async with person.running("tail", "request.>", "--json", "--count", "2") as tail:
        await tail.until_said("listening")
        await bus.broker.publish(bus.subjects.reply("coder", "coder-1"), b"not listened to")
        await bus.mail.send(an_envelope())
        await bus.broker.publish(bus.subjects.request("pm", "main"), b"\xff\n")

        done = await tail.end()

    message, noise = done.lines
    assert (message["subject"], message["message"]) == (
        bus.subjects.request("architect", "main"),
        json.loads(encode(an_envelope())),
    )
    assert (noise["subject"], base64.b64decode(noise["data_base64"])) == (bus.subjects.request("pm", "main"), b"\xff\n")
    assert "at" in message


async def test_wildcards_and_whole_subjects_are_understood(person: Person, project_bus: Bus) -> None:
    bus = project_bus
    whole = bus.subjects.request("architect", "main")
    async with (
        person.running("tail", whole, "--count", "1") as named,
        person.running("tail", "*.*.main", "--count", "1") as wild,
    ):
        await named.until_said(f"listening to {whole}\n")
        await wild.until_said(f"listening to callboard.{bus.subjects.project}.*.*.main\n")
        await bus.broker.publish(bus.subjects.request("architect", "other"), b"{}")
        await bus.broker.publish(whole, b"{}")

        heard = [await named.end(), await wild.end()]

    assert [(done.code, done.out) for done in heard] == [(0, f"{whole}  {{}}\n")] * 2


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        ("spec", "spec.>"),
        ("spec.pm", "spec.pm.>"),
        ("*", "*.>"),
        ("journal.coder.s-1", "journal.coder.s-1"),
        ("event.>", "event.>"),
        ("callboard.{}", ">"),
        ("callboard.{}.spec", "spec.>"),
    ],
)
async def test_the_beginning_of_a_subject_is_all_that_begins_so(
    person: Person, project_bus: Bus, words: str, pattern: str
) -> None:
    project = project_bus.subjects.project
    async with person.running("tail", words.format(project)) as tail:
        await tail.until_said("\n")

        done = await tail.end(signal.SIGTERM)

    assert done.err == f"listening to callboard.{project}.{pattern}\n"


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        ("", "must begin with one of request, spec"),
        ("reqest.>", "must begin with one of request, spec"),
        ("callboard.other.>", "another project's, which --project chooses"),
        ("request.>.main", "nothing can follow it"),
        ("request..main", "'' cannot stand between two dots"),
        ("request.a b", "'a b' cannot stand between two dots"),
        ("request.main*", "'main*' cannot stand between two dots"),
    ],
)
async def test_a_subject_on_which_nothing_can_be_said_is_refused_at_once(
    person: Person, subject: str, reason: str
) -> None:
    done = await person.bus("tail", subject, environ={"NATS_URL": NOWHERE})

    assert (done.code, done.out) == (2, "")
    assert reason in done.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
async def test_a_signal_ends_it_quietly_with_the_documented_code(
    person: Person, number: signal.Signals, code: int
) -> None:
    async with person.running("tail", "--json") as tail:
        await tail.until_said("listening")

        done = await tail.end(number)

    assert (done.code, done.out) == (code, "")
    assert done.err.splitlines()[1:] == []


async def test_it_ends_when_its_reader_has_read_enough(person: Person, project_bus: Bus) -> None:
    line = "bus tail 'request.>' | head -1; echo ${PIPESTATUS[@]}"
    async with person.running_shell(line) as shell:
        await shell.until_said("listening")
        await project_bus.mail.send(an_envelope())

        done = await shell.end()

    assert done.out.splitlines()[1:] == ["0 0"]
    assert done.err.splitlines()[1:] == []


async def test_a_broker_that_goes_away_is_waited_for_and_the_gap_is_told(loner: Person) -> None:
    await loner.bus("server", "start")
    try:
        async with loner.running("tail", "--count", "1") as tail:
            await tail.until_said("listening")
            await loner.bus("server", "stop")
            await loner.bus("server", "start")
            await tail.until_said("messages may be missing here")
            await loner.bus("publish", "-", stdin=SPEC.encode())

            done = await tail.end()
    finally:
        await loner.bus("server", "stop")

    assert done.code == 0
    assert "SpecUpload" in done.out
