"""The company on one screen."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bus.asks import Ask
from bus.cli.output import counted, moment, one_line
from bus.health import Health, Service
from protocol.machine import DONE, ERROR, SUSPEND
from supervisors.core.standing import ChildStanding, Standing
from supervisors.views.overview import Actor, Overview, Work
from supervisors.views.words import NOBODY, company_line, note_on, since_of, state_of

SESSIONS_SHOWN = 8
"""Of one actor, so that the others are on the screen too."""

_STYLES = {SUSPEND: "yellow", ERROR: "red", DONE: "green", "down": "red", "over": "red"}


def render(overview: Overview) -> RenderableType:
    """All of it, for a terminal or anything else; texts of unknown origin are escaped."""
    parts: list[RenderableType] = [Text(company_line(overview), style="bold")]
    if overview.health is not None and overview.running:
        parts += [Text(), _health(overview.health)]
    if overview.actors or _services(overview.standing):
        parts += [Text(), _team(overview)]
    if overview.asks:
        heading = f"{counted(len(overview.asks), 'ask')} {'waits' if len(overview.asks) == 1 else 'wait'} for you:"
        parts += [Text(), Text(heading, style="bold"), *map(_ask, overview.asks)]
    return Group(*parts)


def _health(health: Health) -> Table:
    table = _table("API", "HEALTH", "SINCE", "IN A ROW", "LATENCY", "LAST ERROR")
    for service in health.services:
        table.add_row(
            Text(one_line(service.name)),
            _health_word(service),
            Text(moment(service.since)),
            Text(f"{service.failures} failed" if service.failures else f"{service.successes} good"),
            Text(f"{service.latency_ms:.1f} ms"),
            Text(one_line(service.error)),
        )
    return table


def _health_word(service: Service) -> Text:
    return Text("healthy", style="green") if service.healthy else Text("NOT HEALTHY", style="bold red")


def _team(overview: Overview) -> Table:
    table = _table("NAME", "STATE", "WORK", "SINCE", "NOTE")
    for child in _services(overview.standing) if overview.running else ():
        table.add_row(child.name, _state(child.phase), NOBODY, moment(child.since) if child.since else NOBODY, "")
    for actor in overview.actors:
        for row in _rows(actor, overview):
            table.add_row(*row)
    return table


def _services(standing: Standing | None) -> list[ChildStanding]:
    return [child for child in standing.children if not child.actor] if standing else []


def _rows(actor: Actor, overview: Overview) -> Iterator[tuple[Text, ...]]:
    shown: tuple[Work | None, ...] = actor.work[:SESSIONS_SHOWN] or (None,)
    for number, work in enumerate(shown):
        since = since_of(actor, work)
        yield (
            Text("" if number else one_line(actor.name)),
            _state(state_of(actor, work, running=overview.running)),
            Text(one_line(work.session) if work else NOBODY),
            Text(moment(since) if since else NOBODY),
            Text(note_on(actor, work, overview)),
        )
    if len(actor.work) > SESSIONS_SHOWN:
        more = f"and {len(actor.work) - SESSIONS_SHOWN} more: `supervisor status --json` has them"
        yield Text(), Text(), Text(), Text(), Text(more, style="dim")


def _state(state: str) -> Text:
    return Text(state, style=_STYLES.get(state, ""))


def _ask(ask: Ask) -> Text:
    choices = f" ({' | '.join(ask.choices)})" if ask.choices else ""
    return Text(one_line(f"  {ask.id}: {ask.question}{choices}"))


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=heading not in ("NOTE", "LAST ERROR"), overflow="fold")
    return table
