"""`bus cost`: what the model's calls have cost, and each call that a number is made of."""

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

import typer

from bus.bus import Bus
from bus.cli.app import app
from bus.cli.failures import CommandError
from bus.cli.flags import Json, loaded_settings, person_bus, project_of
from bus.cli.output import counted, moment, one_line, say, show, show_json
from bus.cli.running import run
from bus.cli.usage import one_of
from bus.exits import Exit
from bus.ledger.amounts import MICRODOLLARS, Amount
from bus.ledger.book import Book
from bus.ledger.ceilings import Ceilings, ceilings_of, spelled
from bus.ledger.entries import SCOPES
from bus.ledger.statement import BYS, By, Call, Statement, Sum, read_statement, summed, total

NO_NAME = "-"

HEADER = ("calls", "prompt", "cached", "output", "dollars", "held", "ceiling", "estimated", "repeats")

Form = Literal["text", "json", "csv"]

Csv = Annotated[bool, typer.Option("--csv", help="Print lines for a spreadsheet.")]


def day_from(text: str) -> date:
    """A reader of days, for typer."""
    try:
        return today() if text == "today" else date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"must be a day such as 2026-01-31, or today, not {text!r}") from None


def today() -> date:
    """The day by which the ledger counts."""
    return datetime.now(UTC).date()


@app.command(
    epilog="Examples: bus cost · bus cost --by model --since 2026-01-31 · bus cost --calls s-1 · "
    "bus cost --by day --csv > cost.csv · bus cost --json"
)
def cost(  # noqa: PLR0913 -- each is an option
    context: typer.Context,
    *,
    by: Annotated[
        str, typer.Option("--by", parser=one_of(*BYS), metavar="|".join(BYS), help="What to sum by.")
    ] = "story",
    since: Annotated[
        date | None, typer.Option(parser=day_from, metavar="DAY", help="Only calls from this day (UTC) on.")
    ] = None,
    calls: Annotated[str, typer.Option("--calls", metavar="STORY", help="List each call of a story instead.")] = "",
    json: Json = False,
    csv: Csv = False,
) -> int:
    """Show what the model's calls have cost.

    Each call counts with its usage and the prices of its day; what is still open is held.
    A call without a known price is unpriced, not free: below ceilings it counts with the dearest price that is known.
    `estimated` are calls whose usage nobody saw to its end, `repeats` those made again after a crash.
    `--calls` names each call by its effect, which is its place in the journal.
    """
    if json and csv:
        raise CommandError(Exit.USAGE, "--json and --csv contradict each other: leave one out")
    form: Form = "json" if json else "csv" if csv else "text"
    statement = run(lambda: _read(context))
    chosen = [each for each in statement.calls if since is None or each.reserved.day >= since]
    if calls:
        _show_calls(context, [each for each in chosen if each.reserved.story == calls], calls, form)
        return Exit.OK
    ceilings = ceilings_of(loaded_settings(context).settings.budget)
    kind: By = next(each for each in BYS if each == by)
    sums = summed(chosen, kind)
    parts = {name: _part(statement.book, kind, name, ceilings) for name in sums}
    rows = [_as_json(name, each, parts[name]) for name, each in sums.items()]
    match form:
        case "json":
            whole = _as_json("", total(chosen), None)
            show_json({"by": kind, "rows": rows, "total": whole, "today": _today(statement.book, ceilings)})
        case "csv":
            _show_csv(rows)
        case "text" if chosen:
            cells = [_cells(name or NO_NAME, each, parts[name]) for name, each in sums.items()]
            show_table([(kind, *HEADER), *cells, _cells("total", total(chosen), None)])
            _say_unpriced(total(chosen))
        case "text":
            say(f"no call of the model is in the ledger of project {project_of(context)}")
    if form == "text":
        say(today_line(statement.book, ceilings))
    return Exit.OK


async def _read(context: typer.Context) -> Statement:
    async with person_bus(context) as bus:
        return await read_all(bus)


async def read_all(bus: Bus) -> Statement:
    """The whole ledger, from its beginning: a checkpoint is good enough to work by, but proves nothing."""
    return read_statement([(stored.sequence, stored.entry) async for stored in bus.ledger.read_entries()])


# Sums.


def _today(book: Book, ceilings: Ceilings) -> dict[str, Any]:
    day = today().isoformat()
    account, ceiling = book.account("day", day), book.ceiling("day", day, ceilings)
    return {"day": day, "spent": account.spent.dollars, "held": account.held.dollars, "ceiling": ceiling.dollars}


def _part(book: Book, by: By, name: str, ceilings: Ceilings) -> int | None:
    """How many percent of its ceiling a scope has spent in dollars; None where there is none."""
    scope = next((each for each in SCOPES if each == by), None)
    if scope is None or not name:
        return None
    return percent(book.account(scope, name).spent, book.ceiling(scope, name, ceilings))


def percent(spent: Amount, ceiling: Amount) -> int | None:
    """So many percent of a ceiling in dollars, rounded down; None where there is none."""
    return spent.microdollars * 100 // ceiling.microdollars if ceiling.microdollars else None


