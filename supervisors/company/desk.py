"""The desk: what a person signals to anybody, as far as it concerns who runs."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

import msgspec
import structlog

from bus.bus import Bus
from bus.settings import Settings
from protocol.codec import encode
from protocol.messages import Envelope, Restart, Scale, Stop
from protocol.routing import address
from protocol.subjects import ALL
from supervisors.core import tree as trees
from supervisors.core.planning import plan_of, scale
from supervisors.core.plans import Child, Supervisor, walk
from supervisors.core.tree import Tree
from supervisors.errors import ScaleError
from supervisors.office import SUPERVISOR

log = structlog.get_logger()

SIZES = "supervisor.sizes"
"""The key on the board under which it stands how large a person wants the pools."""

JUST_SECONDS = 60.0
"""An actor that hears that it is to begin anew leaves by itself; within this time we have heard it as well."""

Change = Callable[[Tree], Tree]


class Desk:
    """Turns signals into changes of the tree. `born` says when each child was started last."""

    def __init__(
        self, bus: Bus, settings: Settings, change: Callable[[Change], None], born: Mapping[str, datetime]
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._change = change
        self._born = born
        self._sizes: dict[str, int] = {}
        self._heard = 0

    async def open(self) -> dict[str, int]:
        """Listen from now on; gives the sizes that a person wanted when the company last ran and was not closed."""
        self._heard = await self._bus.control.generation()
        posted = await self._bus.board.get(SIZES)
        try:
            self._sizes = msgspec.json.decode(posted.value, type=dict[str, int]) if posted and posted.value else {}
        except (msgspec.DecodeError, UnicodeDecodeError):
            log.warning("board.unreadable", key=SIZES)
        return self._sizes

    async def run(self) -> None:
        """Obey for ever."""
        async for signal in self._bus.control.overhear(self._heard):
            envelope = signal.envelope
            match envelope.payload:
                case Scale(role=role, size=size):
                    await self._scale(role, size)
                case Restart():
                    self._change(partial(self._restart, envelope))
                case Stop() if is_for_company(envelope.recipient):
                    self._change(trees.stop)
            self._heard = signal.generation

    async def _scale(self, role: str, size: int) -> None:
        try:
            self._sizes = scale(self._settings, self._sizes, role, size)
        except ScaleError as error:
            log.warning("scale.refused", reason=str(error))
            return
        await self._bus.board.put(SIZES, encode(self._sizes))
        plan = plan_of(self._settings, self._sizes)
        self._change(lambda tree: trees.begin_anew(trees.replan(tree, plan)))

    def _was_just_born(self, name: str, sent_at: datetime) -> bool:
        """Whether a child has begun anew since it was said; much later, only a clock was set."""
        born = self._born.get(name, sent_at)
        return timedelta() < born - sent_at < timedelta(seconds=JUST_SECONDS)

    def _restart(self, said: Envelope, tree: Tree) -> Tree:
        """Have those begin anew who are meant, but for whoever has done so since it was said.

        A person who wants that of anybody wants it of all, where the root gives up; the watchman's word is no person's.
        """
        if trees.gives_up(tree):
            return tree if said.sender == SUPERVISOR else trees.begin_anew(tree)
        for plan in walk(tree.plan):
            if isinstance(plan, Supervisor):
                if said.recipient == address("supervisor", plan.name):
                    return trees.restart(tree, plan.name)
            elif _is_meant(plan, said.recipient) and not self._was_just_born(plan.name, said.sent_at):
                tree = trees.restart(tree, plan.name)
        return tree


def is_for_company(recipient: str) -> bool:
    """Whether a signal means the company as a whole."""
    return recipient in (address(ALL, ALL), address("supervisor", ALL))


def _is_meant(child: Child, recipient: str) -> bool:
    """Whether a signal to an address concerns a child; any can be named by the supervisor's role as well."""
    if recipient == address("supervisor", child.name):
        return True
    return bool(child.role) and recipient in (child.address, address(child.role, ALL), address(ALL, ALL))
