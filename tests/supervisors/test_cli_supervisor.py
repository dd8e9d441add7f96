"""The `supervisor` command as a whole: what `bus` promises of itself holds for it, too."""

import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import supervisors.cli
from bus.exits import Exit
from supervisors.cli.commands import app
from tests.bus.command import NOWHERE, Person
from tests.bus.test_cli import paths

COMMANDS = list(paths(typer.main.get_command(app)))


def test_there_are_the_commands_that_were_promised() -> None:
    promised = "status tree why restart restore pause resume scale logs settings clean"

    assert {words[0] for words in COMMANDS if words} >= set(promised.split())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_help_ends_in_examples(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"], terminal_width=1000)

    assert shown.exit_code == 0
    assert f"supervisor {' '.join(words)}".strip() in shown.output.partition("Example")[2]


@pytest.mark.parametrize("words", [words for words in COMMANDS if words], ids=" ".join)
def test_every_command_speaks_json(words: tuple[str, ...]) -> None:
    assert "--json" in CliRunner().invoke(app, [*words, "--help"]).output


def test_the_exit_codes_are_documented() -> None:
    told = CliRunner().invoke(app, ["--help"], terminal_width=1000).output.partition("Exit codes: ")[2]

    assert [int(part.split()[0]) for part in told.split("; ")] == [code.value for code in Exit]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--json", "status"), "--json goes after the command: supervisor COMMAND --json"),
        (("why", "x", "--project", "y"), "--project goes before the command: supervisor --project … why"),
        (("scale", "coder"), "say which role and how many, like coder=8, not 'coder'"),
        (("scale", "coder=many"), "the size of coder must be a whole number, 0 or more, not 'many'"),
        (("scale", "coder=501"), "coder=501: a pool has 0 to 500"),
        (("scale", "pm=2"), "pm=2: there is no pool of that role, only of coder"),
        (("logs", "../x", "-f"), "'../x' is no name of a process"),
        (("logs", "--lines", "-1"), "--lines must be a whole number, 0 or more, not '-1'"),
        (("\x1b[2J",), "No such command '\\x1b[2J'."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_a_wrong_word_is_answered_in_our_own(tmp_path: Any, words: tuple[str, ...], sentence: str) -> None:
    done = await Person(tmp_path, NOWHERE).supervisor(*words)

    assert done.code == 2
    assert done.err.splitlines()[-1] == f"supervisor: {sentence}"
    assert "\x1b" not in done.err


async def test_an_unreachable_server_has_an_exit_code_of_its_own(tmp_path: Any) -> None:
    done = await Person(tmp_path, NOWHERE).supervisor("status", "--json")

    assert (done.code, done.data["error"]) == (3, "unreachable")


@pytest.mark.parametrize("words", [("tree",), ("restart", "coder"), ("scale", "coder=2")], ids=" ".join)
async def test_a_company_that_does_not_run_is_said_so_with_what_to_do(person: Person, words: tuple[str, ...]) -> None:
    done, as_data = await person.supervisor(*words), await person.supervisor(*words, "--json")

    project = person.environ["CALLBOARD_PROJECT"]
    sentence = f"the company of project {project} does not run: `supervisor up` starts it"
    assert (done.code, done.out, done.err) == (1, "", f"supervisor: {sentence}\n")
    assert (as_data.code, as_data.data) == (1, {"error": "failed", "message": sentence})


def test_ctrl_c_is_quiet_however_early_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "supervisors.cli.commands":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "supervisors.cli.commands")
    monkeypatch.setattr(sys, "meta_path", [Interrupting, *sys.meta_path])

    with pytest.raises(SystemExit) as ended:
        supervisors.cli.main()

    assert ended.value.code == Exit.INTERRUPTED
