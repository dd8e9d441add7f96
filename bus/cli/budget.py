"""`bus budget`: how much may still be spent, and a person's word that it may be more."""

import getpass
import secrets
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from bus.cli.app import app
from bus.cli.cost import NO_NAME, day_from, money, percent, show_table, today, today_line
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus
from bus.cli.output import one_line, say, show, show_json
from bus.cli.running import run
from bus.cli.usage import one_of
from bus.exits import Exit
from bus.ledger.amounts import NOTHING, Amount, amount_of
from bus.ledger.book import Book
from bus.ledger.ceilings import Ceilings, ceilings_of, spelled
from bus.ledger.entries import SCOPES, Raised, Scope
from protocol.subjects import check_id

RAISE_MAX = 1_000_000
TOKENS_MAX = 10**12

HEADER = ("name", "spent", "held", "ceiling", "spent %", "tokens", "minutes", "once")

budget = typer.Typer(
    no_args_is_help=True,
    help="See what may still be spent, and allow more.",
    epilog="Examples: bus budget show · bus budget raise story s-1 --dollars 5 · bus budget once story s-1",
    rich_markup_mode=None,
)
app.add_typer(budget, name="budget")

Where = Annotated[str, typer.Argument(parser=one_of(*SCOPES), metavar="|".join(SCOPES), help="What kind of ceiling.")]
Named = Annotated[str, typer.Argument(metavar="NAME", help="Which story or spec; for a day a date, or today.")]


@budget.command("show", epilog="Examples: bus budget show · bus budget show --json")
def show_budget(context: typer.Context, json: Json = False) -> int:
    """Show each story, spec and day against its ceilings.

    Exit code 6: today's ceiling is reached.
    """
    ceilings = ceilings_of(loaded_settings(context).settings.budget)

    async def work() -> Book:
        async with person_bus(context) as bus:
            return await bus.ledger.read()

    book = run(work)
    places = [(scope, name) for scope in SCOPES for name in book.names(scope)]
    if json:
        show_json([_as_json(book, scope, name, ceilings) for scope, name in places])
    else:
        if places:
            rows = [(scope, *_cells(book, scope, name, ceilings)) for scope, name in places]
            show_table([("scope", *HEADER), *rows])
        say(today_line(book, ceilings))
    return Exit.BUDGET if is_reached(book, "day", today().isoformat(), ceilings) else Exit.OK


def is_reached(book: Book, scope: Scope, name: str, ceilings: Ceilings) -> bool:
    """Whether a scope has spent all of one of its ceilings."""
    pairs = zip(book.account(scope, name).spent.measured(), book.ceiling(scope, name, ceilings).measured(), strict=True)
    return any(most and spent >= most for (_, spent), (_, most) in pairs)


def _cells(book: Book, scope: Scope, name: str, ceilings: Ceilings) -> tuple[str, ...]:
    account, ceiling = book.account(scope, name), book.ceiling(scope, name, ceilings)
    part = percent(account.spent, ceiling)
    return (
        one_line(name),
        money(account.spent),
        money(account.held),
        spelled("dollars", ceiling.microdollars) if ceiling.microdollars else "none",
        NO_NAME if part is None else f"{part} %",
        f"{account.spent.tokens:,}" + (f" of {ceiling.tokens:,}" if ceiling.tokens else ""),
        f"{account.spent.minutes:,.1f}" + (f" of {ceiling.minutes:,.1f}" if ceiling.milliseconds else ""),
        str(account.passes or NO_NAME),
    )


def _as_json(book: Book, scope: Scope, name: str, ceilings: Ceilings) -> dict[str, Any]:
    account, ceiling = book.account(scope, name), book.ceiling(scope, name, ceilings)
    return {
        "scope": scope,
        "name": name,
        "spent": _amount(account.spent),
        "held": _amount(account.held),
        "ceiling": _amount(ceiling),
        "raised": _amount(account.raised),
        "once": account.passes,
        "reached": is_reached(book, scope, name, ceilings),
    }


def _amount(amount: Amount) -> dict[str, float]:
    return {"dollars": amount.dollars, "tokens": amount.tokens, "minutes": amount.minutes}


@budget.command(
    "raise", epilog="Examples: bus budget raise story s-1 --dollars 5 · bus budget raise day today --dollars 20"
)
def raise_ceiling(  # noqa: PLR0913 -- each is an option
    context: typer.Context,
    scope: Where,
    name: Named,
    *,
    dollars: Annotated[float, typer.Option(min=0, max=RAISE_MAX, help="So many dollars more.")] = 0.0,
    tokens: Annotated[int, typer.Option(min=0, max=TOKENS_MAX, help="So many tokens more.")] = 0,
    minutes: Annotated[float, typer.Option(min=0, max=RAISE_MAX, help="So many minutes more.")] = 0.0,
    json: Json = False,
) -> int:
    """Raise the ceiling of one story, spec or day.

    It is recorded with your name, and each raise adds to those before.
    """
    amount = amount_of(dollars=dollars, tokens=tokens, minutes=minutes)
    if amount == NOTHING:
        raise CommandError(Exit.USAGE, "say by how much: --dollars, --tokens or --minutes")
    return _record(context, scope, name, amount, once=False, json=json)


@budget.command(epilog="Example: bus budget once story s-1")
def once(context: typer.Context, scope: Where, name: Named, json: Json = False) -> int:
    """Let one more call pass, whatever the ceiling.

    The next call of that story, spec or day that would go over uses it up.
    """
    return _record(context, scope, name, NOTHING, once=True, json=json)


def _record(context: typer.Context, where: str, name: str, amount: Amount, *, once: bool, json: bool) -> int:  # noqa: PLR0913
    scope = next(each for each in SCOPES if each == where)
    name = day_from(name).isoformat() if scope == "day" else check_id(name)
    ceilings = ceilings_of(loaded_settings(context).settings.budget)
    entry = Raised(
        id=secrets.token_hex(8), scope=scope, name=name, by=_who(), at=datetime.now(UTC), amount=amount, once=once
    )

    async def work() -> tuple[bool, Book]:
        async with person_bus(context) as bus:
            known = (await bus.ledger.read()).names(scope)
            return name in known, await bus.ledger.raise_ceiling(entry)

    was_known, book = run(work)
    if json:
        show_json(_as_json(book, scope, name, ceilings))
        return Exit.OK
    ceiling = book.ceiling(scope, name, ceilings)
    if once:
        show(one_line(f"one more call of {scope} {name} may pass"))
    else:
        for (kind, more), (_, most) in zip(amount.measured(), ceiling.measured(), strict=True):
            if more and most:
                show(one_line(f"{scope} {name} may cost {spelled(kind, most)}"))
            elif more:
                say(f"a {scope} has no ceiling in {kind} by these settings: that counts only where they set one")
    if not was_known:
        say(f"the ledger has not heard of a {scope} {one_line(name)} yet")
    return Exit.OK


def _who() -> str:
    """The person at the keyboard, as far as the machine knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "person"
