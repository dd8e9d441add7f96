"""The `bus` command as a whole: help, exit codes, errors for people and programs, and where its words go."""

import sys
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any, NoReturn

import pytest
import typer
from typer.testing import CliRunner

import bus.cli
from bus.cli.commands import app
from bus.cli.output import moment, plain
from bus.exits import Exit
from tests.bus.command import NOWHERE, Done, Person


def paths(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and group of commands, by the words that call it."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from paths(command, (*words, name))


COMMANDS = list(paths(typer.main.get_command(app)))


def test_there_are_the_commands_that_were_promised() -> None:
    assert {words[0] for words in COMMANDS if words} >= {
        *("publish", "specs", "asks", "answer", "tail", "journal", "verify", "dead", "machines", "schema"),
    }
    letters = {words[1] for words in COMMANDS if words[:1] == ("dead",) and len(words) > 1}
    assert letters == {"list", "show", "replay", "drop"}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_ends_in_examples(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], terminal_width=1000)

    assert shown.exit_code == 0
    assert f"bus {' '.join(words)}".strip() in shown.output.partition("Example")[2]


@pytest.mark.parametrize(
    "words", [words for words in COMMANDS if words not in ((), ("budget",), ("dead",), ("server",))], ids=" ".join
)
def test_every_command_speaks_json(words: tuple[str, ...]) -> None:
    assert "--json" in CliRunner().invoke(app, [*words, "--help"]).output


def test_the_exit_codes_are_documented() -> None:
    told = CliRunner().invoke(app, ["--help"], terminal_width=1000).output.partition("Exit codes: ")[2]

    assert [int(part.split()[0]) for part in told.split("; ")] == [code.value for code in Exit]


async def test_the_version_and_the_help_work_anywhere(tmp_path: Any) -> None:
    person = Person(tmp_path, NOWHERE)

    told = await person.bus("--version")
    helped = await person.bus("--help", environ={"HOME": "", "PYTHONIOENCODING": "ascii"})

    assert told == Done(code=0, out=f"callboard {version('callboard')}\n", err="")
    assert (helped.code, helped.err) == (0, "")
    assert "Exit codes" in helped.out


async def test_a_wrong_command_line_is_told_with_what_is_wrong(tmp_path: Any) -> None:
    person = Person(tmp_path, NOWHERE)

    nothing = await person.bus()
    unknown = await person.bus("frobnicate")
    option = await person.bus("verify", "--jsn", "--json")
    folder = await person.bus("-C", "missing", "verify")

    assert (nothing.code, nothing.out) == (2, "")
    assert nothing.err.startswith("Usage: bus [OPTIONS] COMMAND")
    assert (unknown.code, unknown.out) == (2, "")
    assert "No such command 'frobnicate'" in unknown.err
    assert (option.code, option.data["error"]) == (2, "usage")
    assert "--jsn" in option.data["message"]
    assert (folder.code, folder.out) == (2, "")
    assert "'missing' does not exist" in folder.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--json", "verify"), "--json goes after the command: bus COMMAND --json"),
        (("dead", "--json"), "--json goes after the command: bus dead COMMAND --json"),
        (("verify", "--json=3"), "Option '--json' does not take a value."),
        (("verify", "--project", "x"), "--project goes before the command: bus --project … verify"),
        (("dead", "list", "-C", "x"), "-C goes before the command: bus -C … dead list"),
        (("machines", "--format", "svg"), "--format must be table, mermaid or json, not 'svg'"),
        (("tail", "--count", "many"), "--count must be a whole number, 0 or more, not 'many'"),
        (("-C", "missing", "verify"), "--directory 'missing' does not exist"),
        (("-C", "/dev/null", "verify"), "--directory '/dev/null' is not a folder"),
        (("\x1b[2J",), "No such command '\\x1b[2J'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_a_wrong_word_is_answered_in_our_own(tmp_path: Any, words: tuple[str, ...], sentence: str) -> None:
    done = await Person(tmp_path, NOWHERE).bus(*words)

    assert done.code == 2
    assert done.err.splitlines()[-1] == f"bus: {sentence}"
    assert "\x1b" not in done.err


async def test_a_group_without_a_command_is_help_for_people_and_an_error_for_programs(tmp_path: Any) -> None:
    person = Person(tmp_path, NOWHERE)

    helped, as_data = await person.bus("dead"), await person.bus("server", "--json")

    assert (helped.code, helped.out) == (2, "")
    assert helped.err.startswith("Usage: bus dead [OPTIONS] COMMAND")
    assert (as_data.code, as_data.data["error"]) == (2, "usage")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_there_is_a_short_way_to_the_help(words: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, [*words, "-h"]).output == CliRunner().invoke(app, [*words, "--help"]).output


@pytest.mark.parametrize("words", [(), ("budget",), ("dead",), ("server",)], ids=" ".join)
def test_the_list_of_commands_cuts_no_sentence(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], terminal_width=80).output

    listed = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(listed) >= 3
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


