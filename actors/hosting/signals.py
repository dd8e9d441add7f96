"""Control signals in a process: heard once, told to every session that it hosts.

The brake of a person (pause, resume) is no event of a session: the process itself takes nothing new while it is on.
Since the signals are kept, a process that starts reads them all and knows whether the brake is on.
"""

from typing import Any

from actors.core.events import Signalled
from actors.runtime.bell import Bell
from actors.runtime.runner import Runner
from actors.runtime.world import World
from bus.control import Signal
from protocol.messages import Pause, Restart, Resume, Stop
from protocol.subjects import Role


class Signals:
    """What was signalled to one actor."""

    def __init__(self, world: World, role: Role, actor: str) -> None:
        self._world = world
        self._role = role
        self._actor = actor
        self._runners: list[Runner[Any, Any, Any]] = []
        self.generation = 0
        self.paused = False
        self.changed = Bell()

    async def catch_up(self) -> None:
        """Hear all that was signalled before this process began; only the brake is heeded of it."""
        async for signal in self._world.bus.control.read(self._role, self._actor):
            self.generation = signal.generation
            self._heed_brake(signal)

    async def attach(self, runner: Runner[Any, Any, Any]) -> None:
        """Tell a session what it has not heard, and from now on everything."""
        heard, known = runner.session.heard, -1
        while known != self.generation:
            # Read to the end before anything live is told: a session that hears a newer signal first refuses the older.
            known = self.generation
            async for signal in self._world.bus.control.read(self._role, self._actor, heard):
                self._tell(runner, signal)
                heard = signal.generation
        runner.paused = self.paused
        self._runners.append(runner)

    def detach(self, runner: Runner[Any, Any, Any]) -> None:
        """The session is no longer run here."""
        self._runners.remove(runner)

    async def listen(self) -> None:
        """Hear what comes; returns when the process is told to end."""
        async for signal in self._world.bus.control.listen(self._role, self._actor, self.generation):
            self.generation = signal.generation
            self._heed_brake(signal)
            for runner in self._runners:
                runner.paused = self.paused
                self._tell(runner, signal)
            self.changed.ring()
            if isinstance(signal.envelope.payload, Stop | Restart):
                return

    async def brake_off(self) -> None:
        """Wait until nothing holds new work back."""
        while self.paused:
            await self.changed.wait()

    def _heed_brake(self, signal: Signal) -> None:
        if isinstance(signal.envelope.payload, Pause | Resume):
            self.paused = isinstance(signal.envelope.payload, Pause)

    def _tell(self, runner: Runner[Any, Any, Any], signal: Signal) -> None:
        if not isinstance(signal.envelope.payload, Pause | Resume | Restart):
            runner.offer(Signalled(at=self._world.now(), generation=signal.generation, signal=signal.envelope))
