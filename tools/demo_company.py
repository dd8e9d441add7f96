"""What the demo brings along: a model that can be down, and the story that an architect would put on the queue.

`python -m tools.demo_company STORY` puts one on the queue of the project in the working folder.
"""

import asyncio
import os
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path

from actors.logs import configure_logs
from bus.bus import Bus
from bus.opening import open_bus
from bus.settings import load
from protocol.errors import BadSubjectError
from protocol.marks import message_id
from protocol.messages import Envelope, Story
from protocol.routing import address
from protocol.subjects import ALL, check_id
from supervisors.health.probes import Probe


async def _answer(_: Bus) -> None:
    """As the understudies see it: the model is down while there is a file that says so."""
    if (Path(os.environ["OUTSIDE"]) / "down").exists():
        raise ConnectionError("overloaded")


MODEL = Probe(name="model", check=_answer)


async def put_on_queue(story: str) -> None:
    """Have some coder take it."""
    payload = Story(story=story, spec="todo", run=1, title="Add a task", description="", acceptance_criteria=())
    letter = Envelope(
        id=message_id(f"person-{secrets.token_hex(8)}", 1, 0),
        kind="REQUEST",
        sender=address("person", "person"),
        recipient=address("coder", ALL),
        payload=payload,
        sent_at=datetime.now(UTC),
    )
    async with open_bus(load({}, os.environ, Path.cwd()), os.environ, "person", migrate=False) as bus:
        await bus.work.put(letter)


def main() -> None:
    """Entry point."""
    configure_logs("warning", actor="demo")
    try:
        (story,) = sys.argv[1:]
        check_id(story)
    except (ValueError, BadSubjectError):
        sys.exit("usage: python -m tools.demo_company STORY, for example s-1")
    asyncio.run(put_on_queue(story))
    sys.stdout.write(f"story {story} is on the queue\n")


if __name__ == "__main__":
    main()
