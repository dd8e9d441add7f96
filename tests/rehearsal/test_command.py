"""`actor rehearsal` as a person runs it: a real process, its URL, its log, its parts and how it ends."""

import asyncio
import json
import os
import signal
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import AsyncAnthropic, BadRequestError, DefaultAsyncHttpxClient, InternalServerError

from actors.exits import ActorExit
from actors.rehearsal import read_parts
from actors.rehearsal.command import read_faults
from actors.rehearsal.errors import BadFaultsError, BadPartError
from tests.rehearsal.company import ask

ACTOR = str(Path(sysconfig.get_path("scripts")) / "actor")
ROOT = Path(__file__).parents[2]
EXAMPLES = str(ROOT / "examples" / "parts")
SECONDS_MAX = 30.0


async def start(*words: str) -> Process:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "CALLBOARD_SECRET": "sk-planted-0123456789"}
    return await asyncio.create_subprocess_exec(ACTOR, *words, env=environ, stdout=PIPE, stderr=PIPE)


async def finished(*words: str) -> tuple[int | None, str, str]:
    """The code, data and talk of a command that ends by itself."""
    process = await start(*words)
    async with asyncio.timeout(SECONDS_MAX):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def running(*words: str) -> AsyncIterator[tuple[Process, str]]:
    """A rehearsal, and what it says first."""
    process = await start("rehearsal", *words)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS_MAX):
            yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def client_at(url: str) -> AsyncAnthropic:
    plain = DefaultAsyncHttpxClient(verify=False)
    return AsyncAnthropic(base_url=url, api_key="any", max_retries=0, http_client=plain)


async def ended(process: Process, number: signal.Signals) -> tuple[int | None, list[Any]]:
    """How it ends by a signal, and what it has logged."""
    process.send_signal(number)
    _, said = await process.communicate()
    return process.returncode, [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ActorExit.INTERRUPTED), (signal.SIGTERM, ActorExit.TERMINATED)]
)
async def test_it_plays_until_a_signal_comes_and_logs_each_call(number: signal.Signals, code: ActorExit) -> None:
    async with running("--parts", EXAMPLES) as (process, url):
        async with client_at(url) as client:
            message: Any = await client.messages.create(**ask("hello", system="callboard: role=pm story=s-1"))
        returned, log = await ended(process, number)

    assert message.content[0].text == "You said: hello"
    assert returned == code
    assert [(line["event"], line["status"], line["role"], line["story"]) for line in log] == [
        ("call.answered", 200, "pm", "s-1")
    ]


async def test_it_begins_with_the_faults_of_a_file(tmp_path: Path) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text('[{"kind": "overloaded"}]')

    async with running("--parts", EXAMPLES, "--faults", str(faults), "--json") as (process, said):
        async with client_at(json.loads(said)["url"]) as client:
            with pytest.raises(InternalServerError):
                await client.messages.create(**ask())
            await client.messages.create(**ask())
        _, log = await ended(process, signal.SIGINT)

    assert [(line["status"], line.get("fault")) for line in log] == [(529, "overloaded"), (200, None)]


async def test_what_breaks_a_connection_does_so_in_the_process_too() -> None:
    """It has another event loop than the tests."""
    kinds = ["refuse_connection", "no_answer", "cut", "stall", "too_large"]
    seen = []

    async with running("--parts", EXAMPLES) as (process, url), client_at(url) as client:
        for kind in kinds:
            await client.post("/rehearsal/faults", body=[{"kind": kind}], cast_to=object)
            with pytest.raises((anthropic.APIError, httpx2.HTTPError)) as broken:
                await client.with_options(timeout=0.5).messages.create(**ask())
            seen.append(type(broken.value).__name__)
        await client.messages.create(**ask())
        code, log = await ended(process, signal.SIGINT)

    assert seen == [
        "APIConnectionError",
        "APITimeoutError",
        "APIConnectionError",
        "APITimeoutError",
        "ContentTooLargeError",
    ]
    assert [line.get("fault") for line in log] == [*kinds, None]
    assert code == ActorExit.INTERRUPTED


async def test_a_missing_cue_is_shown_to_the_person_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "pm.py").write_text("from actors.rehearsal import Answer, Cue\nCUES = [Cue(role='x', says=Answer())]\n")

    async with running("--parts", str(tmp_path)) as (process, url):
        async with client_at(url) as client:
            with pytest.raises(BadRequestError, match="no cue for role=coder"):
                await client.messages.create(**ask("callboard: role=coder\nmy key is sk-planted-0123456789"))
        process.send_signal(signal.SIGINT)
        _, said = await process.communicate()

    assert b"no cue for role=coder" in said
    assert b"user      my key is [secret]" in said
    assert b"planted" not in said


BROKEN = {
    "syntax": ("CUES = [", "SyntaxError"),
    "import": ("import nothing_like_this", "ModuleNotFoundError: No module named 'nothing_like_this'"),
    "empty": ("", "a part has CUES, a list of Cue, or a function answer(scene)"),
    "wrong": ("CUES = [1]", "a part has CUES, a list of Cue, or a function answer(scene)"),
    "no stop reason": (
        "from actors.rehearsal import Answer\nAnswer(stop_reason='bored')",
        "there is no stop reason 'bored'",
    ),
    "a category without refusal": (
        "from actors.rehearsal import Answer\nAnswer(category='bio')",
        "only a refusal has a category",
    ),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN.keys())
def test_a_part_that_cannot_be_used_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "coder.py").write_text(text)

    with pytest.raises(BadPartError) as wrong:
        read_parts(tmp_path)

    assert str(wrong.value).startswith(f"{tmp_path / 'coder.py'}: ")
    assert reason in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No such file or directory"),
        ("[{", "Input data was truncated"),
        ("{}", "Expected `array`"),
        ('[{"kind": "earthquake"}]', "Invalid enum value 'earthquake'"),
    ],
)
def test_faults_that_cannot_be_read_are_explained(tmp_path: Path, text: str | None, reason: str) -> None:
    path = tmp_path / "faults.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BadFaultsError, match=reason):
        read_faults(path)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--parts", "/nonexistent"], "actor: /nonexistent: there is no such folder of parts"),
        (["--parts", EXAMPLES, "--host", "192.0.2.1"], "actor: 192.0.2.1:0 cannot be listened on: "),
        ([], "Missing option '--parts'"),
    ],
)
async def test_a_wrong_command_line_is_explained(words: list[str], reason: str) -> None:
    code, out, err = await finished("rehearsal", *words)

    assert (code, out) == (ActorExit.CONFIGURATION, "")
    assert reason in err
    assert "Traceback" not in err


def test_a_folder_without_parts_is_explained(tmp_path: Path) -> None:
    (tmp_path / "_shared.py").touch()

    with pytest.raises(BadPartError, match=r"there is no part in it, which would be a file like coder\.py"):
        read_parts(tmp_path)


async def test_each_command_has_its_help() -> None:
    _, rehearsal, _ = await finished("rehearsal", "--help")
    _, actor, _ = await finished("--help")
    code, _, nobody = await finished("rehearse", "--id", "x")

    assert "Usage: actor rehearsal" in rehearsal
    assert "actor rehearsal --parts examples/parts" in rehearsal
    assert "Usage: actor [OPTIONS] {machine}" in actor
    assert "actor rehearsal --help" in " ".join(actor.split())
    assert (code, "there is no machine rehearse" in nobody) == (ActorExit.CONFIGURATION, True)
