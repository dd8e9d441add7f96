"""`bus specs`: what was published."""

from datetime import datetime

import msgspec
import typer

from bus.bus import Bus
from bus.cli.app import app
from bus.cli.flags import Json, person_bus, project_of
from bus.cli.output import complain, counted, moment, one_line, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from bus.publishing import Published
from bus.topology import BOARD

SPECS = "specs"

_published = msgspec.json.Decoder(Published)


class PublishedSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A spec in the list. `at` is when its revision was last noted on the board, if that is known.

    Without `sent` a publisher ended too early: publishing the same text again completes it.
    """

    id: str
    revision: int
    at: datetime | None
    digest: str
    recipient: str
    sent: bool


@app.command(epilog="Examples: bus specs · bus specs --json")
def specs(context: typer.Context, json: Json = False) -> int:
    """List the published specs.

    Each has its id, its latest revision and the time. Exit code 1: something else stands where specs should.
    """

    async def work() -> tuple[list[PublishedSpec], list[str]]:
        async with person_bus(context) as bus:
            return await _published_specs(bus)

    found, strange = run(work)
    if json:
        show_json(found)
    else:
        for spec in found:
            at, unsent = moment(spec.at) if spec.at else "-", "" if spec.sent else "  not sent: publish it again"
            show(one_line(f"{spec.id:32}  revision {spec.revision:4}  {at}{unsent}"))
        _count(len(found), project_of(context))
    for key in strange:
        complain(f"what stands on the board under {key} was not written by publishing")
    return Exit.FAILED if strange else Exit.OK


async def _published_specs(bus: Bus) -> tuple[list[PublishedSpec], list[str]]:
    """The specs, and the keys under which something else stands."""
    found, strange = [], []
    standing = [posted async for posted in bus.board.all(SPECS)]
    times = await _times(bus)
    for posted in standing:
        try:
            spec = _published.decode(posted.value or b"")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            strange.append(posted.key)
            continue
        found.append(_listed(spec, times.get(posted.revision)))
    return sorted(found, key=lambda spec: spec.id), strange


async def _times(bus: Bus) -> dict[int, datetime]:
    """When each revision of a key was stored, which the board does not tell."""
    stream, wanted = bus.subjects.key_stream(BOARD), bus.subjects.every_key(BOARD, SPECS)
    return {message.sequence: message.stored_at async for message in bus.broker.read(stream, wanted)}


def _listed(spec: Published, at: datetime | None) -> PublishedSpec:
    return PublishedSpec(
        id=spec.spec, revision=spec.revision, at=at, digest=spec.digest, recipient=spec.recipient, sent=spec.sent
    )


def _count(number: int, project: str) -> None:
    say(f"{counted(number, 'spec')} in project {project}" if number else f"no spec was published in project {project}")
