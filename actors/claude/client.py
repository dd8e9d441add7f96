"""One call of the model, by Anthropic's SDK: nothing else in the project imports it.

Always streamed, never tried again here. A turn is heard whole or not at all: whatever ends a stream early, whatever
cannot be read, is trouble, and nothing of the turn is kept but what it has cost.
"""

import asyncio
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import anthropic
import httpx2
import msgspec
from anthropic.types import Message

from actors.claude.providers import Provider
from actors.claude.troubled import TroubleError
from actors.thinking.conversation import KEPT_REASONS
from actors.thinking.heard import Heard
from actors.thinking.troubles import Permanent, Transient, Trouble
from bus.ledger.amounts import Usage

_BY_TYPE: Mapping[str, Transient | Permanent] = {
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "api_error": "server_error",
    "timeout_error": "server_error",
    "authentication_error": "key",
    "permission_error": "permission",
    "billing_error": "billing",
    "not_found_error": "model_gone",
    "request_too_large": "context_full",
    "invalid_request_error": "bad_request",
}
_BY_STATUS: Mapping[int, Transient | Permanent] = {
    401: "key",
    402: "billing",
    403: "permission",
    404: "model_gone",
    408: "timed_out",
    409: "server_error",
    413: "context_full",
    429: "rate_limited",
    529: "overloaded",
}
_SPEND_LIMITS = ("spend_limit", "spend limit", "credit balance", "api usage limits")
_TOO_LONG = ("prompt is too long", "exceed context limit", "exceeds the context")
_TOO_MUCH_OUTPUT = ("maximum allowed number of output tokens",)
CHARACTERS_PER_TOKEN = 3
_UNREADABLE = (ValueError, RuntimeError, TypeError, LookupError, AttributeError)
"""What the SDK raises of a stream that is not what it expects."""


class CallLimits(NamedTuple):
    """How long a call may take."""

    connect_seconds: float
    stall_seconds: float
    """How long nothing may be heard; a model that thinks is heard of every few seconds."""


