"""Who performs which effect. An actor names what it needs; a test replaces what it wants to watch."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.core.effects import Effect
from actors.core.failures import AnyFailure, Broken, Cancelled, Unavailable
from actors.core.results import Result
from actors.errors import EffectCancelledError, EffectError, NoExecutorError, ServiceUnavailableError
from actors.evidence import as_evidence, as_reason, evidence_of, reason_of

Executor = Callable[[Any], Awaitable[Any]]
Executors = Mapping[type[Effect], Executor]
"""By the effect's type. An executor returns a result struct or raises; it must bear being run again after a crash."""


async def execute(executors: Executors, effect: Effect) -> Any:
    """Have an effect performed by whoever is registered for it; NoExecutorError if nobody is."""
    executor = executors.get(type(effect))
    if executor is None:
        raise NoExecutorError(type(effect).__name__)
    result = await executor(effect)
    if not isinstance(result, Result):
        # Recorded, it would make the session unreadable to every later process.
        raise TypeError(
            f"the executor of {type(effect).__name__} returned a {type(result).__name__}, which is no Result"
        )
    return result


def failure_of(error: BaseException) -> AnyFailure:
    """What an executor raised, as a failure; whatever nobody foresaw counts as permanent."""
    match error:
        case ServiceUnavailableError():
            return Unavailable(service=as_reason(error.service), reason=as_reason(error.reason))
        case EffectError():
            return Broken(
                error=type(error).__name__, reason=as_reason(error.reason), evidence=as_evidence(error.evidence)
            )
        case EffectCancelledError():
            return Cancelled(reason=as_reason(error.reason))
        case _:
            return Broken(error=type(error).__name__, reason=reason_of(error), evidence=evidence_of(error))
