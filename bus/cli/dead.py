"""`bus dead`: what could not be read or handled."""

import base64
from typing import Annotated, Any

import typer

from bus.bus import Bus
from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json, person_bus, project_of
from bus.cli.lines import UNKNOWN
from bus.cli.output import counted, moment, one_line, plain, say, show, show_bytes, show_json
from bus.cli.running import run
from bus.cli.usage import number_from
from bus.dead import DeadLetter
from bus.exits import Exit
from protocol.errors import BadSubjectError

dead = typer.Typer(
    no_args_is_help=True,
    help="Look at dead letters, send them again or drop them.",
    epilog="Examples: bus dead list · bus dead show 7 · bus dead replay 7 · bus dead drop 7",
    rich_markup_mode=None,
)
app.add_typer(dead, name="dead")

Number = Annotated[
    int, typer.Argument(parser=number_from(1), metavar="NUMBER", help="The letter's number, from `bus dead list`.")
]


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
        about = f"{letter.holder or UNKNOWN}  {letter.subject or UNKNOWN}  {letter.reason}"
        show(f"{letter.number:6}  {moment(letter.at)}  {one_line(about)}")
    project = project_of(context)
    say(counted(len(letters), "dead letter") if letters else f"there are no dead letters in project {project}")
    return Exit.OK


async def _find(bus: Bus, number: int) -> DeadLetter:
    letter = await bus.dead.get(number)
    if letter is None:
        where = f"project {bus.subjects.project} has no dead letter {number}"
        raise CommandError(Exit.FAILED, f"{where}; `bus dead list` shows those it has")
    return letter


@dead.command("show", epilog="Examples: bus dead show 7 · bus dead show 7 --raw > message.json")
def show_letter(
    context: typer.Context,
    number: Number,
    raw: Annotated[bool, typer.Option("--raw", help="Print the original bytes and nothing else.")] = False,
    json: Json = False,
) -> int:
    """Show one dead letter with its original bytes.

    With --json they are in base64.
    """
    if raw and json:
        raise CommandError(Exit.USAGE, "--raw and --json contradict each other: leave one out")

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
        show(f"{'at:':12}{moment(letter.at)}\n")
        show(plain(letter.data.decode(errors="backslashreplace")))
    return Exit.OK


@dead.command(epilog="Example: bus dead replay 7")
def replay(context: typer.Context, number: Number, json: Json = False) -> int:
    """Send a dead letter's message again.

    It goes to where it was first sent, and the letter is removed.
    """

    async def work() -> DeadLetter:
        async with person_bus(context) as bus:
            letter = await _find(bus, number)
            try:
                await bus.dead.replay(letter)
            except BadSubjectError as error:
                hint = f"`bus dead drop {number}` removes it for good"
                sentence = f"letter {number} cannot be sent again: {error.reason}; {hint}"
                raise CommandError(Exit.FAILED, sentence) from error
            return letter

    letter = run(work)
    show_json({"replayed": number, "subject": letter.subject}) if json else show(
        f"sent again to {one_line(letter.subject)}"
    )
    return Exit.OK


@dead.command(epilog="Example: bus dead drop 7")
def drop(context: typer.Context, number: Number, json: Json = False) -> int:
    """Remove a dead letter for good.

    Its message is lost with it: `bus dead show NUMBER --raw` keeps a copy.
    """

    async def work() -> DeadLetter:
        async with person_bus(context) as bus:
            letter = await _find(bus, number)
            await bus.dead.drop(letter)
            return letter

    letter = run(work)
    if json:
        show_json({"dropped": number, "subject": letter.subject, "reason": letter.reason})
    else:
        show(one_line(f"dropped letter {number} of {letter.holder or UNKNOWN}: {letter.reason}"))
    return Exit.OK
