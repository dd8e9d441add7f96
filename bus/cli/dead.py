"""`bus dead`: what could not be read or handled."""

import base64
from typing import Annotated

import typer

from bus.cli.app import Json, app, person_bus, run, say, show, show_json
from bus.dead import DeadLetter
from bus.exits import Exit

dead = typer.Typer(no_args_is_help=True, help="Look at dead letters and send them again.", rich_markup_mode=None)
app.add_typer(dead, name="dead")

Number = Annotated[int, typer.Argument(help="The letter's number, from `bus dead list`.")]


def _as_json(letter: DeadLetter) -> dict[str, object]:
    return {
        "number": letter.number,
        "at": letter.at,
        "holder": letter.holder,
        "reason": letter.reason,
        "subject": letter.subject,
        "sequence": letter.sequence,
        "message_id": letter.message_id,
        "data_base64": base64.b64encode(letter.data).decode(),
    }


@dead.command("list", epilog="Example: bus dead list --json")
def list_letters(context: typer.Context, json: Json = False) -> int:
    """List all dead letters, oldest first."""

    async def work() -> list[DeadLetter]:
        async with person_bus(context) as bus:
            return [letter async for letter in bus.dead.all()]

    letters = run(work)
    if json:
        show_json([_as_json(letter) for letter in letters])
        return Exit.OK
    for letter in letters:
        show(f"{letter.number:6} {letter.at:%Y-%m-%d %H:%M:%S} {letter.holder}  {letter.subject}  {letter.reason}")
    say(f"{len(letters)} dead letters")
    return Exit.OK


async def _find(context: typer.Context, number: int, *, replay: bool) -> DeadLetter | None:
    async with person_bus(context) as bus:
        letter = await bus.dead.get(number)
        if letter is not None and replay:
            await bus.dead.replay(letter)
        return letter


@dead.command("show", epilog="Example: bus dead show 7")
def show_letter(context: typer.Context, number: Number, json: Json = False) -> int:
    """Show one dead letter with its original bytes."""
    letter = run(lambda: _find(context, number, replay=False))
    if letter is None:
        say(f"bus: there is no dead letter {number}; `bus dead list` shows them")
        return Exit.FAILED
    if json:
        show_json(_as_json(letter))
        return Exit.OK
    show(
        f"reason:  {letter.reason}\nsubject: {letter.subject}\nholder:  {letter.holder}\nid:      {letter.message_id}\n"
    )
    show(letter.data.decode(errors="backslashreplace"))
    return Exit.OK


@dead.command(epilog="Example: bus dead replay 7")
def replay(context: typer.Context, number: Number, json: Json = False) -> int:
    """Send a dead letter's message again to where it was first sent, and remove the letter."""
    letter = run(lambda: _find(context, number, replay=True))
    if letter is None:
        say(f"bus: there is no dead letter {number}; `bus dead list` shows them")
        return Exit.FAILED
    show_json({"replayed": number, "subject": letter.subject}) if json else show(f"sent again to {letter.subject}")
    return Exit.OK
