"""`bus publish`: hand a spec to the company."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bus.cli.app import Json, app, loaded_settings, person_bus, run, say, show, show_json
from bus.exits import Exit
from bus.publishing import Publication, publish_spec
from protocol.errors import SpecError
from protocol.spec import SPEC_BYTES_MAX, parse_spec

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the spec.")] = False,
    json: Json = False,
) -> int:
    """Check a spec and publish it. The same text again changes nothing; a changed one is a revision."""
    loaded = loaded_settings(context)
    try:
        data = _read(file)
    except OSError as error:
        say(f"bus: {file}: {error.strerror}")
        return Exit.USAGE
    try:
        spec = parse_spec(data)
    except SpecError as error:
        if json:
            show_json({"status": "invalid", "problems": [msgspec.to_builtins(each) for each in error.problems]})
        for problem in error.problems if not json else ():
            say(f"{file}:{problem.line}: {problem.what}: {problem.fix}")
        say(f"bus: {file} is no valid spec: {len(error.problems)} to fix; nothing was published")
        return Exit.FAILED
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


def _read(file: str) -> bytes:
    """The file, or as much of it as tells the validator that it is too large."""
    if file == "-":
        return sys.stdin.buffer.read(SPEC_BYTES_MAX + 1)
    with Path(file).open("rb") as source:
        return source.read(SPEC_BYTES_MAX + 1)
