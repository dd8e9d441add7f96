"""`bus dead`: what could not be read or handled."""

import base64
from typing import Annotated, Any

import typer

from bus.bus import Bus
from bus.cli.app import Json, app, person_bus
from bus.cli.failures import CommandError
from bus.cli.output import counted, one_line, plain, say, show, show_bytes, show_json
from bus.cli.running import run
from bus.dead import DeadLetter
from bus.exits import Exit
from protocol.errors import BadSubjectError

dead = typer.Typer(
    no_args_is_help=True,
    help="Look at dead letters and send them again.",
    epilog="Examples: bus dead list · bus dead show 7 · bus dead replay 7",
    rich_markup_mode=None,
)
app.add_typer(dead, name="dead")

Number = Annotated[int, typer.Argument(min=1, help="The letter's number, from `bus dead list`.")]


def _as_json(letter: DeadLetter) -> dict[str, Any]:
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
        about = f"{letter.holder}  {letter.subject}  {letter.reason}"
        show(f"{letter.number:6} {letter.at:%Y-%m-%d %H:%M:%S} {one_line(about)}")
    say(counted(len(letters), "dead letter") if letters else "there are no dead letters")
    return Exit.OK


async def _find(bus: Bus, number: int) -> DeadLetter:
    letter = await bus.dead.get(number)
    if letter is None:
        raise CommandError(Exit.FAILED, f"there is no dead letter {number}; `bus dead list` shows them")
    return letter


@dead.command("show", epilog="Examples: bus dead show 7 · bus dead show 7 --raw > message.json")
def show_letter(
    context: typer.Context,
    number: Number,
    raw: Annotated[bool, typer.Option("--raw", help="Print the original bytes and nothing else.")] = False,
    json: Json = False,
) -> int:
    """Show one dead letter with its original bytes (with --json in base64)."""

    async def work() -> DeadLetter:
        async with person_bus(context) as bus:
            return await _find(bus, number)

    letter = run(work)
    if raw:
        show_bytes(letter.data)
    elif json:
        show_json(_as_json(letter))
    else:
        for name in ("reason", "subject", "holder", "message_id"):
            show(f"{name + ':':12}{one_line(getattr(letter, name))}")
        show(f"{'at:':12}{letter.at.isoformat(timespec='milliseconds')}\n")
        show(plain(letter.data.decode(errors="backslashreplace")))
    return Exit.OK


@dead.command(epilog="Example: bus dead replay 7")
def replay(context: typer.Context, number: Number, json: Json = False) -> int:
    """Send a dead letter's message again to where it was first sent, and remove the letter."""

    async def work() -> DeadLetter:
        async with person_bus(context) as bus:
            letter = await _find(bus, number)
            try:
                await bus.dead.replay(letter)
            except BadSubjectError as error:
                raise CommandError(Exit.FAILED, f"letter {number} cannot be sent again: {error.reason}") from error
            return letter

    letter = run(work)
    show_json({"replayed": number, "subject": letter.subject}) if json else show(f"sent again to {letter.subject}")
    return Exit.OK
