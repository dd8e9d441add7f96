"""`bus asks` and `bus answer`: what only a person can settle."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from bus.asks import Ask
from bus.bus import Bus
from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json, person_bus, project_of
from bus.cli.input import STDIN, read_stdin
from bus.cli.output import counted, moment, one_line, plain, say, show, show_json
from bus.cli.running import run
from bus.errors import UnknownAskError
from bus.exits import Exit
from protocol.errors import BadSubjectError

ANSWER_BYTES_MAX = 64 * 1024
INDENT = "    "


@app.command(epilog="Examples: bus asks · bus asks --json")
def asks(context: typer.Context, json: Json = False) -> int:
    """List what waits for your answer.

    The oldest comes first, each with the id that `bus answer` wants.
    """

    async def work() -> list[Ask]:
        async with person_bus(context) as bus:
            return await bus.asks.open()

    waiting = run(work)
    if json:
        show_json(waiting)
        return Exit.OK
    for ask in waiting:
        show(_as_text(ask))
    project = project_of(context)
    say(f"{counted(len(waiting), 'open ask')} in project {project}" if waiting else f"project {project} asks nothing")
    return Exit.OK


def _as_text(ask: Ask) -> str:
    """The id and the time, then what belongs to it, indented: a text of several lines cannot pass for another ask."""
    lines = [f"{one_line(ask.id)}  {moment(ask.asked_at)}", *_indented(ask.question)]
    if ask.choices:
        lines.append(f"{INDENT}choices: {_listed(ask.choices)}")
    if ask.context:
        lines.extend(_indented(ask.context))
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"{INDENT}{line}" for line in plain(text).split("\n")]


def _listed(choices: tuple[str, ...]) -> str:
    return one_line(", ".join(choices))


@app.command(
    epilog=(
        "Examples: bus answer pm.main.7.0 yes · bus answer pm.main.7.0 use the small one · "
        "bus answer pm.main.7.0 - < answer.txt · bus answer pm.main.7.0 --json -- -1"
    ),
)
def answer(
    context: typer.Context,
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The ask's id, from `bus asks`.")],
    words: Annotated[list[str], typer.Argument(metavar="ANSWER", help="What you say, or - for standard input.")],
    json: Json = False,
) -> int:
    """Answer an open ask.

    The first answer stands. Where the ask has choices it must be one of them, in capitals or not.
    """
    said = _read(words)

    async def work() -> str:
        async with person_bus(context) as bus:
            return await _settle(bus, identifier, said)

    given = run(work)
    show_json({"ask": identifier, "answer": given}) if json else show(f"answered {identifier}: {one_line(given)}")
    return Exit.OK


def _read(words: list[str]) -> str:
    text = _read_stdin() if words == [STDIN] else " ".join(words)
    if not text.strip():
        raise CommandError(Exit.USAGE, "the answer is empty: nothing was answered")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise CommandError(Exit.USAGE, "the answer is not UTF-8 text: nothing was answered") from error
    if size > ANSWER_BYTES_MAX:
        raise CommandError(Exit.USAGE, f"the answer is larger than {ANSWER_BYTES_MAX:,} bytes: nothing was answered")
    return text


def _read_stdin() -> str:
    """Without the newline that ends it; what is no UTF-8 stays visible as such."""
    return read_stdin("answer", ANSWER_BYTES_MAX + 2).decode(errors="surrogateescape").removesuffix("\n")


async def _settle(bus: Bus, identifier: str, said: str) -> str:
    try:
        ask = await bus.asks.get(identifier)
    except BadSubjectError as error:  # nobody can have asked under such a name
        raise UnknownAskError(identifier) from error
    given = _choose(ask, said)
    if given is None and await bus.asks.answer_to(identifier) is None:
        raise CommandError(Exit.FAILED, f"{said!r} is not among the choices of {identifier}: {_listed(ask.choices)}")
    await bus.asks.answer(identifier, said if given is None else given, datetime.now(UTC))
    return said if given is None else given


def _choose(ask: Ask, said: str) -> str | None:
    """The answer as the ask spells it; None if it is none of the choices."""
    if not ask.choices or said in ask.choices:
        return said
    meant = said.strip().casefold()
    return next((choice for choice in ask.choices if choice.strip().casefold() == meant), None)
