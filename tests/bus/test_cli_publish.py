"""`bus publish`: valid, invalid, again, changed, large, and things that are no spec at all."""

import os
import signal
import sys
from pathlib import Path

import pytest

from bus.bus import Bus
from protocol.messages import Envelope, SpecUpload
from protocol.spec import SPEC_BYTES_MAX
from tests.bus.brokers import eventually
from tests.bus.command import BUS, EXAMPLE, NOWHERE, SPEC, Done, Person

BROKEN = """---
id: Not An Id
title: x
---

## Vision

Something.

## Requirements

### R-001: One

**Dependencies:** R-002
"""


async def taken(bus: Bus, count: int) -> list[Envelope]:
    """The specs that wait for the PM; the inbox is then empty, for the next message must be the one sent here."""
    inbox = await bus.mail.inbox("spec", "pm", "main")
    letters = []
    for _ in range(count):
        letters.append(letter := await inbox.take())
        await letter.acknowledge()
    assert await bus.broker.last(bus.subjects.mail_stream("pm"), ">") is None
    return [letter.envelope for letter in letters]


def upload(envelope: Envelope) -> SpecUpload:
    assert isinstance(envelope.payload, SpecUpload)
    return envelope.payload


async def test_a_spec_is_published_once_however_often_it_is_told(person: Person, project_bus: Bus) -> None:
    first = await person.bus("publish", str(EXAMPLE))
    again = await person.bus("publish", "-", stdin=SPEC.encode())
    as_data = await person.bus("publish", str(EXAMPLE), "--json")

    (envelope,) = await taken(project_bus, 1)
    digest = upload(envelope).digest
    project = project_bus.subjects.project
    assert first == Done(code=0, out=f"published todo as revision 1 (project {project})\n", err="")
    assert (again.code, again.err) == (0, "")
    assert again.out == (
        f"todo was published before with the same text (revision 1): nothing sent (project {project})\n"
    )
    assert as_data.data == {"status": "unchanged", "spec": "todo", "revision": 1, "digest": digest}
    assert upload(envelope) == SpecUpload(spec="todo", revision=1, markdown=SPEC, digest=digest)


async def test_a_changed_text_is_a_revision(person: Person, project_bus: Bus) -> None:
    changed = SPEC.replace("People who live", "All who live")
    await person.bus("publish", str(EXAMPLE))

    done = await person.bus("publish", "-", "--json", stdin=changed.encode())

    _, envelope = await taken(project_bus, 2)
    assert (done.code, done.data["status"], done.data["revision"]) == (0, "revised", 2)
    assert (upload(envelope).revision, upload(envelope).markdown) == (2, changed)


async def test_in_classic_a_spec_goes_to_the_architect(person: Person, project_bus: Bus) -> None:
    done = await person.bus("publish", str(EXAMPLE), environ={"CALLBOARD_EDITION": "classic"})

    inbox = await project_bus.mail.inbox("spec", "architect", "main")
    assert done.code == 0
    assert upload((await inbox.take()).envelope).markdown == SPEC


async def test_a_large_spec_travels_by_the_object_store(person: Person, project_bus: Bus) -> None:
    large = SPEC.replace("## Vision\n", f"## Vision\n\n{'word ' * 80_000}\n", 1)

    done = await person.bus("publish", "-", stdin=large.encode())

    (envelope,) = await taken(project_bus, 1)
    assert (done.code, done.err) == (0, "")
    assert upload(envelope).markdown == ""
    assert await project_bus.objects.get(upload(envelope).object) == large.encode()


async def test_the_embedded_server_takes_messages_as_large_as_the_settings_say(loner: Person) -> None:
    spec = SPEC.replace("## Vision\n", f"## Vision\n\n{'word ' * 45_000}\n", 1).encode()

    # 220 KiB would travel whole, but here no message may be larger than 128 KiB (and some for its headers).
    small = await loner.bus("publish", "-", stdin=spec, environ={"CALLBOARD_BUS_MESSAGE_BYTES_MAX": str(128 * 1024)})

    config = next(loner.state.rglob("server.conf")).read_text()
    assert small == Done(code=0, out="published todo as revision 1 (project project)\n", err="")
    assert f"max_payload: {(128 + 64) * 1024}" in config


async def test_every_problem_of_an_invalid_spec_is_told_with_its_line(person: Person, project_bus: Bus) -> None:
    (person.folder / "broken.md").write_text(BROKEN)

    said = await person.bus("publish", "broken.md")
    as_data = await person.bus("publish", "broken.md", "--json")

    problems = as_data.data["problems"]
    assert (said.code, said.out, as_data.code) == (1, "", 1)
    assert as_data.data["status"] == "invalid"
    assert {problem["line"] for problem in problems} >= {2, 14}
    assert [line.partition(": ")[0] for line in said.err.splitlines()[:-1]] == [
        f"broken.md:{problem['line']}" for problem in problems
    ]
    assert said.err.splitlines()[:-1] == [f"broken.md:{p['line']}: {p['what']}: {p['fix']}" for p in problems]
    assert said.err.splitlines()[-1] == (
        f"bus: broken.md is not a valid spec ({len(problems)} problems): nothing was published"
    )
    assert await taken(project_bus, 0) == []


