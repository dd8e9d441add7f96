"""`bus journal` and `bus verify`: sessions, records, what cannot be read, and what cannot have happened."""

import base64
import signal

import msgspec

from bus.bus import Bus
from bus.cli.lines import tag
from protocol.codec import encode
from protocol.record import Record
from tests.bus.command import Done, Person
from tests.contract.samples import a_record

NO_SUCH_SESSION = "project {} has no record of a session s-9.1; `bus journal` lists the sessions"


def a_step(n: int, state_from: str, state_to: str, session: str = "s-1.1") -> Record:
    effects = (msgspec.Raw(b'{"effect":"prepare_workspace","story":"s-1"}'),)
    step = msgspec.structs.replace(a_record(n, session=session), state_from=state_from, state_to=state_to)
    return msgspec.structs.replace(step, effects=effects) if n == 1 else step


async def append(bus: Bus, *records: Record) -> None:
    for record in records:
        last = await bus.journal.last(record.machine, record.session)
        await bus.journal.append(record, last.sequence if last else 0)


async def test_an_empty_journal_is_said_to_be_empty(person: Person, project_bus: Bus) -> None:
    listed, as_data, checked = (
        await person.bus("journal"),
        await person.bus("journal", "--json"),
        await person.bus("verify"),
    )

    project = project_bus.subjects.project
    assert listed == Done(code=0, out="", err=f"no session of project {project} has recorded anything yet\n")
    assert as_data == Done(code=0, out="[]\n", err="")
    assert checked == Done(code=0, out="", err=f"0 records, 0 offences (project {project})\n")


async def test_sessions_are_listed_with_their_records_and_state(person: Person, project_bus: Bus) -> None:
    await append(project_bus, a_step(1, "WAITING", "SETUP"), a_step(2, "SETUP", "PLANNING"))
    await append(project_bus, a_step(1, "WAITING", "SETUP", session="s-2.1"))

    listed, as_data = await person.bus("journal"), await person.bus("journal", "--json")

    assert [line.split() for line in listed.out.splitlines()] == [
        ["coder", "s-1.1", "2", "records", "PLANNING"],
        ["coder", "s-2.1", "1", "record", "SETUP"],
    ]
    assert listed.err == "2 sessions\n"
    assert as_data.data == [
        {"machine": "coder", "session": "s-1.1", "records": 2, "state": "PLANNING"},
        {"machine": "coder", "session": "s-2.1", "records": 1, "state": "SETUP"},
    ]


async def test_the_records_of_a_session_are_shown_and_no_others(person: Person, project_bus: Bus) -> None:
    await append(project_bus, a_step(1, "WAITING", "SETUP"), a_step(2, "SETUP", "SETUP"))
    await append(project_bus, a_step(1, "WAITING", "SETUP", session="s-2.1"))

    shown, as_data = await person.bus("journal", "s-1.1"), await person.bus("journal", "s-1.1", "--json")

    assert [line.split() for line in shown.out.splitlines()] == [
        [
            "coder",
            "s-1.1",
            "1",
            "2026-01-02T03:04:05Z",
            *["WAITING", "→", "SETUP", "timer", "⇒", "prepare_workspace"],
        ],
        ["coder", "s-1.1", "2", "2026-01-02T03:04:05Z", "SETUP", "timer"],
    ]
    assert (shown.code, shown.err) == (0, "")
    assert as_data.out.encode() == b"".join(
        encode(record) + b"\n" for record in (a_step(1, "WAITING", "SETUP"), a_step(2, "SETUP", "SETUP"))
    )


async def test_a_session_that_is_not_there_is_said_so(person: Person, project_bus: Bus) -> None:
    results = [await person.bus(command, "s-9.1", "--json") for command in ("journal", "verify")]

    message = NO_SUCH_SESSION.format(project_bus.subjects.project)
    assert [result.code for result in results] == [1, 1]
    assert [result.data for result in results] == [{"error": "failed", "message": message}] * 2
    assert [result.err for result in results] == [f"bus: {message}\n"] * 2


async def test_a_session_with_wildcards_is_refused(person: Person) -> None:
    results = [await person.bus(command, "s-*") for command in ("journal", "verify")]

    assert [(result.code, result.out) for result in results] == [(2, ""), (2, "")]
    assert all("'s-*' cannot be part of a subject" in result.err for result in results)


async def test_following_shows_what_was_and_what_comes_until_ctrl_c(person: Person, project_bus: Bus) -> None:
    await append(project_bus, a_step(1, "WAITING", "SETUP"))
    async with person.running("journal", "s-1.1", "--follow", "--json") as follower:
        before = await follower.line()
        await append(project_bus, a_step(2, "SETUP", "PLANNING"))
        after = await follower.line()

        done = await follower.end(signal.SIGINT)

    assert [msgspec.json.decode(line)["n"] for line in (before, after)] == [1, 2]
    assert done == Done(code=130, out="", err="following s-1.1\n")


