"""`bus cost` and `bus budget`: every number from the ledger, and a person's word into it."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest

from bus.bus import Bus
from bus.ledger import Amount, Ceilings, Reservation, Reserved, Usage
from bus.ledger.amounts import MICRODOLLARS, amount_of
from tests.bus.command import Person
from tests.contract.calls import a_hold, the_cost

NONE = Ceilings()
USAGE = Usage(input_tokens=100, cache_read_tokens=900, output_tokens=50, thinking_tokens=20)


def today() -> date:
    return datetime.now(UTC).date()


async def call(bus: Bus, wanted: Reserved, dollars: float | None = None, **facts: Any) -> None:
    """A call that is settled, or left open."""
    answer = await bus.ledger.reserve(wanted, NONE)
    assert isinstance(answer, Reservation)
    if dollars is not None:
        cost = the_cost(answer.entry, int(dollars * MICRODOLLARS), **{"usage": USAGE, **facts})
        await bus.ledger.settle(cost, NONE)


def held(effect: str, story: str = "s-1", **facts: Any) -> Reserved:
    facts = {"day": today(), "hold": amount_of(dollars=2, tokens=5000), **facts}
    return a_hold(effect, story=story, **facts)


@pytest.fixture
async def spent(project_bus: Bus) -> Bus:
    """An evening's ledger."""
    await call(project_bus, held("s-1.1/1/0"), 1.25)
    await call(project_bus, held("s-1.1/2/0"))
    await call(project_bus, held("s-1.1/2/0", incarnation="two"), 0.75, miss_reason="tools_changed")
    await call(project_bus, held("s-2.1/1/0", "s-2", model="local", role="architect"), 9, priced=False)
    await call(project_bus, held("p-1/1/0", "", role="pm", day=today() - timedelta(days=1)), 0.5, estimated=True)
    await call(project_bus, held("s-2.1/2/0", "s-2"))
    return project_bus


async def test_an_empty_ledger_says_so(person: Person, project_bus: Bus) -> None:
    listed, as_data, as_csv = (
        await person.bus("cost"),
        await person.bus("cost", "--json"),
        await person.bus("cost", "--csv"),
    )
    shown = await person.bus("budget", "show")

    project = project_bus.subjects.project
    ceiling = f"today {today()} (UTC): $0.0000 of $100.00 (0 %)\n"
    assert listed.err == f"no call of the model is in the ledger of project {project}\n{ceiling}"
    assert (listed.code, listed.out, as_csv.out) == (0, "", "")
    assert (as_data.data["rows"], as_data.data["total"]["calls"]) == ([], 0)
    assert (shown.code, shown.out, shown.err) == (0, "", ceiling)


async def test_the_table_sums_by_story_and_says_what_is_unpriced(person: Person, spent: Bus) -> None:
    done = await person.bus("cost")

    rows = [line.split() for line in done.out.splitlines()]
    assert rows == [
        ["story", "calls", "prompt", "cached", "output", "dollars", "held", "ceiling", "estimated", "repeats"],
        ["s-1", "3", "2,000", "90", "%", "100", "$4.0000", "$0.0000", "80", "%", "1", "1"],
        ["s-2", "2", "1,000", "90", "%", "50", "unpriced", "$2.0000", "180", "%", "0", "0"],
        ["-", "1", "1,000", "90", "%", "50", "$0.5000", "$0.0000", "-", "1", "0"],
        ["total", "6", "4,000", "90", "%", "200", "$4.5000", "+", "unpriced", "$2.0000", "-", "2", "1"],
    ]
    assert done.err.splitlines() == [
        "1,050 tokens are unpriced and not in the dollars (at the dearest price: $9.0000)",
        f"today {today()} (UTC): $13.0000 of $100.00 (13 %), $2.0000 held",
    ]
    assert len({len(line) for line in done.out.splitlines()}) == 1


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("spec", ["todo"]),
        ("role", ["architect", "coder", "pm"]),
        ("model", ["claude-sonnet-5-5", "local"]),
        ("session", ["p-1", "s-1.1", "s-2.1"]),
        ("story", ["s-1", "s-2", ""]),
    ],
)
async def test_what_is_summed_by_anything_is_the_same_in_all(
    person: Person, spent: Bus, by: str, names: list[str]
) -> None:
    as_data, as_csv = await person.bus("cost", "--by", by, "--json"), await person.bus("cost", "--by", by, "--csv")

    rows, whole = as_data.data["rows"], as_data.data["total"]
    assert [row["name"] for row in rows] == names
    for key in ("calls", "prompt_tokens", "output_tokens", "dollars", "held_dollars", "unpriced_tokens", "repeats"):
        assert sum(row[key] for row in rows) == whole[key]
    in_lines = list(csv.DictReader(io.StringIO(as_csv.out)))
    assert [(row["name"], float(row["dollars"])) for row in in_lines] == [(row["name"], row["dollars"]) for row in rows]


async def test_only_what_is_asked_for_is_summed(person: Person, spent: Bus) -> None:
    of_today = await person.bus("cost", "--since", today().isoformat(), "--by", "day", "--json")

    (row,) = of_today.data["rows"]
    assert (row["name"], row["calls"], row["dollars"], row["ceiling_percent"]) == (today().isoformat(), 5, 4.0, 13)
    assert of_today.data["today"] == {"day": today().isoformat(), "spent": 13.0, "held": 2.0, "ceiling": 100.0}


