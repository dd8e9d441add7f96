"""`bus tail`: listen to what is being said."""

from typing import Annotated

import typer

from bus.broker import Message
from bus.cli.app import Json, app, person_bus, run, say, show, show_json
from bus.exits import Exit
from protocol.codec import decode_envelope
from protocol.errors import BadSubjectError, MalformedMessageError, UnsupportedSchemaError
from protocol.subjects import Subjects, check_token

PREVIEW_CHARACTERS = 200


@app.command(epilog="Examples: bus tail · bus tail 'request.>' · bus tail 'event.coder.*' --json")
def tail(
    context: typer.Context,
    subject: Annotated[str, typer.Argument(help="What to listen to, after callboard.<project>.")] = ">",
    count: Annotated[int, typer.Option(help="Stop after so many messages (0: never).")] = 0,
    json: Json = False,
) -> int:
    """Show messages as they are sent, until Ctrl-C."""

    async def work() -> None:
        async with person_bus(context) as bus:
            pattern = _pattern(bus.subjects, subject)
            repeated = bus.subjects.live("journal").removesuffix("journal.>")
            seen = 0
            async with bus.broker.listen(pattern) as messages:
                say(f"listening to {pattern}")
                while not count or seen < count:
                    message = await messages.get()
                    if message is None:
                        say("the connection was interrupted: messages may be missing here")
                    elif not message.subject.startswith(repeated) and not message.sequence:
                        _show(message, json=json)
                        seen += 1

    run(work)
    return Exit.OK


def _pattern(subjects: Subjects, text: str) -> str:
    """The whole subject that a person means; wildcards are welcome here, noise is not."""
    prefix = subjects.everything.removesuffix(">")
    tokens = text.removeprefix(prefix).split(".")
    for place, token in enumerate(tokens):
        last = place == len(tokens) - 1
        if token != "*" and not (token == ">" and last):  # noqa: S105 -- a subject's token
            check_token(token)
    if not tokens:
        raise BadSubjectError(text, "name at least one token")
    return prefix + ".".join(tokens)


def _show(message: Message, *, json: bool) -> None:
    if json:
        show_json({"subject": message.subject, "at": message.stored_at, "data": _text(message.data)})
        return
    try:
        envelope = decode_envelope(message.data)
    except (MalformedMessageError, UnsupportedSchemaError):
        show(f"{message.subject}  {_text(message.data)[:PREVIEW_CHARACTERS]}")
        return
    payload = type(envelope.payload).__name__
    show(f"{message.subject}  {envelope.kind} {payload}  {envelope.sender} → {envelope.recipient}  {envelope.id}")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
