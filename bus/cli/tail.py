"""`bus tail`: listen to what is being said."""

import base64
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer

from bus.broker import Message
from bus.bus import Bus
from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.lines import data_line
from bus.cli.output import one_line, say, show, show_json
from bus.cli.running import run, while_somebody_reads
from bus.cli.usage import number_from
from bus.exits import Exit
from bus.retrying import surely
from protocol.errors import BadSubjectError
from protocol.subjects import KINDS, TOKEN_LENGTH_MAX, Subjects, check_token

_ANY, _REST = "*", ">"
_NO_TOKEN = f"{{!r}} cannot stand between two dots: use 1 to {TOKEN_LENGTH_MAX} of a-z 0-9 - _, or a whole * or >"
TOKENS_MIN = 3
"""Kind, role and id: on fewer nothing is said."""


@app.command(epilog="Examples: bus tail · bus tail 'request.>' · bus tail 'event.coder.*' --json | head -1")
def tail(
    context: typer.Context,
    subject: Annotated[
        str, typer.Argument(help=f"What to listen to, or its beginning: {', '.join(KINDS)}; * and > are any.")
    ] = ">",
    count: Annotated[
        int, typer.Option(parser=number_from(0), metavar="NUMBER", help="Stop after so many messages (0: never).")
    ] = 0,
    json: Json = False,
) -> int:
    """Show messages as they are sent, until Ctrl-C.

    A subject without its end, such as `spec` or `spec.pm`, is all that begins so.
    With --json one line each: `message` is what was sent or, where that is no JSON, `data_base64` its bytes.
    """
    pattern = _pattern(Subjects(loaded_settings(context).settings.project), subject)

    async def work() -> None:
        async with person_bus(context) as bus, while_somebody_reads():
            await _listen(bus, pattern, count, json=json)

    run(work, endless=True)
    return Exit.OK


async def _listen(bus: Bus, pattern: str, count: int, *, json: bool) -> None:
    seen = 0
    async with bus.broker.listen(pattern) as messages:
        say(f"listening to {pattern}")
        while not count or seen < count:
            message = await messages.get()
            if message is None:
                await _check_connection(bus)
                say("the connection was interrupted: messages may be missing here")
            elif not message.sequence:  # what has one is the broker's repetition of what it has stored
                _show(message, json=json)
                seen += 1


async def _check_connection(bus: Bus) -> None:
    """Wait until the broker answers; raises if the connection is closed for good, which looks like a gap at first."""
    await surely(lambda: bus.broker.last(bus.subjects.stream("JOURNAL"), bus.subjects.everything))


def _show(message: Message, *, json: bool) -> None:
    if json:
        show_json(_as_json(message))
    else:
        show(f"{one_line(message.subject)}  {data_line(message.data)}")


def _pattern(subjects: Subjects, text: str) -> str:
    """The whole subject that a person means; wildcards are welcome here, noise is not."""
    prefix = subjects.everything.removesuffix(_REST)
    kind, *rest = tokens = (_REST if f"{text}." == prefix else text.removeprefix(prefix)).split(".")
    wrong = ""
    if kind == "callboard":
        wrong = "it is another project's, which --project chooses"
    elif kind not in (*KINDS, _ANY, _REST):
        wrong = f"it must begin with one of {', '.join(KINDS)}, * or >"
    elif _REST in tokens[:-1]:
        wrong = "> stands for all the rest, so nothing can follow it"
    else:
        wrong = next((_NO_TOKEN.format(token) for token in rest if not _may_stand(token)), "")
    if wrong:
        raise CommandError(Exit.USAGE, f"nothing is ever said on {text!r}: {wrong}")
    if len(tokens) < TOKENS_MIN and tokens[-1] != _REST:
        tokens.append(_REST)
    return prefix + ".".join(tokens)


def _may_stand(token: str) -> bool:
    try:
        return token in (_ANY, _REST) or bool(check_token(token))
    except BadSubjectError:
        return False


def _as_json(message: Message) -> dict[str, Any]:
    facts = {"subject": message.subject, "at": message.stored_at}
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {**facts, "message": msgspec.json.decode(message.data)}
    return {**facts, "data_base64": base64.b64encode(message.data).decode()}
