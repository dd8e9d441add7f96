"""The stage: what is made of a request, from its bytes to its answer. No input and no output but a log; time is given.

First a request is heard: whose it is, what it asks, and what is wrong with it. Then the server decides what goes wrong
on demand; if nothing does, the request is answered.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec
import structlog

from actors.rehearsal import events
from actors.rehearsal.cache import Cache, read_blocks
from actors.rehearsal.checking import check_count, check_message
from actors.rehearsal.composing import Composed, compose, message_of
from actors.rehearsal.diagnosis import Memory, take_fingerprint
from actors.rehearsal.errors import BadPartError, NoCueError, RefusedError
from actors.rehearsal.faults import Facts
from actors.rehearsal.http import Request
from actors.rehearsal.models import Model
from actors.rehearsal.parts import Answer, Part, perform
from actors.rehearsal.prompt import Json, Prompt
from actors.rehearsal.replies import Reply, common_headers, data_reply, error_reply, rate_limit_headers
from actors.rehearsal.scene import Scene, read_scene
from actors.rehearsal.tokens import count_prompt

MESSAGES, COUNT, MODELS = "/v1/messages", "/v1/messages/count_tokens", "/v1/models"
METHODS = {MESSAGES: "POST", COUNT: "POST", MODELS: "GET"}
ENDPOINTS = {MESSAGES: "messages", COUNT: "count_tokens", MODELS: "models"}
PAGE_MAX = 1000
log = structlog.get_logger()

NESTING = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was read; either it was refused, or what it asks is there."""

    request: Request
    request_id: str
    whose: str = ""
    """The key that it came with."""
    facts: Facts
    sha256: str
    prompt: Prompt | None = None
    model: Model | None = None
    scene: Scene | None = None
    refused: RefusedError | None = None


