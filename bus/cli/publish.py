"""`bus publish`: hand a spec to the company."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bus.cli.app import Json, app, loaded_settings, person_bus, started_in
from bus.cli.failures import CommandError
from bus.cli.output import counted, plain, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from bus.publishing import Publication, publish_spec
from protocol.errors import SpecError
from protocol.spec import SPEC_BYTES_MAX, parse_spec

STDIN = "-"
_SENTENCES = {
    "published": "published {spec} as revision {revision}",
    "revised": "published a changed {spec} as revision {revision}",
    "unchanged": "{spec} was published before with the same text (revision {revision}): nothing sent",
}


@app.command(
    epilog="Examples: bus publish spec.md · bus publish --dry-run spec.md · cat spec.md | bus publish --json -",
)
def publish(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="The spec's markdown file, or - for standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the spec; needs no broker.")] = False,
    json: Json = False,
) -> int:
    """Check a spec and publish it. The same text again changes nothing; a changed one is a revision.

    An invalid spec is not published: every problem is told with its line, and the exit code is 1.
    """
    loaded = loaded_settings(context)
    data = _read(started_in(context), file)
    try:
        spec = parse_spec(data)
    except SpecError as error:
        return _refuse(file, error, json=json)
    if dry_run:
        show_json({"status": "valid", "spec": spec.id}) if json else show(f"{spec.id} is valid")
        return Exit.OK

    async def work() -> Publication:
        async with person_bus(context) as bus:
            return await publish_spec(
                bus,
                spec=spec.id,
                markdown=data.decode(),
                edition=loaded.settings.edition,
                now=datetime.now(UTC),
            )

    publication = run(work)
    if json:
        show_json(publication)
    else:
        show(_SENTENCES[publication.status].format(spec=publication.spec, revision=publication.revision))
    return Exit.OK


def _refuse(file: str, error: SpecError, *, json: bool) -> Exit:
    if json:
        show_json({"status": "invalid", "problems": msgspec.to_builtins(error.problems)})
    for problem in error.problems:
        say(plain(f"{file}:{problem.line}: {problem.what}: {problem.fix}"))
    say(f"bus: {file} is not a valid spec ({counted(len(error.problems), 'problem')}): nothing was published")
    return Exit.FAILED


def _read(folder: Path, file: str) -> bytes:
    """The file, or as much of it as tells the validator that it is too large."""
    try:
        if file == STDIN:
            return _read_stdin()
        with (folder / file).open("rb") as source:
            return source.read(SPEC_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(Exit.USAGE, f"{file}: {reason}") from error


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise CommandError(Exit.USAGE, "standard input is closed: there is no spec to read")
    if sys.stdin.isatty():
        say("reading the spec from here; end it with Ctrl-D")
    return sys.stdin.buffer.read(SPEC_BYTES_MAX + 1)