async def test_a_dry_run_needs_no_broker_and_sends_nothing(person: Person, project_bus: Bus) -> None:
    valid = await person.bus("publish", "--dry-run", str(EXAMPLE), environ={"NATS_URL": NOWHERE})
    as_data = await person.bus("publish", "--dry-run", "--json", str(EXAMPLE), environ={"NATS_URL": NOWHERE})
    invalid = await person.bus("publish", "--dry-run", "-", stdin=BROKEN.encode(), environ={"NATS_URL": NOWHERE})

    assert valid == Done(code=0, out="todo is valid\n", err="")
    assert as_data.data == {"status": "valid", "spec": "todo"}
    assert invalid.code == 1
    assert invalid.err.startswith("<stdin>:2: ")
    assert invalid.err.splitlines()[-1].startswith("bus: <stdin> is not a valid spec (")
    assert await taken(project_bus, 0) == []
    assert not person.state.exists()


async def test_a_dry_run_needs_no_settings_either(person: Person) -> None:
    (person.folder / "callboard.toml").write_text("not [TOML\n")

    checked, published = await person.bus("publish", "--dry-run", str(EXAMPLE)), await person.bus("publish", "-")

    assert checked == Done(code=0, out="todo is valid\n", err="")
    assert (published.code, published.out) == (2, "")


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"\xfe.md", "\\udcfe.md"), (b"\x1b[2J.md", "\\x1b[2J.md"), (b"two\nlines.md", "two\\nlines.md")],
    ids=["no UTF-8", "escape", "newline"],
)
async def test_a_hostile_file_name_reaches_neither_terminal_nor_program(
    person: Person, name: bytes, shown: str
) -> None:
    missing = await person.bus("publish", os.fsdecode(name), "--json")
    said = await person.bus("publish", os.fsdecode(name))
    (person.folder / os.fsdecode(name)).write_text(BROKEN)
    broken = await person.bus("publish", os.fsdecode(name))

    assert (missing.code, missing.data["error"]) == (2, "usage")
    assert said == Done(code=2, out="", err=f"bus: {shown}: No such file or directory\n")
    assert missing.err == said.err
    assert all(line.startswith((f"{shown}:", f"bus: {shown} is not")) for line in broken.err.splitlines())


async def test_a_file_without_a_name_is_said_to_have_none(person: Person) -> None:
    done = await person.bus("publish", "")

    assert done == Done(code=2, out="", err="bus: no file was named: bus publish FILE, or - for standard input\n")


@pytest.mark.parametrize(
    ("number", "code", "what"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 143, "terminated"),
    ],
)
async def test_a_signal_while_it_reads_has_the_documented_code_and_a_word(
    person: Person, number: signal.Signals, code: int, what: str
) -> None:
    line = "import os, pty; master, slave = pty.openpty(); os.set_inheritable(master, True); os.dup2(slave, 0); "
    line += f"os.execv('{BUS}', ['bus', 'publish', '-', '--json'])"
    async with person.running_shell(f'exec {sys.executable} -c "{line}"') as publish:
        await publish.until_said("reading the spec from here; end it with Ctrl-D\n")

        done = await publish.end(number)

    assert (done.code, done.data) == (code, {"error": what, "message": what})
    assert done.err.splitlines()[1:] == [f"bus: {what}"]


@pytest.mark.parametrize(
    ("number", "code", "what"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
async def test_a_signal_while_it_publishes_says_what_to_do(
    loner: Person, number: signal.Signals, code: int, what: str
) -> None:
    begun, go = loner.slow_server()
    async with loner.running("publish", "--json", str(EXAMPLE)) as command:
        await eventually("a server that starts", begun.exists)

        command.send(number)
        go.touch()
        done = await command.end()

    message = f"{what}; publish again if in doubt: the same text is sent only once"
    assert (done.code, done.data) == (code, {"error": what, "message": message})
    assert done.err == f"bus: {message}\n"


async def test_a_file_that_cannot_be_read_is_a_usage_error(person: Person) -> None:
    missing = await person.bus("publish", "missing.md", "--json", environ={"NATS_URL": NOWHERE})
    folder = await person.bus("publish", ".", environ={"NATS_URL": NOWHERE})
    closed = await person.shell("bus publish - <&-")

    assert (missing.code, missing.data) == (
        2,
        {"error": "usage", "message": "missing.md: No such file or directory"},
    )
    assert folder == Done(code=2, out="", err="bus: .: Is a directory\n")
    assert closed == Done(code=2, out="", err="bus: standard input is closed: there is no spec to read\n")


async def test_a_file_is_looked_for_where_the_command_is_said_to_start(person: Person) -> None:
    elsewhere = person.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "spec.md").write_text(SPEC)

    done = await person.bus("-C", "elsewhere", "publish", "--dry-run", "spec.md")

    assert done == Done(code=0, out="todo is valid\n", err="")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the spec is empty"),
        (bytes(range(256)) * 100, "the spec is not UTF-8 text"),
        (b"\x1b[2J\x07 bell", "no front matter"),
        (b"hello there\n" * (50 * 1024 * 1024 // 12), f"larger than {SPEC_BYTES_MAX:,} bytes"),
    ],
    ids=["empty", "noise", "controls", "50 MB"],
)
async def test_what_is_no_spec_is_refused_with_the_reason(tmp_path: Path, data: bytes, problem: str) -> None:
    person = Person(tmp_path, NOWHERE)
    (person.folder / "thing").write_bytes(data)

    done = await person.bus("publish", "thing")

    assert (done.code, done.out) == (1, "")
    assert problem in done.err
    assert "\x1b" not in done.err
