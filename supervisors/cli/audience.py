"""Who watches a supervisor: a person at a terminal, a log, or the command that has started it in the background."""

import asyncio
import io
import os
import sys
from contextlib import suppress
from typing import Literal, TextIO, cast

import msgspec
from rich.console import Console
from rich.live import Live

from bus.bus import Bus
from bus.cli.output import json_line, one_line
from bus.errors import BusError
from supervisors.cli.outlet import Outlet
from supervisors.company.audience import Audience
from supervisors.core.standing import ChildStanding, Standing
from supervisors.views.company import render
from supervisors.views.overview import gather

REFRESH_SECONDS = 1.0


def is_up(standing: Standing) -> bool:
    """Whether everybody who can be started is ready."""
    if standing.closing:
        return False
    phases = [*(each.phase for each in standing.supervisors), *(each.phase for each in standing.children)]
    return all(phase in ("ready", "over") for phase in phases)


class Teller(Audience):
    """Says in a sentence what becomes of each child."""

    def __init__(self, outlet: Outlet | None = None) -> None:
        self._outlet = outlet or _outlet_of(sys.stderr)
        self._last: dict[str, ChildStanding] = {}
        self._is_up = False

    def say(self, text: str) -> None:
        """A sentence of the supervisor's."""
        self._outlet.write(_line(text))

    def close(self) -> None:
        """Have the rest of it read."""
        self._outlet.close()

    def show(self, standing: Standing) -> None:
        """What is new since the last time."""
        for child in standing.children:
            sentence = _change(self._last.get(child.name), child)
            if sentence:
                self.say(sentence)
        self._last = {child.name: child for child in standing.children}
        was_up, self._is_up = self._is_up, is_up(standing) or (self._is_up and not standing.gave_up)
        if self._is_up and not was_up:
            self.say(f"the company is up: {sum(1 for each in standing.children if each.phase == 'ready')} run")


def _change(before: ChildStanding | None, now: ChildStanding) -> str:
    """What a person should know of a child's change."""
    if before is not None and (before.phase, before.starts, before.pid) == (now.phase, now.starts, now.pid):
        return ""
    match now.phase:
        case "ready":
            again = " again" if now.starts > 1 else ""
            return f"{now.name} is ready{again}" + (f" (process {now.pid})" if now.pid else "")
        case "over" if now.last_way == "configuration":
            return f"{now.name} is not started, its configuration is wrong: {one_line(now.last_reason)}"
        case "down" | "starting" if now.last_way not in (None, "normal", "asked"):
            return f"{now.name} has ended ({now.last_way}): {one_line(now.last_reason)}"
        case _:
            return ""


class Lines(Audience):
    """One line of JSON for each change."""

    def __init__(self) -> None:
        self._data, self._talk = _outlet_of(sys.stdout), _outlet_of(sys.stderr)

    def say(self, text: str) -> None:
        """A sentence of the supervisor's is talk."""
        self._talk.write(_line(text))

    def show(self, standing: Standing) -> None:
        """The whole tree."""
        self._data.write(json_line(standing))

    def close(self) -> None:
        """Have the rest of it read."""
        self._data.close()
        self._talk.close()


class Screen(Teller):
    """A person at a terminal: one screen that is drawn again and again, what is said above it."""

    def __init__(self) -> None:
        super().__init__(_outlet_of(sys.stdout))
        self._console = Console(file=cast(TextIO, _Paper(self._outlet)), highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._bus: Bus | None = None
        self._drawing: asyncio.Task[None] | None = None

    def opened(self, bus: Bus) -> None:
        """From now on there is a place to look."""
        self._bus = bus

    def show(self, standing: Standing) -> None:
        """What is new, and once everybody is there the whole screen."""
        super().show(standing)
        if self._drawing is None and self._bus is not None and is_up(standing):
            self._live.start()
            self._drawing = asyncio.ensure_future(self._draw(self._bus))

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._drawing is not None:
            self._drawing.cancel()
            self._live.stop()
        super().close()

    def say(self, text: str) -> None:
        """Above the screen."""
        self._console.print(text)

    async def _draw(self, bus: Bus) -> None:
        while True:
            with suppress(BusError):  # the broker is away: the screen stays as it is
                self._live.update(render(await gather(bus)), refresh=True)
            await asyncio.sleep(REFRESH_SECONDS)


class _Paper(io.TextIOBase):
    """The terminal, as rich writes to it."""

    encoding = "utf-8"

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._outlet.write(text.encode(errors="backslashreplace"))
        return len(text)


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """A word from a supervisor in the background to the command that waits for it to be up; `start` is the last."""

    say: str = ""
    start: Literal["", "up", "gave_up"] = ""


class Announcer(Teller):
    """Tells whoever waits at the other end of a pipe, until it is known what has become of the start."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        super().__init__(Outlet(descriptor, closes=True))

    def say(self, text: str) -> None:
        """A sentence of the supervisor's."""
        self._announce(Announced(say=text))

    def show(self, standing: Standing) -> None:
        """What is new, and whether there is anything more to wait for."""
        super().show(standing)
        if standing.gave_up or is_up(standing):
            self._announce(Announced(start="gave_up" if standing.gave_up else "up"))
            self._outlet.end()

    def _announce(self, announced: Announced) -> None:
        self._outlet.write(json_line(announced))


def _outlet_of(stream: TextIO | None) -> Outlet:
    return Outlet(None if stream is None else stream.fileno())


def _line(text: str) -> bytes:
    return f"{text}\n".encode(errors="backslashreplace")