class Claude:
    """The connections of one process, one for each provider and key."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._clients: dict[Provider, anthropic.AsyncAnthropic] = {}

    async def call(self, provider: Provider, request: Mapping[str, Any], seconds: float) -> Heard:
        """Have one turn said within so long; TroubleError whatever goes wrong."""
        hearing = _Hearing()
        with hearing.telling_trouble():
            async with asyncio.timeout(seconds), self._client(provider).messages.stream(**request) as stream:
                async for event in stream:
                    hearing.take(event, stream.current_message_snapshot)
        return hearing.whole()

    async def count(self, provider: Provider, request: Mapping[str, Any]) -> int:
        """How many tokens a request has, which costs nothing."""
        counted = {name: request[name] for name in _COUNTED if name in request}
        with _Hearing().telling_trouble():
            answer = await self._client(provider).messages.count_tokens(**counted)
        return answer.input_tokens

    async def close(self) -> None:
        """End all connections."""
        for client in self._clients.values():
            await client.close()

    def _client(self, provider: Provider) -> anthropic.AsyncAnthropic:
        if provider not in self._clients:
            timeout = httpx2.Timeout(self._limits.stall_seconds, connect=self._limits.connect_seconds)
            self._clients[provider] = anthropic.AsyncAnthropic(
                api_key=provider.key, base_url=provider.url, max_retries=0, timeout=timeout
            )
        return self._clients[provider]


_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "output_config")


class _Hearing:
    """What has been heard of a turn so far."""

    def __init__(self) -> None:
        self._message: Message | None = None
        self._inputs: dict[int, str] = {}
        self._said = 0
        self._ended = False

    def take(self, event: Any, message: Message) -> None:
        """One event of the stream, and the message as it is with it."""
        self._message = message
        if event.type == "content_block_delta":
            self._said += sum(len(value) for value in event.delta.to_dict().values() if isinstance(value, str))
            if event.delta.type == "input_json_delta":
                self._inputs[event.index] = self._inputs.get(event.index, "") + event.delta.partial_json
        self._ended = self._ended or event.type == "message_stop"

    def whole(self) -> Heard:
        """The turn, if it has come to its end."""
        message = self._message
        if message is None or message.stop_reason is None or not self._ended:
            raise TroubleError(self._trouble("cut", "the answer ended before its end", reached=True))
        if message.stop_reason in KEPT_REASONS:
            self._check_inputs()
        told = message.to_dict()
        diagnosis: dict[str, Any] = ((told.get("diagnostics") or {}).get("cache_miss_reason")) or {}  # type: ignore[attr-defined]
        details = message.stop_details
        return Heard(
            message=message.id,
            model=message.model,
            stop_reason=message.stop_reason,
            content=_json(told["content"]),
            usage=_usage(message),
            detail=str(getattr(details, "category", "") or "") if details else "",
            miss_reason=str(diagnosis.get("type", "")),
        )

    def _check_inputs(self) -> None:
        """The SDK completes the JSON of a call that was cut; such a call must not be run."""
        for text in self._inputs.values():
            try:
                json.loads(text or "{}", parse_constant=_refuse_number, parse_float=_finite)
            except ValueError as error:
                raise TroubleError(self._trouble("malformed", f"a call of a tool: {error}", reached=True)) from error

    @contextmanager
    def telling_trouble(self) -> Iterator[None]:
        """Tell what the SDK raises as trouble."""
        try:
            yield
        except anthropic.APIStatusError as error:
            raise TroubleError(self._of_status(error)) from error
        except anthropic.APIConnectionError as error:
            raise TroubleError(self._of_connection(error.__cause__ or error)) from error
        except httpx2.HTTPError as error:
            raise TroubleError(self._of_connection(error)) from error
        except TimeoutError as error:
            raise TroubleError(self._trouble("timed_out", "no whole answer in time", reached=True)) from error
        except anthropic.AnthropicError as error:
            raise TroubleError(self._trouble("malformed", str(error), reached=True)) from error
        except _UNREADABLE as error:
            raise TroubleError(self._trouble("malformed", f"{type(error).__name__}: {error}", reached=True)) from error

    def _of_status(self, error: anthropic.APIStatusError) -> Trouble:
        said = error.api_message or error.message
        broke_off = error.status_code < 400  # the stream had begun
        return self._trouble(
            _kind_of(error, said),
            said,
            status=0 if broke_off else error.status_code,
            retry_after_seconds=_retry_after(error.response.headers),
            request=error.request_id or "",
            reached=broke_off,
        )

    def _of_connection(self, error: BaseException) -> Trouble:
        said = f"{type(error).__name__}: {error}"
        if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
            return self._trouble("bad_request", said)  # it cannot even be sent
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
            return self._trouble("unreachable", said)
        if isinstance(error, httpx2.TimeoutException):
            return self._trouble("stalled" if self._message else "timed_out", said, reached=True)
        return self._trouble("cut" if self._message else "unreachable", said, reached=True)

    def _trouble(self, kind: Transient | Permanent, said: str, **facts: Any) -> Trouble:
        return Trouble(kind=kind, said=said, usage=self._usage_so_far(), **facts)

    def _usage_so_far(self) -> Usage | None:
        """What is known of a call that broke: its prompt, and about as much output as was heard."""
        if self._message is None:
            return None
        heard = _usage(self._message)
        return msgspec.structs.replace(
            heard, output_tokens=max(heard.output_tokens, self._said // CHARACTERS_PER_TOKEN)
        )


def _kind_of(error: anthropic.APIStatusError, said: str) -> Transient | Permanent:
    text = f"{error.error_code or ''} {error.type or ''} {said}".lower()
    if error.status_code in (400, 429) and any(words in text for words in _SPEND_LIMITS):
        return "spend_limit"
    if error.status_code == 400 and any(words in text for words in _TOO_LONG):
        return "context_full"
    if error.status_code == 400 and any(words in text for words in _TOO_MUCH_OUTPUT):
        return "output_limit"
    kind = _BY_TYPE.get(error.type or "") or _BY_STATUS.get(error.status_code)
    if kind is not None:
        return kind
    return "bad_request" if 400 <= error.status_code < 500 else "server_error"


def _finite(number: str) -> float:
    """A number that can be sent back; ValueError."""
    return value if math.isfinite(value := float(number)) else _refuse_number(number)


def _refuse_number(number: str) -> float:
    raise ValueError(f"{number[:20]} is no number of JSON")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """In seconds; a date, which the API does not send, counts as nothing said."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
    return None


def _usage(message: Message) -> Usage:
    usage = message.usage
    written = usage.cache_creation_input_tokens or 0
    for_an_hour = (usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0) or 0
    details = usage.output_tokens_details
    return Usage(
        input_tokens=usage.input_tokens or 0,
        cache_read_tokens=usage.cache_read_input_tokens or 0,
        cache_write_5m_tokens=max(0, written - for_an_hour),
        cache_write_1h_tokens=for_an_hour,
        output_tokens=usage.output_tokens or 0,
        thinking_tokens=(details.thinking_tokens if details else 0) or 0,
    )


def _json(content: Any) -> str:
    """As it came, in the order in which it came; half a character, which no text can have, is replaced."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