class Stage:
    """Who plays before whom: the parts, the models, the keys, and what is remembered between requests."""

    def __init__(self, parts: Sequence[Part], models: Mapping[str, Model], keys: Collection[str] | None) -> None:
        self._parts = parts
        self._models = models
        self._keys = keys
        self._cache = Cache()
        self._memory = Memory()

    def hear(self, request: Request, request_id: str) -> Heard:
        """What a request asks, and whether it may."""
        path = request.path if request.path in ENDPOINTS else MODELS if _names_model(request.path) else ""
        endpoint = ENDPOINTS.get(path, "")
        heard = Heard(
            request=request,
            request_id=request_id,
            facts=Facts(endpoint=endpoint),
            sha256=hashlib.sha256(request.body).hexdigest(),
        )
        try:
            self._check_head(request, path)
            heard = msgspec.structs.replace(heard, whose=self._authenticate(request))
            if endpoint in ("messages", "count_tokens"):
                body = _decode(request.body)
                heard = msgspec.structs.replace(heard, facts=_first_facts(endpoint, body))
                return self._read(heard, body)
        except RefusedError as error:
            return _refused(heard, error)
        except Exception as error:  # a bug of ours: no request may end the connection
            log.exception("call.failed", request_id=request_id)
            return _refused(heard, _failed(error))
        return heard

    def answer(self, heard: Heard, now: float) -> Reply:
        """The answer to a request. Raises nothing."""
        headers = common_headers(heard.request_id, now)
        try:
            error = heard.refused
            if error is None:
                return self._answer(heard, now, headers)
        except RefusedError as refused:
            error = refused
        except Exception as bug:  # as above
            log.exception("call.failed", request_id=heard.request_id)
            error = _failed(bug)
        conversation = getattr(error.__cause__, "conversation", "")
        reply = error_reply(error, heard.request_id, headers)
        return msgspec.structs.replace(reply, said=f"{error}\n{conversation}" if conversation else "")

    # Hearing.

    def _check_head(self, request: Request, path: str) -> None:
        if not path:
            raise RefusedError("Not Found", status=404, kind="not_found_error")
        if request.method != METHODS[path]:
            raise RefusedError("Method Not Allowed", status=405)
        if "anthropic-version" not in request.headers:
            raise RefusedError("anthropic-version: header is required")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise RefusedError("the encoding of the request body is not supported", status=415)

    def _authenticate(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        if not key:
            raise RefusedError("x-api-key header is required", status=401, kind="authentication_error")
        if self._keys is not None and key not in self._keys:
            raise RefusedError("invalid x-api-key", status=401, kind="authentication_error")
        return key

    def _read(self, heard: Heard, body: Any) -> Heard:
        if heard.facts.endpoint == "count_tokens":
            prompt, model = check_count(body, self._models), None
        else:
            prompt, model = check_message(body, self._models)
        scene = read_scene(prompt)
        facts = Facts(
            endpoint=heard.facts.endpoint,
            role=scene.role,
            story=scene.story,
            session=scene.session,
            state=scene.state,
            model=prompt.model,
            is_streamed=heard.facts.is_streamed,
        )
        return msgspec.structs.replace(heard, prompt=prompt, model=model, scene=scene, facts=facts)

    # Answering.

    def _answer(self, heard: Heard, now: float, headers: Mapping[str, str]) -> Reply:
        if heard.facts.endpoint == "models":
            return data_reply(self._list_models(heard.request), headers)
        assert heard.prompt is not None
        if heard.facts.endpoint == "count_tokens":
            return data_reply({"input_tokens": count_prompt(heard.prompt)}, headers)
        return self._play(heard, heard.prompt, now, headers)

    def _play(self, heard: Heard, prompt: Prompt, now: float, headers: Mapping[str, str]) -> Reply:
        model, scene = heard.model, heard.scene
        assert model is not None
        assert scene is not None
        blocks = read_blocks(prompt, model)
        is_warming = prompt.body["max_tokens"] == 0
        answer = Answer(stop_reason="max_tokens") if is_warming else self._perform(prompt, scene)
        composed = compose(prompt, model, answer, blocks[-1].tokens)
        accounting = self._cache.account(heard.whose, model, blocks, now)
        usage = accounting.usage(composed.output_tokens, composed.thinking_tokens)
        fingerprint = take_fingerprint(prompt, model, accounting.cached_tokens)
        previous = (prompt.body.get("diagnostics") or {}).get("previous_message_id")
        why = self._memory.explain(heard.whose, previous, fingerprint, accounting.read_tokens) if previous else None

        def begins(now: float) -> None:
            self._cache.begin(heard.whose, model, accounting, now)
            self._memory.remember(heard.whose, composed.id, fingerprint)

        record = {"message_id": composed.id, "stop_reason": composed.stop_reason, "usage": usage}
        reply = _render(composed, usage, why, {**headers, **rate_limit_headers(usage, now)}, heard.facts.is_streamed)
        return msgspec.structs.replace(reply, record=record, begins=begins)

    def _perform(self, prompt: Prompt, scene: Scene) -> Answer:
        try:
            return perform(self._parts, prompt, scene)
        except (NoCueError, BadPartError) as error:
            raise RefusedError(str(error)) from error

    def _list_models(self, request: Request) -> Any:
        path, _, query = request.target.partition("?")
        if _names_model(path):
            name = unquote(path.removeprefix(f"{MODELS}/"))
            if name not in self._models:
                raise RefusedError(f"model: {name}", status=404, kind="not_found_error")
            return self._models[name].describe()
        return _page(list(self._models.values()), parse_qs(query))


def _refused(heard: Heard, error: RefusedError) -> Heard:
    facts = msgspec.structs.replace(heard.facts, is_refused=True)
    return msgspec.structs.replace(heard, facts=facts, refused=error)


def _failed(error: Exception) -> RefusedError:
    return RefusedError(f"{type(error).__name__} in the rehearsal: {error}", status=500, kind="api_error")


def _names_model(path: str) -> bool:
    return path.startswith(f"{MODELS}/") and len(path) > len(MODELS) + 1


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except NESTING as error:
        raise RefusedError(f"The request body is not valid JSON: {error}") from error


def _first_facts(endpoint: str, body: Any) -> Facts:
    """What is known of a request before it was checked."""
    found = body if isinstance(body, dict) else {}
    model = found.get("model")
    return Facts(
        endpoint=endpoint, model=model if isinstance(model, str) else "", is_streamed=found.get("stream") is True
    )


def _render(composed: Composed, usage: Json, why: Json | None, headers: Mapping[str, str], is_streamed: bool) -> Reply:
    if not is_streamed:
        return data_reply(message_of(composed, usage, why), headers)
    stream = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    sent = tuple(events.render(event) for event in events.stream(composed, usage, why))
    return Reply(status=200, headers={**headers, **stream}, events=sent)


def _page(models: list[Model], query: Mapping[str, list[str]]) -> Json:
    wanted = query.get("lifecycle") or query.get("lifecycle[]") or ["active", "deprecated"]
    found = [model for model in models if model.lifecycle in wanted]
    ids = [model.id for model in found]
    size = query.get("limit", ["20"])[0]
    if not size.isascii() or not size.isdigit() or not 1 <= int(size) <= PAGE_MAX:
        raise RefusedError(f"limit: Input should be between 1 and {PAGE_MAX}")
    after, before = query.get("after_id", [""])[0], query.get("before_id", [""])[0]
    start = ids.index(after) + 1 if after in ids else 0
    end = ids.index(before) if before in ids else len(ids)
    start = max(start, end - int(size)) if before in ids else start
    page = found[start:end][: int(size)]
    return {
        "data": [model.describe() for model in page],
        "has_more": start + len(page) < end if before not in ids else start > 0,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }
