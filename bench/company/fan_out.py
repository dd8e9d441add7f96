"""A broadcast with nats-py alone: processes that each wait for a word, and answer it by an acknowledged publish.

`python -m bench.company.fan_out URL NUMBER SUBJECT STREAM_SUBJECT BYTES`: a process for each, forked when everything is
imported, on uvloop and with a connection of its own, as actors are. They end when standard input does. `ready` stands
on standard output once for each.
"""

import asyncio
import os
import sys

import nats
import uvloop
from nats.aio.msg import Msg


async def listen(url: str, subject: str, answers: str, data: bytes) -> None:
    """Be one of them."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, ended.set)
    client = await nats.connect(url)
    stream = client.jetstream()

    async def answer(_: Msg) -> None:
        await stream.publish(answers, data)

    await client.subscribe(subject, cb=answer)
    await client.flush()
    os.write(1, b"ready\n")
    await ended.wait()
    await client.close()


def main() -> None:
    """Fork them, and wait for their end."""
    url, number, subject, answers, size = sys.argv[1:]
    children = []
    for each in range(int(number)):
        pid = os.fork()
        if not pid:
            uvloop.run(listen(url, subject, f"{answers}.{each}", b"x" * int(size)))
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