async def test_a_pipe_that_is_closed_early_ends_the_journal_quietly(person: Person, project_bus: Bus) -> None:
    await append(project_bus, *(a_step(n, "WAITING", "WAITING") for n in range(1, 31)))

    listed = await person.shell("bus journal s-1.1 | head -1; echo ${PIPESTATUS[@]}")
    # Nothing more comes, so the follower cannot find out by writing.
    followed = await person.shell("bus journal s-1.1 --follow | head -1; echo ${PIPESTATUS[@]}")

    assert [line.split()[-1] for line in listed.out.splitlines()] == ["prepare_workspace", "0"]
    assert [line.split()[-1] for line in followed.out.splitlines()] == ["prepare_workspace", "0"]
    assert (listed.err, followed.err) == ("", "following s-1.1\n")


async def test_a_sound_history_verifies(person: Person, project_bus: Bus) -> None:
    await append(project_bus, a_step(1, "WAITING", "SETUP"), a_step(2, "SETUP", "PLANNING"))

    said, as_data = await person.bus("verify"), await person.bus("verify", "s-1.1", "--json")

    assert said == Done(code=0, out="", err="2 records, 0 offences\n")
    assert as_data == Done(code=0, out='{"records":2,"offences":[]}\n', err="")


async def test_an_illegal_record_is_named_and_the_exit_code_says_so(person: Person, project_bus: Bus) -> None:
    await append(project_bus, a_step(1, "WAITING", "SETUP"), a_step(2, "SETUP", "DONE"))
    await append(project_bus, a_step(1, "WAITING", "SETUP", session="s-2.1"))

    said, as_data = await person.bus("verify"), await person.bus("verify", "--json")
    other = await person.bus("verify", "s-2.1")

    reason = "coder: SETUP → DONE is not an edge; SETUP leads to PLANNING, ERROR, SUSPEND"
    assert said == Done(code=1, out=f"coder s-1.1 record 2: {reason}\n", err="3 records, 1 offence\n")
    assert (as_data.code, as_data.data) == (
        1,
        {
            "records": 3,
            "offences": [
                {
                    "machine": "coder",
                    "session": "s-1.1",
                    "n": 2,
                    "state_from": "SETUP",
                    "state_to": "DONE",
                    "rule": "edge",
                    "reason": reason,
                }
            ],
        },
    )
    assert other.code == 0


async def test_unreadable_and_misplaced_records_are_offences_in_their_place(person: Person, project_bus: Bus) -> None:
    subjects, noise = project_bus.subjects, b"\x00\xff\x1b[2J{"
    strange = (
        (subjects.journal("coder", "s-1.1"), noise),
        (subjects.journal("coder", "s-2.1"), encode(a_step(1, "WAITING", "SETUP", session="s-3.1"))),
        (
            subjects.journal("nobody", "s-4.1"),
            encode(msgspec.structs.replace(a_record(session="s-4.1"), machine="nobody")),
        ),
        (subjects.journal("coder", "s-5.1"), encode(msgspec.structs.replace(a_record(session="s-5.1"), schema=99))),
    )
    for subject, data in strange:
        await project_bus.broker.publish(subject, data)
    await append(project_bus, a_step(1, "WAITING", "DONE", session="s-6.1"))

    said, as_data = await person.bus("verify"), await person.bus("verify", "--json")

    offences = as_data.data["offences"]
    assert (said.code, as_data.code, as_data.data["records"]) == (1, 1, 5)
    assert [(one["session"], one["rule"]) for one in offences] == [
        ("s-1.1", "unreadable"),
        ("s-2.1", "name"),
        ("s-4.1", "machine"),
        ("s-5.1", "unreadable"),
        ("s-6.1", "edge"),
    ]
    assert base64.b64decode(offences[0]["data_base64"]) == noise
    assert [line.partition(":")[0] for line in said.out.splitlines()] == [
        "coder s-1.1 sequence 1",
        "coder s-2.1 sequence 2",
        "nobody s-4.1 record 1",
        "coder s-5.1 sequence 4",
        "coder s-6.1 record 1",
    ]


async def test_noise_in_a_journal_is_shown_harmlessly(person: Person, project_bus: Bus) -> None:
    subject = project_bus.subjects.journal("coder", "s-1.1")
    inside = encode(a_record(2)).replace(b'"timer"', b'"\\u001b[2J\xff"').replace(b"{}", b"[" * 5000 + b"]" * 5000)
    for data in (b"{", inside, b""):
        await project_bus.broker.publish(subject, data)

    shown, as_data = await person.bus("journal", "s-1.1"), await person.bus("journal", "s-1.1", "--json")
    listed = await person.bus("journal")

    assert (shown.code, as_data.code, listed.code) == (0, 0, 0)
    assert len(shown.out.splitlines()) == 3
    assert [base64.b64decode(line["data_base64"]) for line in as_data.lines] == [b"{", inside, b""]
    assert "\x1b" not in shown.out + as_data.out
    assert listed.out.split() == ["coder", "s-1.1", "3", "records", "?"]


def test_an_event_is_called_by_its_tag_and_by_nothing_else() -> None:
    raws = (
        b'{"event":"received","message":{"payload":"answer"}}',
        b'{"n":1,"text":"a user wrote this"}',
        b'"restored"',
        b"{}",
        b"[1]",
        b"[" * 100_000,
        b'{"event":"\xff"}',
    )

    tags = [tag(msgspec.Raw(raw)) for raw in raws]

    assert tags == ["received", "?", "restored", "?", "?", "?", "?"]
