"""The commands as a person runs them: the real processes, in a folder and with a home of their own."""

import asyncio
import json
import os
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import Signals
from typing import Any

import msgspec

from tests.nats_server import binary

BUS = Path(sysconfig.get_path("scripts")) / "bus"
SUPERVISOR = BUS.with_name("supervisor")
EXAMPLE = Path(__file__).parents[2] / "examples" / "todo.md"
SPEC = EXAMPLE.read_text(encoding="utf-8")
NOWHERE = "nats://127.0.0.1:1"
"""Where no server can be."""
SECONDS = 30.0
"""How long a command may take on a busy machine before the test says what it waited for."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A command that has ended; no command may ever show a traceback."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON values on stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Running:
    """A command that has not ended yet."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.said = ""

    async def until_said(self, text: str) -> None:
        """Wait for a sentence on stderr."""
        assert self._process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while text not in self.said:
                line = await self._process.stderr.readline()
                assert line, f"it ended without saying {text!r}: {self.said}"
                self.said += line.decode()

    async def line(self) -> str:
        """The next line on stdout."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            return (await self._process.stdout.readline()).decode()

    def send(self, number: Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def end(self, number: Signals | None = None) -> Done:
        """Wait for the end, which a signal may bring about."""
        if number is not None:
            self.send(number)
        async with asyncio.timeout(SECONDS):
            out, err = await self._process.communicate()
        return _done(self._process, out, self.said.encode() + err)

    async def kill(self) -> None:
        """End it if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()


class Person:
    """Somebody at a terminal; the project's embedded server is used unless `url` names another."""

    def __init__(self, home: Path, url: str = "", project: str = "") -> None:
        self.folder = home / "project"
        self.folder.mkdir(parents=True)
        self.state = home / "state"
        path = f"{BUS.parent}:{os.environ['PATH']}"
        chosen = {"NATS_URL": url, "CALLBOARD_PROJECT": project}
        self.environ = {"PATH": path, "HOME": str(home), "XDG_STATE_HOME": str(self.state)}
        self.environ |= {name: value for name, value in chosen.items() if value}
        if not url:
            binary()  # skips, or in CI fails, where there is no server to be had

    async def bus(self, *words: str, stdin: bytes = b"", environ: dict[str, str] | None = None) -> Done:
        """Run a command to its end, with some more in its environment."""
        return await self._finish([str(BUS), *words], stdin, environ or {})

    async def supervisor(self, *words: str, stdin: bytes = b"", environ: dict[str, str] | None = None) -> Done:
        """The same with the other command."""
        return await self._finish([str(SUPERVISOR), *words], stdin, environ or {})

    async def shell(self, line: str) -> Done:
        """Run a line of shell, in which `bus` is the command."""
        return await self._finish(["bash", "-c", line], b"", {})

    async def _finish(self, words: list[str], stdin: bytes, environ: dict[str, str]) -> Done:
        process = await self._start(words, environ)
        try:
            async with asyncio.timeout(SECONDS):
                out, err = await process.communicate(stdin)
        except TimeoutError:
            process.kill()
            out, err = await process.communicate()
            raise AssertionError(f"{words} took over {SECONDS:g} s: {err.decode()}") from None
        return _done(process, out, err)

    @asynccontextmanager
    async def running(self, *words: str) -> AsyncIterator[Running]:
        """A command that goes on while the context is open; it is killed then, if it must be."""
        async with self._running([str(BUS), *words]) as command:
            yield command

    @asynccontextmanager
    async def running_supervisor(self, *words: str) -> AsyncIterator[Running]:
        """The same with the other command."""
        async with self._running([str(SUPERVISOR), *words]) as command:
            yield command

    @asynccontextmanager
    async def running_shell(self, line: str) -> AsyncIterator[Running]:
        """A line of shell that goes on while the context is open."""
        async with self._running(["bash", "-c", line]) as command:
            yield command

    @asynccontextmanager
    async def _running(self, words: list[str]) -> AsyncIterator[Running]:
        command = Running(await self._start(words, {}))
        try:
            yield command
        finally:
            await command.kill()

    async def _start(self, words: list[str], environ: dict[str, str]) -> Process:
        return await asyncio.create_subprocess_exec(
            *words, cwd=self.folder, env=self.environ | environ, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )

    def slow_server(self) -> tuple[Path, Path]:
        """Have the embedded server wait as it starts: it makes the first file, and goes on when the second is there."""
        slow, begun, go = (self.folder / name for name in ("slow-nats-server", "begun", "go"))
        wait = f"touch {begun}; until [ -e {go} ]; do sleep 0.01; done"
        slow.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then {wait}; fi\nexec {binary()} "$@"\n')
        slow.chmod(0o700)
        self.environ["CALLBOARD_SERVER_BINARY"] = str(slow)
        return begun, go

    def servers(self) -> list[int]:
        """The embedded servers that run for this person."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended while we looked
            if command[0].endswith(b"nats-server") and any(word.startswith(bytes(self.state)) for word in command):
                found.append(int(process.name))
        return found


def _done(process: Process, out: bytes, err: bytes) -> Done:
    assert process.returncode is not None
    done = Done(code=process.returncode, out=out.decode(), err=err.decode())
    assert "Traceback" not in done.err, done.err
    return done