async def test_a_working_folder_that_is_gone_is_said_so(tmp_path: Any) -> None:
    person = Person(tmp_path, NOWHERE)

    gone = await person.shell('mkdir gone; cd gone; rmdir "$PWD"; bus verify')
    elsewhere = await person.shell(f'mkdir gone; cd gone; rmdir "$PWD"; bus -C {person.folder} verify')

    assert gone == Done(code=2, out="", err="bus: the working folder is gone; cd to another, or use -C\n")
    assert elsewhere.code == 3


async def test_wrong_settings_are_told_all_at_once_with_a_suggestion(tmp_path: Any) -> None:
    person = Person(tmp_path, NOWHERE)
    (person.folder / "callboard.toml").write_text('[bus]\nurll = "x"\n[server]\nport = "a"\n')

    said, as_data = await person.bus("verify"), await person.bus("verify", "--json")

    assert (said.code, said.out) == (2, "")
    assert "callboard.toml:2: bus.urll is not a setting; did you mean bus.url?" in said.err
    assert "callboard.toml:4: server.port must be a whole number" in said.err
    assert (as_data.code, as_data.data["error"], as_data.err) == (2, "usage", said.err)
    assert {problem["key"] for problem in as_data.data["problems"]} == {"bus.urll", "server.port"}


async def test_an_unreachable_server_has_an_exit_code_of_its_own(tmp_path: Any) -> None:
    done = await Person(tmp_path, NOWHERE).bus("--bus-url", NOWHERE, "verify", "--json")

    assert (done.code, list(done.data)) == (3, ["error", "message"])
    assert done.data["error"] == "unreachable"
    assert done.data["message"].startswith(f"cannot reach NATS at {NOWHERE}")
    assert done.err.splitlines()[-1] == f"bus: {done.data['message']}"


async def test_a_url_that_is_none_is_a_wrong_setting(tmp_path: Any) -> None:
    done = await Person(tmp_path, NOWHERE).bus("--bus-url", "http://somewhere", "verify")

    assert (done.code, done.out) == (2, "")
    assert "must be nats://HOST:PORT" in done.err


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("bus machines > /dev/full", 1, "bus: cannot write to standard output: No space left on device\n"),
        ("bus machines --json > /dev/full", 1, "bus: cannot write to standard output: No space left on device\n"),
        ("bus machines >&-", 1, "bus: cannot write to standard output: it is closed\n"),
        ("bus machines coder > /dev/null 2>&-", 0, ""),
        ("bus frobnicate 2> /dev/full", 2, ""),
        ("bus --help > /dev/full", 1, "bus: cannot write to standard output: No space left on device\n"),
        ("bus --help | true; exit ${PIPESTATUS[0]}", 0, ""),
        ("bus machines | true; exit ${PIPESTATUS[0]}", 0, ""),
    ],
)
async def test_output_that_goes_nowhere_is_no_traceback(tmp_path: Any, line: str, code: int, said: str) -> None:
    done = await Person(tmp_path, NOWHERE).shell(line)

    assert done == Done(code=code, out="", err=said)


def test_ctrl_c_is_quiet_however_early_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "bus.cli.commands":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "bus.cli.commands")
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])

    with pytest.raises(SystemExit) as ended:
        bus.cli.main()

    assert ended.value.code == Exit.INTERRUPTED


def test_a_bug_of_ours_is_not_dressed_up_as_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise ZeroDivisionError

    monkeypatch.setattr("bus.cli.machines.as_json", broken)

    with pytest.raises(ZeroDivisionError):
        bus.cli.commands.run_command(["machines", "--json"])


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05Z"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_every_time_looks_the_same_and_none_is_too_strange(at: str, shown: str) -> None:
    assert moment(datetime.fromisoformat(at)) == shown


def test_a_text_of_unknown_origin_cannot_move_the_cursor() -> None:
    assert plain("a\x1b[2Jb\x9b\u202ec\td\né") == "a\\x1b[2Jb\\x9b\\u202ec\td\né"
