"""`bus publish`: hand a spec to the company."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus, started_in
from bus.cli.input import STDIN, read_stdin
from bus.cli.output import complain, counted, one_line, say, show, show_json
from bus.cli.running import run
from bus.exits import Exit
from bus.publishing import Publication, publish_spec
from protocol.errors import SpecError
from protocol.spec import SPEC_BYTES_MAX, parse_spec

_SENTENCES = {
    "published": "published {spec} as revision {revision} (project {project})",
    "revised": "published a changed {spec} as revision {revision} (project {project})",
    "unchanged": "{spec} was published before with the same text (revision {revision}): nothing sent "
    "(project {project})",
}
_IF_STOPPED = "publish again if in doubt: the same text is sent only once"


@app.command(
    epilog="Examples: bus publish spec.md · bus publish --dry-run spec.md · cat spec.md | bus publish --json -",
)
def publish(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="The spec's markdown file, or - for standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the spec; needs no broker.")] = False,
    json: Json = False,
) -> int:
    """Check a spec and publish it.

    The same text again changes nothing; a changed one is a revision.
    An invalid spec is not published: every problem is told with its line, and the exit code is 1.
    """
    loaded = None if dry_run else loaded_settings(context)
    data = _read(started_in(context), file)
    try:
        spec = parse_spec(data)
    except SpecError as error:
        return _refuse(file, error, json=json)
    if loaded is None:
        show_json({"status": "valid", "spec": spec.id}) if json else show(f"{spec.id} is valid")
        return Exit.OK

    settings = loaded.settings

    async def work() -> Publication:
        async with person_bus(context) as bus:
            return await publish_spec(
                bus,
                spec=spec.id,
                markdown=data.decode(),
                edition=settings.edition,
                now=datetime.now(UTC),
            )

    publication = run(work, if_stopped=_IF_STOPPED)
    if json:
        show_json(publication)
    else:
        facts = {"spec": publication.spec, "revision": publication.revision, "project": settings.project}
        show(_SENTENCES[publication.status].format(**facts))
    return Exit.OK


def _refuse(file: str, error: SpecError, *, json: bool) -> Exit:
    if json:
        show_json({"status": "invalid", "problems": msgspec.to_builtins(error.problems)})
    name = "<stdin>" if file == STDIN else file
    for problem in error.problems:
        say(one_line(f"{name}:{problem.line}: {problem.what}: {problem.fix}"))
    complain(f"{name} is not a valid spec ({counted(len(error.problems), 'problem')}): nothing was published")
    return Exit.FAILED


def _read(folder: Path, file: str) -> bytes:
    """The file, or as much of it as tells the validator that it is too large."""
    if not file:
        raise CommandError(Exit.USAGE, "no file was named: bus publish FILE, or - for standard input")
    if file == STDIN:
        return read_stdin("spec", SPEC_BYTES_MAX + 1)
    try:
        with (folder / file).open("rb") as source:
            return source.read(SPEC_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise CommandError(Exit.USAGE, f"{file}: {reason}") from error
