"""Who watches a supervisor: a person at a terminal, a log, or the command that has started it in the background."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live

from bus.bus import Bus
from bus.cli.output import one_line, say, show_json
from bus.errors import BusError
from supervisors.company.audience import Audience
from supervisors.core.standing import ChildStanding, Standing
from supervisors.views.company import render
from supervisors.views.overview import gather

REFRESH_SECONDS = 1.0


def is_up(standing: Standing) -> bool:
    """Whether everybody who can be started is ready."""
    phases = [*(each.phase for each in standing.supervisors), *(each.phase for each in standing.children)]
    return all(phase in ("ready", "over") for phase in phases)


class Teller(Audience):
    """Says in a sentence what becomes of each child."""

    def __init__(self, tell: Callable[[str], None] = say) -> None:
        self._tell = tell
        self._last: dict[str, ChildStanding] = {}
        self._is_up = False

    def say(self, text: str) -> None:
        """A sentence of the supervisor's."""
        self._tell(text)

    def show(self, standing: Standing) -> None:
        """What is new since the last time."""
        for child in standing.children:
            sentence = _change(self._last.get(child.name), child)
            if sentence:
                self._tell(sentence)
        self._last = {child.name: child for child in standing.children}
        if is_up(standing) and not self._is_up and not standing.closing:
            self._is_up = True
            self._tell(f"the company is up: {sum(1 for each in standing.children if each.phase == 'ready')} run")


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

    def say(self, text: str) -> None:
        """A sentence of the supervisor's is talk."""
        say(text)

    def show(self, standing: Standing) -> None:
        """The whole tree."""
        show_json(standing)


class Screen(Teller):
    """A person at a terminal: one screen that is drawn again and again, what is said above it."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        super().__init__(self._print)
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
            with suppress(OSError):
                self._live.stop()

    def _print(self, text: str) -> None:
        with suppress(OSError):  # the terminal is gone: there is nobody to tell
            self._console.print(text)

    async def _draw(self, bus: Bus) -> None:
        while True:
            with suppress(BusError, OSError):  # the broker is away, or the terminal: the screen stays as it is
                self._live.update(render(await gather(bus)), refresh=True)
            await asyncio.sleep(REFRESH_SECONDS)


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """A word from a supervisor in the background to the command that waits for it to be up."""

    say: str = ""
    up: bool = False


class Announcer(Teller):
    """Tells whoever waits at the other end of a pipe, until the company is up; then nobody waits any more."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(lambda text: self._write(say=text))
        self._descriptor: int | None = descriptor
        os.set_inheritable(descriptor, False)

    def show(self, standing: Standing) -> None:
        """What is new, and whether it is up."""
        if self._descriptor is None:
            return
        super().show(standing)
        if is_up(standing):
            self._write(up=True)
            self.close()

    def close(self) -> None:
        """There is nothing more to wait for."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, **facts: Any) -> None:
        if self._descriptor is not None:
            with suppress(OSError):  # whoever has waited has gone
                os.write(self._descriptor, msgspec.json.encode(Announced(**facts)) + b"\n")