def _cells(name: str, each: Sum, part: int | None) -> tuple[str, ...]:
    usage = each.usage
    return (
        one_line(name),
        f"{each.calls:,}",
        f"{usage.prompt_tokens:,}",
        f"{usage.cache_read_tokens * 100 // usage.prompt_tokens} %" if usage.prompt_tokens else NO_NAME,
        f"{usage.output_tokens:,}",
        _dollars(each),
        money(each.held),
        NO_NAME if part is None else f"{part} %",
        f"{each.estimated:,}",
        f"{each.repeats:,}",
    )


def _dollars(each: Sum) -> str:
    if each.unpriced.tokens or each.unpriced.microdollars:
        return f"{money(each.spent)} + unpriced" if each.spent.microdollars else "unpriced"
    return money(each.spent)


def money(amount: Amount) -> str:
    """Dollars, to the hundredth of a cent: a call can cost less than a cent."""
    return f"${amount.microdollars / MICRODOLLARS:,.4f}"


def show_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as what is in them, names to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        show(f"{name:{widths[0]}}  {numbers}")


def _say_unpriced(everything: Sum) -> None:
    if everything.unpriced.tokens:
        most = money(everything.unpriced)
        say(f"{everything.unpriced.tokens:,} tokens are unpriced and not in the dollars (at the dearest price: {most})")


def today_line(book: Book, ceilings: Ceilings) -> str:
    """How the day stands against its ceiling."""
    day = today().isoformat()
    account, ceiling = book.account("day", day), book.ceiling("day", day, ceilings)
    held = f", {money(account.held)} held" if account.held.microdollars else ""
    part = percent(account.spent, ceiling)
    most = "no ceiling" if part is None else f"of {spelled('dollars', ceiling.microdollars)} ({part} %)"
    return f"today {day} (UTC): {money(account.spent)} {most}{held}"


def _as_json(name: str, each: Sum, part: int | None) -> dict[str, Any]:
    usage = each.usage
    return {
        "name": name,
        "calls": each.calls,
        "prompt_tokens": usage.prompt_tokens,
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_5m_tokens": usage.cache_write_5m_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "output_tokens": usage.output_tokens,
        "thinking_tokens": usage.thinking_tokens,
        "dollars": each.spent.dollars,
        "held_dollars": each.held.dollars,
        "unpriced_tokens": each.unpriced.tokens,
        "unpriced_dollars_at_most": each.unpriced.dollars,
        "seconds": each.spent.milliseconds / 1000 + each.unpriced.milliseconds / 1000,
        "ceiling_percent": part,
        "estimated": each.estimated,
        "repeats": each.repeats,
    }


def _show_csv(rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _harmless(value) for key, value in row.items()} for row in rows)
    show(text.getvalue().rstrip("\n"))


def _harmless(value: Any) -> Any:
    """A spreadsheet takes a text that begins so for a formula."""
    if isinstance(value, str):
        value = one_line(value)
        return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value
    return value


# Calls.


def _show_calls(context: typer.Context, calls: list[Call], story: str, form: Form) -> None:
    if not calls:
        where = f"project {project_of(context)} has no call of a story {story} in its ledger"
        raise CommandError(Exit.FAILED, f"{where}; `bus cost` lists the stories")
    if form == "json":
        show_json([_call_as_json(each) for each in calls])
    elif form == "csv":
        _show_csv([_call_as_json(each) for each in calls])
    else:
        for each in calls:
            show(one_line(_call_line(each)))
        say(f"{counted(len(calls), 'call')} of story {story}")
        _say_unpriced(total(calls))


def _call_line(call: Call) -> str:
    reserved, usage = call.reserved, call.usage
    spent = f"held {money(call.held)}" if call.became == "open" else money(call.spent)
    tokens = f"{usage.prompt_tokens:,} in ({usage.cache_read_tokens:,} cached), {usage.output_tokens:,} out"
    return (
        f"{reserved.effect:24}  {moment(reserved.at)}  {reserved.model:20}  {tokens:40}  {spent:>14}  {_remarks(call)}"
    )


def _remarks(call: Call) -> str:
    settled = call.closed.settled if call.closed else None
    remarks: Iterable[str] = (
        call.became if settled is None else settled.outcome,
        "" if call.priced else "unpriced, at the dearest price",
        "estimated" if call.estimated else "",
        "repeats an earlier call" if call.reserved.repeats else "",
        f"cache missed: {settled.miss_reason}" if settled and settled.miss_reason else "",
    )
    return ", ".join(filter(None, remarks))


def _call_as_json(call: Call) -> dict[str, Any]:
    reserved, usage, settled = call.reserved, call.usage, call.closed.settled if call.closed else None
    return {
        "call": reserved.call,
        "effect": reserved.effect,
        "session": reserved.session,
        "spec": reserved.spec,
        "role": reserved.role,
        "model": reserved.model,
        "at": moment(reserved.at),
        "became": call.became,
        "outcome": settled.outcome if settled else "",
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_5m_tokens": usage.cache_write_5m_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "output_tokens": usage.output_tokens,
        "thinking_tokens": usage.thinking_tokens,
        "dollars": call.spent.dollars,
        "held_dollars": call.held.dollars,
        "seconds": call.spent.milliseconds / 1000,
        "priced": call.priced,
        "price_version": settled.price_version if settled else "",
        "estimated": call.estimated,
        "repeats": reserved.repeats,
        "miss_reason": settled.miss_reason if settled else "",
    }
