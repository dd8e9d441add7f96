"""Coders that are hard to end, and one that says what it should not."""

import asyncio
import logging
import os

import msgspec
import structlog

from actors.hosting.part import Part
from actors.runtime.executors import Executor, Executors
from actors.runtime.world import World
from tests.actors.command_parts import CODER
from tests.actors.understudies.effects import Think, Thought

log = structlog.get_logger()


def _thinking(think: Executor) -> Part:
    def executors(world: World) -> Executors:
        return {**CODER.executors(world), Think: think}

    return msgspec.structs.replace(CODER, executors=executors)


async def _wait(_: Think) -> Thought:
    log.info("model.called")
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def _hold_on(effect: Think) -> Thought:
    while True:
        try:
            await _wait(effect)
        except asyncio.CancelledError:
            log.info("model.held_on")


async def _say(_: Think) -> Thought:
    secret = os.environ["SAYS"]
    logging.getLogger("library").warning("sent %r", {"password": secret})
    await asyncio.wait([asyncio.ensure_future(_fail(secret))])
    raise ValueError(f"{secret} is wrong", [secret])


async def _fail(secret: str) -> None:
    raise KeyError(secret)


SLOW = _thinking(_wait)
STUBBORN = _thinking(_hold_on)
TALKATIVE = _thinking(_say)
