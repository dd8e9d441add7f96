"""All of it together: a real process, a real broker, the real SDK, and a rehearsal of the model with faults."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec
import pytest

from actors.rehearsal.faults import Fault
from actors.rehearsal.parts import Answer, Call, Cue
from bus.ledger import Raised
from bus.ledger.amounts import amount_of
from protocol.codec import decode_envelope
from protocol.machine import SUSPEND
from protocol.messages import BudgetWarning
from protocol.subjects import Subjects
from tests.nats_server import NatsServer
from tests.thinking.company import KEY, Company, a_company, answers, writes

LINES = ["line 0", "line 1", "line 2"]


@pytest.fixture
async def company(tmp_path: Path, shared_server: NatsServer, subjects: Subjects) -> AsyncIterator[Company]:
    async with a_company(tmp_path, shared_server.url, subjects, writes()) as company:
        yield company


def has_been_called(company: Company, times: int) -> bool:
    return len(company.rehearsal.calls) >= times


async def test_a_story_is_thought_through_written_and_paid(company: Company) -> None:
    await company.start()
    await company.order()

    assert await company.ended() == 0, company.log
    records, book = await company.records(), await company.bus.ledger.read()
    told = answers(records)
    assert company.written() == LINES
    assert [(each["stop_reason"], each.get("tries", 1)) for each in told] == [("tool_use", 1)] * 6
    assert len({each["conversation"] for each in told}) == 1
    spent = book.account("story", "s-1")
    usages = [each["usage"] for each in told]
    assert spent.spent.tokens == sum(sum(usage.values()) - usage["thinking_tokens"] for usage in usages)
    assert spent.spent.microdollars > 0
    assert (spent.held.microdollars, book.holds()) == (0, ())
    assert KEY not in company.log
    assert all(KEY.encode() not in bytes(record.after) + bytes(record.event) for record in records)


async def test_whatever_is_killed_is_said_again_to_the_byte_and_paid_at_most_once_more(company: Company) -> None:
    kills = 0
    await company.order()
    await company.start()
    for number in (1, 3, 4):
        await company.until(partial(has_been_called, company, number))
        await company.kill()
        kills += 1
        await company.start()

    assert await company.ended() == 0, company.log
    told = answers(await company.records())
    calls = [call for call in company.rehearsal.calls if call.endpoint == "messages"]
    assert company.written() == LINES
    assert len(told) == 6
    assert len(calls) <= len(told) + kills
    assert len({call.sha256 for call in calls}) == len(told)


TRANSIENT = (
    Fault(kind="rate_limit", retry_after_seconds=0.1),
    Fault(kind="overloaded"),
    Fault(kind="server_error", status=503),
    Fault(kind="refuse_connection"),
    Fault(kind="no_answer"),
    Fault(kind="cut"),
    Fault(kind="stall"),
    Fault(kind="sse_error", error="overloaded_error"),
    Fault(kind="no_message_stop"),
    Fault(kind="malformed_json"),
)


async def test_what_is_transient_costs_a_try_and_nothing_else(
    tmp_path: Path, shared_server: NatsServer, subjects: Subjects
) -> None:
    """One after the other: each lets the good calls before it pass."""
    faults = [msgspec.structs.replace(fault, skips=place) for place, fault in enumerate(TRANSIENT)]
    async with a_company(tmp_path, shared_server.url, subjects, writes(9), *faults) as company:
        await company.start()
        await company.order()

        assert await company.ended() == 0, company.log
        told = answers(await company.records())
        assert company.written() == [f"line {n}" for n in range(9)]
        assert [each.get("tries", 1) for each in told] == [2] * len(TRANSIENT) + [1] * 2
        assert (await company.bus.ledger.read()).holds() == ()


async def test_an_outage_suspends_and_a_restore_goes_on_where_it_was(company: Company) -> None:
    company.rehearsal.add(Fault(kind="overloaded", seconds=3600, state="CODING"))
    await company.start()
    await company.order()
    await company.came_to(SUSPEND)
    company.rehearsal.clear()

    await company.restore()

    assert await company.ended() == 0, company.log
    states = [record.state_to for record in await company.records()]
    assert states[states.index(SUSPEND) - 1] == "CODING"
    assert company.written() == LINES


async def test_what_a_person_has_to_settle_is_an_ask_and_the_session_stays(company: Company) -> None:
    faults = {
        "does not accept the key": Fault(kind="auth"),
        "may not do this": Fault(kind="permission"),
        "cannot be charged": Fault(kind="billing"),
        "A spend limit": Fault(kind="spend_limit", status=429),
        "spend limit at": Fault(kind="spend_limit", status=400),
        "does not have this model": Fault(kind="not_found"),
    }
    company.rehearsal.add(*faults.values())
    await company.start()
    await company.order()

    asks = [await company.answer("try again") for _ in faults]

    assert await company.ended() == 0, company.log
    assert [words in ask.question for words, ask in zip(faults, asks, strict=True)] == [True] * len(faults)
    assert SUSPEND not in {record.state_to for record in await company.records()}
    assert company.written() == LINES


async def test_without_a_key_the_person_is_told_what_to_set(company: Company) -> None:
    await company.start(anthropic_api_key="")
    await company.order()

    ask = await company.asked()

    assert ask.question.startswith("There is no key for the model provider.")
    assert "CALLBOARD_ANTHROPIC_API_KEY" in ask.context


async def test_a_bad_request_is_ours_and_ends_in_error_with_what_the_api_said(company: Company) -> None:
    company.rehearsal.add(Fault(kind="bad_request"))
    await company.start()
    await company.order()

    assert await company.ended() == 4
    assert json.loads(bytes((await company.records())[-1].after))["failing"]["reason"].startswith("BadRequestError")


async def test_a_prompt_that_is_too_large_begins_the_conversation_anew(company: Company) -> None:
    company.rehearsal.add(Fault(kind="too_large", skips=2))
    await company.start()
    await company.order()
    await company.until(lambda: len(company.rehearsal.calls) > 4)

    assert len({each["conversation"] for each in answers(await company.records())}) == 2


# Budgets. The first call fits into this, with a short answer; a second one does not.

CEILING = 0.0095


async def test_the_budget_of_a_story_ends_in_its_review(company: Company) -> None:
    await company.start(budget_story_dollars=str(CEILING))
    await company.order()

    ask = await company.asked()

    account = (await company.bus.ledger.read()).account("story", "s-1")
    assert ask.context.startswith("budget: story s-1 may cost $0.0095")
    assert 0 < account.spent.microdollars <= CEILING * 1e6
    assert account.held.microdollars == 0
    assert (await company.records())[-1].state_to == "BUDGET_REVIEW"


async def test_a_story_whose_budget_a_person_raises_goes_on_where_it_was(company: Company) -> None:
    await company.start(budget_story_dollars=str(CEILING))
    await company.order()
    ask = await company.asked()
    more = amount_of(dollars=10)
    await company.bus.ledger.raise_ceiling(
        Raised(id="more", scope="story", name="s-1", by="me", at=datetime.now(UTC), amount=more)
    )

    await company.bus.asks.answer(ask.id, "CONTINUE", datetime.now(UTC))

    assert await company.ended() == 0, company.log
    assert company.written() == LINES
    assert len({each["conversation"] for each in answers(await company.records())}) == 1


@pytest.mark.parametrize(
    ("scope", "answer", "state"),
    [
        ("spec", "raise", "DONE"),
        ("day", "raise", "DONE"),
        ("spec", "pivot", "BUDGET_REVIEW"),
        ("spec", "abandon", "ERROR"),
    ],
)
async def test_the_budget_of_a_spec_or_a_day_is_an_ask_and_each_answer_a_way_out(
    company: Company, scope: str, answer: str, state: str
) -> None:
    await company.start(**{f"budget_{scope}_dollars": str(CEILING)})
    await company.order()

    ask = await company.answer(answer)

    await company.came_to(state)
    assert ask.question.startswith(f"The budget of {'a spec' if scope == 'spec' else 'the day'} is used up")
    assert ask.choices == ("raise", "continue once", "try again", "pivot", "abandon")


async def test_a_person_who_lets_it_continue_once_is_asked_again(company: Company) -> None:
    await company.start(budget_spec_dollars=str(CEILING))
    await company.order()

    asks = [await company.answer("continue once") for _ in range(5)]

    assert await company.ended() == 0, company.log
    assert len({ask.id for ask in asks}) == 5
    assert company.written() == LINES


async def test_each_warning_of_a_budget_is_told_once(company: Company) -> None:
    await company.start(budget_story_tokens="7000")
    await company.order()

    assert await company.ended() == 0, company.log
    warned = await _warnings(company)
    assert [(each.scope, each.name, each.kind, each.percent) for each in warned] == [("story", "s-1", "tokens", 80)]


async def _warnings(company: Company) -> list[BudgetWarning]:
    bus = company.bus
    read = bus.broker.read(bus.subjects.stream("EVENTS"), bus.subjects.every("event"))
    payloads = [decode_envelope(message.data).payload async for message in read]
    return [payload for payload in payloads if isinstance(payload, BudgetWarning)]


async def test_an_answer_that_is_cut_is_never_run(
    tmp_path: Path, shared_server: NatsServer, subjects: Subjects
) -> None:
    long = Answer(calls=(Call("edit", {"text": "word " * 3000}),))
    parts = (
        Cue(turns=0, says=Answer(calls=(Call("submit_plan"),))),
        Cue(turns=1, says=long),
        Cue(says=Answer(calls=(Call("done"),))),
    )
    async with a_company(tmp_path, shared_server.url, subjects, parts) as company:
        await company.start(model_coder_max_tokens="1500")
        await company.order()

        assert await company.ended() == 0, company.log
        assert [each["stop_reason"] for each in answers(await company.records())] == [
            "tool_use",
            "max_tokens",
            "max_tokens",
            "tool_use",
            "tool_use",
        ]
        assert [len(line) for line in company.written()] == [len("word " * 3000)]