async def test_each_call_of_a_story_is_explained_with_its_place_in_the_journal(person: Person, spent: Bus) -> None:
    listed, as_data = await person.bus("cost", "--calls", "s-1"), await person.bus("cost", "--calls", "s-1", "--json")

    assert [(each["effect"], each["became"], each["dollars"], each["repeats"]) for each in as_data.data] == [
        ("s-1.1/1/0", "settled", 1.25, False),
        ("s-1.1/2/0", "repeated", 2.0, False),
        ("s-1.1/2/0", "settled", 0.75, True),
    ]
    first, second, third = listed.out.splitlines()
    assert first.split()[0] == "s-1.1/1/0"
    assert first.split("  ")[-1] == "ok"
    assert "1,000 in (900 cached), 50 out " in first
    assert second.endswith("$2.0000  repeated, estimated")
    assert third.endswith("$0.7500  ok, repeats an earlier call, cache missed: tools_changed")
    assert listed.err == "3 calls of story s-1\n"


async def test_a_story_without_calls_is_a_failure_with_advice(person: Person, spent: Bus) -> None:
    done = await person.bus("cost", "--calls", "s-9")

    assert done.code == 1
    assert done.err.endswith("has no call of a story s-9 in its ledger; `bus cost` lists the stories\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cost", "--by", "mood"], "--by must be spec, story, role, model, day or session, not 'mood'"),
        (["cost", "--since", "lately"], "--since must be a day such as 2026-01-31, or today, not 'lately'"),
        (["cost", "--json", "--csv"], "--json and --csv contradict each other"),
        (["budget", "raise", "story", "s-1"], "say by how much: --dollars, --tokens or --minutes"),
        (["budget", "raise", "mood", "s-1", "--dollars", "1"], "must be story, spec or day, not 'mood'"),
        (["budget", "raise", "day", "someday", "--dollars", "1"], "must be a day such as"),
        (["budget", "raise", "story", "", "--dollars", "1"], "use 1 to 64 of a-z 0-9 - _"),
    ],
)
async def test_a_wrong_command_line_says_how(person: Person, words: list[str], said: str) -> None:
    done = await person.bus(*words)

    assert done.code == 2
    assert said in done.err


async def test_names_from_the_ledger_cannot_hurt_a_terminal_or_a_spreadsheet(person: Person, project_bus: Bus) -> None:
    await call(project_bus, held("s-1.1/1/0", "=HYPERLINK(1)\x1b[2J"), 1)

    listed, as_csv = await person.bus("cost"), await person.bus("cost", "--csv")

    assert "\x1b" not in listed.out + as_csv.out
    assert "'=HYPERLINK(1)" in as_csv.out


async def test_a_raise_by_hand_counts_at_once_and_is_recorded_with_a_name(person: Person, spent: Bus) -> None:
    raised = await person.bus("budget", "raise", "story", "s-1", "--dollars", "2.5", "--tokens", "7")
    again = await person.bus("budget", "raise", "story", "s-1", "--dollars", "1", "--json")

    assert (raised.code, raised.out) == (0, "story s-1 may cost $7.50\n")
    assert raised.err == ("a story has no ceiling in tokens by these settings: that counts only where they set one\n")
    assert again.data["ceiling"]["dollars"] == 8.5
    book = await spent.ledger.read()
    assert book.account("story", "s-1").raised == Amount(microdollars=3_500_000, tokens=7)
    last = [stored.entry async for stored in spent.ledger.read_entries()][-1]
    assert msgspec.to_builtins(last)["by"]


async def test_continue_once_is_recorded_also_for_what_nobody_has_heard_of(person: Person, spent: Bus) -> None:
    done = await person.bus("budget", "once", "spec", "tood")

    assert (done.code, done.out) == (0, "one more call of spec tood may pass\n")
    assert done.err == "the ledger has not heard of a spec tood yet\n"
    assert (await spent.ledger.read()).account("spec", "tood").passes == 1


async def test_the_budget_shows_every_scope_and_says_when_the_day_is_used_up(person: Person, spent: Bus) -> None:
    (person.folder / "callboard.toml").write_text("[budget]\nday_dollars = 13\nspec_tokens = 10_000\n")

    shown, as_data = await person.bus("budget", "show"), await person.bus("budget", "show", "--json")
    await person.bus("budget", "raise", "day", "today", "--dollars", "1")
    raised = await person.bus("budget", "show")

    assert (shown.code, as_data.code, raised.code) == (6, 6, 0)
    assert [(each["scope"], each["name"], each["reached"]) for each in as_data.data] == [
        ("story", "s-1", False),
        ("story", "s-2", True),
        ("spec", "todo", False),
        ("day", (today() - timedelta(days=1)).isoformat(), False),
        ("day", today().isoformat(), True),
    ]
    assert shown.out.splitlines()[3].split() == [
        *("spec", "todo", "$13.5000", "$2.0000", "$50.00", "27", "%", "9,200", "of", "10,000", "0.0", "-")
    ]
    assert shown.err.startswith(f"today {today()} (UTC): $13.0000 of $13.00 (100 %), $2.0000 held")
