"""The health of the model's API, found without the SDK and without any cost: it counts the tokens of a word.

That asks for all that a real call needs (the API, the key, the model) but the model's time. An answer that is not for
the API's health, such as a refused key, is none of the probe's: whoever calls then asks a person.
"""

import asyncio
import json
import urllib.error
import urllib.request

from actors.claude.providers import Provider

HEALTHY_BELOW = 500
BUSY = 429
VERSION = "2026-10-21"


class UnhealthyError(Exception):
    """Why the API does not do its work."""


async def check(provider: Provider, model: str, timeout_seconds: float) -> None:
    """Return if the API answers; UnhealthyError otherwise."""
    await asyncio.to_thread(_check, provider, model, timeout_seconds)


def _check(provider: Provider, model: str, timeout_seconds: float) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "ping"}]}
    request = urllib.request.Request(  # noqa: S310 -- the settings take no URL but HTTP's
        f"{provider.url}/v1/messages/count_tokens",
        json.dumps(body).encode(),
        {"anthropic-version": VERSION, "content-type": "application/json"}
        | ({"authorization": f"Bearer {provider.key}"} if provider.key else {}),
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds):  # noqa: S310
            return
    except urllib.error.HTTPError as error:
        with error:
            if error.code >= HEALTHY_BELOW or error.code == BUSY:
                raise UnhealthyError(f"status {error.code}: {_said(error)}") from error
    except (OSError, ValueError) as error:
        raise UnhealthyError(f"{type(error).__name__}: {error}") from error


def _said(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(10_000))["error"]["message"])
    except (OSError, ValueError, LookupError, TypeError):
        return str(error.reason)
