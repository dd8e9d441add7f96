"""Running things side by side until the first of them ends.

Not asyncio.TaskGroup or asyncio.wait: they go through sets of tasks in the order of memory addresses, and a simulated
run could not be repeated.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

ENDING_SECONDS = 5.0
"""What an executor may take to put away what it has in hand when it is cancelled."""


async def until_first(*coroutines: Coroutine[Any, Any, Any]) -> Any:
    """The result of whichever ends first, or what it raised; the others are cancelled, in order, and waited for."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    first: asyncio.Future[asyncio.Task[Any]] = asyncio.get_running_loop().create_future()

    def tell(ended: asyncio.Task[Any]) -> None:
        if not first.done():
            first.set_result(ended)

    for task in tasks:
        task.add_done_callback(tell)
    try:
        return (await first).result()
    finally:
        await end_all(tasks)


async def end_all(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they are gone; what they raise on the way is not for anybody.

    One that does not let itself be cancelled is not waited for for ever: the process can leave without it.
    """
    for task in tasks:
        task.cancel()
    loop = asyncio.get_running_loop()
    is_over: asyncio.Future[None] = loop.create_future()

    def tell(*_: Any) -> None:
        if not is_over.done():
            is_over.set_result(None)

    asyncio.gather(*tasks, return_exceptions=True).add_done_callback(tell)
    limit = loop.call_later(ENDING_SECONDS, tell)
    try:
        await is_over
    finally:
        limit.cancel()
