"""The purse: what a call can cost is held before it is made, and what it was is settled after it, however it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from typing import get_args

import msgspec
import structlog

from actors.claude.troubled import TroubleError
from actors.runtime.world import World
from actors.thinking.effects import AskModel, BudgetRaised, RaiseBudget
from actors.thinking.errors import DayBudgetError, SpecBudgetError, StoryBudgetError
from actors.thinking.troubles import Refused, Transient, Trouble
from bus.ledger import (
    Amount,
    Book,
    Ceilings,
    Crossed,
    PriceTable,
    Raised,
    Refusal,
    Reserved,
    Room,
    Scope,
    Settled,
    Usage,
    call_id,
)
from bus.ledger.ceilings import spelled
from protocol.codec import encode
from protocol.marks import message_id, parse_message_id
from protocol.messages import BudgetWarning, Envelope
from protocol.routing import address
from protocol.subjects import Role

ANSWER_TOKENS_MIN = 512
"""What is left of a budget is used up when there is no room for an answer of so many tokens, or for so long a wait."""
ANSWER_SECONDS_MIN = 10.0
CLAMPS_MAX = 5
"""How often a call is made smaller at once while others take what is left."""
WAIT_SECONDS = 2.0
"""How long, about, to wait for what others hold before looking again."""
COUNT_MARGIN = 1.02
"""The provider's count is its estimate."""
BYTES_PER_TOKEN = 4
"""For the estimate of a call of which nothing was heard."""

ERRORS = {"story": StoryBudgetError, "spec": SpecBudgetError, "day": DayBudgetError}

