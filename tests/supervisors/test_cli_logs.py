"""`supervisor logs`: everybody's lines in the order of time, and what comes, also out of new and rotated files."""

import json
import signal
from pathlib import Path

import pytest

from tests.bus.command import NOWHERE, Person


@pytest.fixture
async def writer(tmp_path: Path) -> Person:
    """Somebody whose broker cannot be reached: logs need none."""
    return Person(tmp_path, NOWHERE)


def folder(person: Person) -> Path:
    """Where the logs of the person's project are, by the rule of the settings page."""
    (state,) = (person.state / "callboard").iterdir()
    return state / "logs"


async def opened(person: Person) -> Path:
    """The folder, made by the command itself and then filled by a test."""
    done = await person.supervisor("logs")
    assert done.err.startswith("nobody has said anything yet")
    logs = folder(person)
    logs.mkdir()
    return logs


def line(second: int, event: str, **facts: object) -> str:
    """A line as actors write them."""
    return json.dumps({"event": event, "level": "info", "timestamp": f"2026-01-02T03:04:{second:02}.000000Z", **facts})


def write(path: Path, *lines: str) -> None:
    """Say something more."""
    with path.open("a") as file:
        file.writelines(f"{each}\n" for each in lines)


async def test_lines_of_all_are_shown_in_the_order_of_time(writer: Person) -> None:
    logs = await opened(writer)
    write(logs / "coder-1.log", line(1, "one", story="s-1"), "Fatal: \x1b[2Jno json", line(5, "five"))
    write(logs / "supervisor.log", line(3, "three", exception="Traceback\n  KeyError"))
    write(logs / "notes.txt", "nothing of ours")

    done, as_data = await writer.supervisor("logs"), await writer.supervisor("logs", "--json")
    only = await writer.supervisor("logs", "supervisor", "--json")

    words = [each.split() for each in done.out.splitlines()]
    assert [each[1:3] for each in words if each[0].startswith("2026")] == [
        ["coder-1", "info"],
        ["coder-1", "Fatal:"],
        ["supervisor", "info"],
        ["coder-1", "info"],
    ]
    assert words[0][3:] == ["one", "story=s-1"]
    assert ["KeyError"] in words
    assert "\x1b" not in done.out
    assert [each.get("event", each.get("line")) for each in as_data.lines] == [
        "one",
        "Fatal: \x1b[2Jno json",
        "three",
        "five",
    ]
    assert [each["event"] for each in only.lines] == ["three"]


@pytest.mark.parametrize(
    ("number", "shown"), [("0", []), ("2", ["e29", "e30"]), ("12", [f"e{n}" for n in range(19, 31)])]
)
async def test_the_last_lines_are_found_also_where_a_file_was_put_aside(
    writer: Person, number: str, shown: list[str]
) -> None:
    logs = await opened(writer)
    write(logs / "coder-1.log.1", *(line(n, f"e{n}", padding="x" * 20_000) for n in range(1, 26)))
    write(logs / "coder-1.log", *(line(n, f"e{n}") for n in range(26, 31)))

    done = await writer.supervisor("logs", "coder-1", "--lines", number, "--json")

    assert [each["event"] for each in done.lines] == shown


async def test_what_comes_is_followed_through_new_and_rotated_files(writer: Person) -> None:
    logs = await opened(writer)
    write(logs / "coder-1.log", line(1, "before"))

    async with writer.running_supervisor("logs", "--follow", "--json") as command:
        await command.until_said("following")
        seen = [json.loads(await command.line())["event"]]
        write(logs / "coder-1.log", line(2, "more"))
        seen.append(json.loads(await command.line())["event"])
        (logs / "coder-1.log").rename(logs / "coder-1.log.1")
        write(logs / "coder-1.log.1", line(3, "last of the old"))
        write(logs / "coder-1.log", line(4, "first of the new"))
        seen += [json.loads(await command.line())["event"] for _ in range(2)]
        write(logs / "coder-2.log", line(5, "newcomer"))
        seen.append(json.loads(await command.line())["event"])
        with (logs / "coder-2.log").open("a") as file:
            file.write(line(6, "half")[:10])
            file.flush()
            file.write(line(6, "half")[10:] + "\n")
        seen.append(json.loads(await command.line())["event"])
        ended = await command.end(signal.SIGINT)

    assert seen == ["before", "more", "last of the old", "first of the new", "newcomer", "half"]
    assert (ended.code, ended.out) == (130, "")


async def test_a_name_without_a_log_is_an_error_that_lists_those_with_one(writer: Person) -> None:
    logs = await opened(writer)
    write(logs / "coder-1.log", line(1, "one"))

    done = await writer.supervisor("logs", "codr-1")

    assert (done.code, done.out) == (1, "")
    assert done.err.endswith("; there are coder-1\n")


async def test_a_reader_that_has_enough_ends_it(writer: Person) -> None:
    logs = await opened(writer)
    write(logs / "coder-1.log", *(line(1, f"e{n}") for n in range(40)))

    done = await writer.shell("supervisor logs --follow 2>/dev/null | head -1; exit ${PIPESTATUS[0]}")

    assert done.code == 0
    assert len(done.out.splitlines()) == 1
