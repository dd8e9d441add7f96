"""Who performs which effect. An actor names what it needs; a test replaces what it wants to watch."""

import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.core.effects import Effect
from actors.core.failures import AnyFailure, Broken, Cancelled, Unavailable
from actors.errors import EffectCancelledError, EffectError, NoExecutorError, ServiceUnavailableError
from actors.redaction import redact

EVIDENCE_CHARACTERS_MAX = 2000

Executor = Callable[[Any], Awaitable[Any]]
Executors = Mapping[type[Effect], Executor]
"""By the effect's type. An executor returns a result struct or raises; it must bear being run again after a crash."""


def executor_of(executors: Executors, effect: Effect) -> Executor:
    """The executor of an effect; NoExecutorError if there is none."""
    executor = executors.get(type(effect))
    if executor is None:
        raise NoExecutorError(type(effect).__name__)
    return executor


def failure_of(error: Exception) -> AnyFailure:
    """What an executor raised, as a failure; whatever nobody foresaw counts as permanent."""
    match error:
        case ServiceUnavailableError():
            return Unavailable(service=error.service, reason=redact(error.reason))
        case EffectError():
            return Broken(error=type(error).__name__, reason=redact(error.reason), evidence=redact(error.evidence))
        case EffectCancelledError():
            return Cancelled(reason=error.reason)
        case _:
            evidence = "".join(traceback.format_exception(error))[-EVIDENCE_CHARACTERS_MAX:]
            return Broken(error=type(error).__name__, reason=redact(str(error)), evidence=redact(evidence))