log = structlog.get_logger()


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A call that somebody wants to make. `count` asks the provider how large the prompt is, which costs nothing."""

    asked: AskModel
    model: str
    prompt_tokens_max: int
    max_tokens: int
    seconds: float
    repeats: bool
    """Whether a whole answer to the same question was paid before, and not recorded."""
    count: Callable[[], Awaitable[int]]


class Bill:
    """A call that may be made: how much it may say, how long it may take, and at its end what it was."""

    def __init__(self, reserved: Reserved, max_tokens: int, waited_seconds: float) -> None:
        self.reserved = reserved
        self.max_tokens = max_tokens
        self.waited_seconds = waited_seconds
        self.seconds = reserved.hold.milliseconds / 1000
        self.began: float | None = None
        self.usage = Usage()
        self.estimated = False
        self.outcome = ""
        self.miss_reason = ""


class Purse:
    """What the sessions of one process may spend."""

    def __init__(self, world: World, role: Role, ceilings: Ceilings, prices: PriceTable) -> None:
        self._world = world
        self._role = role
        self._ceilings = ceilings
        self._prices = prices
        self._calls = count(1)
        self._letters = count(1)
        self._settling: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def paying(self, wanted: Wanted) -> AsyncIterator[Bill]:
        """Hold what a call can cost while it is made. StoryBudgetError, SpecBudgetError, DayBudgetError: it may not."""
        bill = await self._hold(wanted)
        try:
            yield bill
        except TroubleError as error:
            _estimate(bill, error.trouble, wanted)
            await self._settle(bill)
            raise
        except BaseException:
            # Given up from outside: nobody knows what it came to, and nobody can be waited for now.
            settling = asyncio.ensure_future(self._settle(bill) if bill.began is None else self._settle_as_held(bill))
            self._settling.add(settling)
            settling.add_done_callback(self._settling.discard)
            raise
        else:
            await self._settle(bill)

    def begin(self, bill: Bill) -> None:
        """The call is made now: from here on it takes time, and costs something however it ends."""
        bill.began = self._world.elapsed()

    async def has_paid(self, effect: str) -> bool:
        """Whether a call for an effect was answered, as the ledger has it."""
        calls: set[str] = set()
        async for stored in self._world.bus.ledger.read_entries():
            match stored.entry:
                case Reserved(effect=of, call=call) if of == effect:
                    calls.add(call)
                case Settled(call=call, outcome=outcome) if call in calls and outcome not in get_args(Transient):
                    return True
        return False

    async def raise_ceiling(self, effect: RaiseBudget) -> BudgetRaised:
        """Carry out a person's word; twice is once, and so are the words of several who were stopped by the same."""
        now = self._world.now()
        scope: Scope = "day" if effect.scope == "day" else "spec" if effect.scope == "spec" else "story"
        name = effect.name or now.date().isoformat()
        by_now = (await self._world.bus.ledger.read()).account(scope, name).raised
        if effect.once or effect.raised in (None, by_now):
            from_here = "/".join(str(number) for _, number in by_now.measured())
            is_alone = effect.once or effect.raised is None
            raised = Raised(
                id=effect.id if is_alone else f"{scope}/{name}/from/{from_here}",
                scope=scope,
                name=name,
                by="the person's answer",
                at=now,
                amount=Amount() if effect.once else self._ceilings.of(scope),
                once=effect.once,
            )
            await self._world.bus.ledger.raise_ceiling(raised)
        return BudgetRaised()

    # Before a call.

    async def _hold(self, wanted: Wanted) -> Bill:
        """Hold what is wanted, or as much of it as there is room for.

        What others hold is not spent: as long as that is most of what is in the way, it is waited for, but no longer
        than a call may take; what is held still then, nobody settles.
        """
        call = call_id(wanted.asked.id, self._world.incarnation, next(self._calls))
        began, whole, is_counted, clamps, waited = self._world.elapsed(), wanted, False, 0, 0.0
        while True:
            reserved = self._reserved(call, wanted)
            answer = await self._world.bus.ledger.reserve(reserved, self._ceilings)
            if not isinstance(answer, Refusal):
                await self._tell(answer.crossed)
                return Bill(answer.entry, wanted.max_tokens, waited)
            if not is_counted:
                # The prompt's size in bytes is far too much.
                tokens = min(whole.prompt_tokens_max, int(await whole.count() * COUNT_MARGIN) + 1)
                whole = wanted = msgspec.structs.replace(whole, prompt_tokens_max=tokens)
                is_counted = True
                continue
            book, in_time = await self._world.bus.ledger.read(), self._world.elapsed() - began < whole.seconds
            at_most = self._clamped(whole, reserved, book.room(reserved.scopes, self._ceilings, heeds_holds=False))
            now = self._clamped(whole, reserved, book.room(reserved.scopes, self._ceilings))
            if now is not None and clamps < CLAMPS_MAX and (not in_time or _is_worth_it(now, at_most)):
                wanted, clamps = now, clamps + 1
                continue
            if at_most is None or not in_time:
                refused = Refused(scope=answer.scope, name=answer.name, raised=_raised(book, answer))
                raise ERRORS[answer.scope](self._explained(answer), encode(refused).decode())
            if not waited:
                log.info("budget.waiting", scope=answer.scope, name=answer.name, reason=answer.sentence)
            await self._world.sleep(WAIT_SECONDS * (0.5 + self._world.chance()))
            wanted, clamps, waited = whole, 0, self._world.elapsed() - began

    def _explained(self, refusal: Refusal) -> str:
        """Why it may not be, and what a person can do about it."""
        scope, name = refusal.scope, refusal.name
        any_more = f"`bus budget raise {scope} {name}` adds as much as you say"
        if scope == "story":
            return f"{refusal.sentence}; {any_more}"
        base = dict(self._ceilings.of(scope).measured())[refusal.kind]
        return f"{refusal.sentence}; `raise` adds {spelled(refusal.kind, base)}, {any_more} (then `try again`)"

    def _reserved(self, call: str, wanted: Wanted) -> Reserved:
        purpose, now = wanted.asked.purpose, self._world.now()
        session, _ = parse_message_id(wanted.asked.id)
        priced = self._prices.hold_for(wanted.model, wanted.prompt_tokens_max, wanted.max_tokens, now.date())
        hold = Amount(
            microdollars=priced.microdollars,
            tokens=wanted.prompt_tokens_max + wanted.max_tokens,
            milliseconds=int(wanted.seconds * 1000),
        )
        return Reserved(
            call=call,
            effect=wanted.asked.id,
            day=now.date(),
            at=now,
            hold=hold,
            session=session,
            story=purpose.story,
            spec=purpose.spec,
            role=purpose.role,
            model=wanted.model,
            repeats=wanted.repeats,
            priced=priced.priced,
        )

    def _clamped(self, wanted: Wanted, reserved: Reserved, room: Room) -> Wanted | None:
        """The call as small as a room wants it; None if it is worth nothing then."""
        tokens = self._prices.max_tokens_within(room, wanted.model, wanted.prompt_tokens_max, reserved.day)
        max_tokens = wanted.max_tokens if tokens is None else min(wanted.max_tokens, tokens)
        seconds = wanted.seconds if room.milliseconds is None else min(wanted.seconds, room.milliseconds / 1000)
        if max_tokens < min(ANSWER_TOKENS_MIN, wanted.max_tokens) or seconds < min(ANSWER_SECONDS_MIN, wanted.seconds):
            return None
        return msgspec.structs.replace(wanted, max_tokens=max_tokens, seconds=seconds)

    # After it.

    async def _settle(self, bill: Bill) -> None:
        reserved = bill.reserved
        priced = self._prices.price_of(reserved.model, bill.usage, reserved.day)
        settled = Settled(
            call=reserved.call,
            at=self._world.now(),
            usage=bill.usage,
            microdollars=priced.microdollars,
            milliseconds=self._milliseconds(bill),
            estimated=bill.estimated,
            priced=priced.priced,
            price_version=priced.version,
            miss_reason=bill.miss_reason,
            outcome=bill.outcome,
        )
        await self._tell(await self._world.bus.ledger.settle(settled, self._ceilings))

    async def _settle_as_held(self, bill: Bill) -> None:
        hold = bill.reserved.hold
        held = Settled(
            call=bill.reserved.call,
            at=self._world.now(),
            usage=Usage(input_tokens=hold.tokens - bill.max_tokens, output_tokens=bill.max_tokens),
            microdollars=hold.microdollars,
            milliseconds=self._milliseconds(bill),
            estimated=True,
            priced=bill.reserved.priced,
            price_version=self._prices.version,
            outcome="given up",
        )
        await self._tell(await self._world.bus.ledger.settle(held, self._ceilings))

    def _milliseconds(self, bill: Bill) -> int:
        return 0 if bill.began is None else max(0, round((self._world.elapsed() - bill.began) * 1000))

    async def _tell(self, crossed: Iterable[Crossed]) -> None:
        """Exactly one process is told of each threshold: it tells everybody."""
        for each in crossed:
            log.warning("budget.crossed", scope=each.scope, name=each.name, kind=each.kind, percent=each.percent)
            letter = self._letter(each.warning, self._world.now())
            await self._world.bus.post.send(self._world.bus.post.seal(letter))

    def _letter(self, payload: BudgetWarning, now: datetime) -> Envelope:
        sender = address(self._role, f"purse-{self._world.incarnation}")
        return Envelope(
            id=message_id(sender, next(self._letters), 0),
            kind="EVENT",
            sender=sender,
            recipient=sender,
            payload=payload,
            sent_at=now,
        )


def _is_worth_it(now: Wanted, at_most: Wanted | None) -> bool:
    """Whether a call is not much smaller than it could be if nobody held anything."""
    return at_most is None or (2 * now.max_tokens >= at_most.max_tokens and 2 * now.seconds >= at_most.seconds)


def _raised(book: Book, refusal: Refusal) -> Amount:
    return book.account(refusal.scope, refusal.name).raised


def _estimate(bill: Bill, trouble: Trouble, wanted: Wanted) -> None:
    """What a call that failed may have cost: nothing if the model never heard of it."""
    bill.outcome = trouble.kind
    if not trouble.reached:
        return
    bill.estimated = True
    bill.usage = trouble.usage or Usage(input_tokens=wanted.prompt_tokens_max // BYTES_PER_TOKEN)
