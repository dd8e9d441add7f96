"""Asking the model for a turn: wait for the turn to call, hold what it can cost, call, try again or give up, settle.

A turn is recorded whole or not at all. What a failed call may have cost is in the ledger, whatever becomes of the turn.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from actors.claude.limiter import Limiter
from actors.claude.providers import Provider
from actors.claude.purse import Purse, Wanted
from actors.claude.transcripts import Transcripts
from actors.claude.troubled import TroubleError
from actors.errors import ServiceUnavailableError
from actors.runtime.world import World
from actors.thinking.conversation import KEPT_REASONS, TOO_LONG, calls_in
from actors.thinking.effects import AskModel, ModelAnswered
from actors.thinking.errors import ModelChangedError
from actors.thinking.heard import Heard
from actors.thinking.request import Profile, bytes_of, request_of
from actors.thinking.troubles import Patience, Trouble, pause_after
from protocol.codec import encode
from protocol.subjects import Role

SERVICE = "model"
"""What a session waits for that suspends because the model is out of reach; its probe has the same name."""

ANSWER_LETTERS_MAX = 1.0
CALLS_LETTERS_MAX = 0.5
"""A larger answer has no room in a record: its event has a share of 1.25 letters, and the session, with 2 letters, has
the calls of a turn twice while they run, beside what came of them."""
SECONDS_MIN = 10.0
"""How long a try may take that begins just before the time for all of them is up."""

DEFAULT_RETRY_AFTER_SECONDS = 5.0
"""Where a provider that refuses a call does not say for how long."""

log = structlog.get_logger()


class Caller(Protocol):
    """Whoever can call the model: in production the SDK."""

    async def call(self, provider: Provider, request: Mapping[str, Any], seconds: float) -> Heard:
        """Have one turn said within so long; TroubleError whatever goes wrong."""

    async def count(self, provider: Provider, request: Mapping[str, Any]) -> int:
        """How many tokens a request has; TroubleError."""


class Reach(NamedTuple):
    """How to reach the model of a role, asked anew at every turn; what they raise is an error of the effect."""

    provider: Callable[[Role], Provider]
    profile: Callable[[Role], Profile]


class _Trial:
    """The tries of one turn."""

    def __init__(self, limiter: Limiter, is_first: bool, began: float) -> None:
        self.limiter = limiter
        self.began = began
        self.number = 0
        self._is_first = is_first

    async def turn(self) -> None:
        """Return when it is its turn to call."""
        await self.limiter.wait(is_first=self._is_first)


class Asking:
    """Performs AskModel for the sessions of one process."""

    def __init__(self, world: World, reach: Reach, caller: Caller, purse: Purse, patience: Patience) -> None:
        self._world = world
        self._reach = reach
        self._caller = caller
        self._purse = purse
        self._patience = patience
        self._transcripts = Transcripts(world)

    async def ask(self, asked: AskModel) -> ModelAnswered:
        """The model's next turn. ServiceUnavailableError: it is out of reach; other errors say what to do."""
        before = await self._transcripts.before(asked)
        provider, profile = self._reach.provider(asked.purpose.role), self._reach.profile(asked.purpose.role)
        if before.conversation.model not in ("", profile.model):
            raise ModelChangedError(f"the model is {profile.model} now, and was {before.conversation.model}")
        trial = _Trial(Limiter(self._world, provider.url), asked.opening is not None, self._world.elapsed())

        def request(max_tokens: int) -> dict[str, Any]:
            return request_of(before.conversation, asked.says, profile, asked.after, max_tokens)

        async def count() -> int:
            return await self._caller.count(provider, request(1))

        wanted = Wanted(
            asked=asked,
            model=profile.model,
            prompt_tokens_max=bytes_of(before.conversation, asked.says),
            max_tokens=asked.max_tokens or profile.max_tokens,
            seconds=self._patience.total_seconds,
            repeats=before.is_resumed and await self._purse.has_paid(asked.id),
            count=count,
        )
        while True:
            trial.number += 1
            await trial.turn()
            left = max(self._patience.total_seconds - (self._world.elapsed() - trial.began), SECONDS_MIN)
            try:
                heard = await self._call(provider, request, msgspec.structs.replace(wanted, seconds=left), trial)
            except TroubleError as error:
                await self._bear(error.trouble, trial)
            else:
                answer = self._answer(asked, heard, profile.model, before.position, trial.number)
                self._transcripts.heard(asked, before, answer)
                return answer

    async def _call(
        self, provider: Provider, request: Callable[[int], dict[str, Any]], wanted: Wanted, trial: _Trial
    ) -> Heard:
        """One call, with what it costs held before and settled after it, however it ends."""
        async with self._purse.paying(wanted) as bill:
            if bill.waited_seconds:
                trial.began += bill.waited_seconds  # that was no fault of the provider's
                await trial.turn()  # it may have asked for less meanwhile
            self._purse.begin(bill)
            heard = await self._caller.call(provider, request(bill.max_tokens), bill.seconds)
            bill.usage, bill.outcome, bill.miss_reason = heard.usage, heard.stop_reason, heard.miss_reason
            return heard

    async def _bear(self, trouble: Trouble, trial: _Trial) -> None:
        """Return when the call is to be tried again; raise what becomes of it otherwise."""
        tries, elapsed = trial.number, self._world.elapsed() - trial.began
        log.warning("model.trouble", kind=trouble.kind, said=trouble.said, request=trouble.request, tries=tries)
        if trouble.error is not None:
            raise trouble.error(str(trouble))
        if trouble.kind == "rate_limited":
            told = trouble.retry_after_seconds
            seconds = DEFAULT_RETRY_AFTER_SECONDS if told is None else told
            await trial.limiter.slow_down(min(max(seconds, 0.0), self._patience.retry_after_seconds_max))
        pause = pause_after(self._patience, trouble, tries, elapsed, self._world.chance())
        if pause is None:
            raise ServiceUnavailableError(SERVICE, f"{trouble} (tried {tries} times in {elapsed:.0f} s)")
        await self._world.sleep(pause)

    def _answer(self, asked: AskModel, heard: Heard, model: str, position: int, tries: int) -> ModelAnswered:
        is_too_long = heard.stop_reason in KEPT_REASONS and not self._has_room(heard.content)
        is_kept = heard.stop_reason in KEPT_REASONS and not is_too_long
        return ModelAnswered(
            conversation=asked.conversation or asked.id,
            position=position,
            message=heard.message,
            model=heard.model,
            asked_model=model,
            stop_reason=TOO_LONG if is_too_long else heard.stop_reason,
            content=heard.content if is_kept else "[]",
            usage=heard.usage,
            tries=tries,
            miss_reason=heard.miss_reason,
            detail=heard.detail,
        )

    def _has_room(self, content: str) -> bool:
        letter = self._world.bus.post.letter_bytes_max
        calls = len(encode(calls_in(content)))
        return len(encode(content)) <= ANSWER_LETTERS_MAX * letter and calls <= CALLS_LETTERS_MAX * letter
