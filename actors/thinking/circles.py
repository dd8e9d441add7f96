"""Going round in circles: the patterns in which a model works and comes no further. Pure.

Each of them would go on until the budget is used up. They are told from what was called and what came of it, as
fingerprints, so that a long conversation leaves little behind in its session.
"""

import hashlib
from collections.abc import Sequence

import msgspec

TRACES_KEPT = 12
"""The longest pattern has so many calls."""
FAILURES_MAX = 3
REPEATS_MAX = 4
ROUNDS_MAX = 3
ROUND_LENGTHS = (2, 3)


class Trace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a tool and what came of it, each as a fingerprint."""

    call: str
    output: str
    failed: bool = False


def trace_of(name: str, arguments: str, output: str, *, failed: bool) -> Trace:
    """The trace of a call."""
    return Trace(call=f"{name}:{_fingerprint(arguments)}", output=_fingerprint(output), failed=failed)


def with_trace(traces: tuple[Trace, ...], trace: Trace) -> tuple[Trace, ...]:
    """The traces with one more; only as many are kept as a pattern can have."""
    return (*traces, trace)[-TRACES_KEPT:]


def circle_in(traces: Sequence[Trace]) -> str:
    """In what a model goes round, in words; nothing if it does not."""
    if _fails_again(traces):
        return f"the same call of {_tool(traces[-1])} has failed {FAILURES_MAX} times in a row"
    if _repeats(traces):
        return f"the same call of {_tool(traces[-1])} has had the same result {REPEATS_MAX} times in a row"
    for length in ROUND_LENGTHS:
        if _goes_round(traces, length):
            names = " and ".join(dict.fromkeys(_tool(trace) for trace in traces[-length:]))
            return f"the same {length} calls of {names} have had the same results {ROUNDS_MAX} times in turn"
    return ""


def _fails_again(traces: Sequence[Trace]) -> bool:
    """Whatever the error says: a message with a time or a number in it is another text each time."""
    last = traces[-FAILURES_MAX:]
    return len(last) == FAILURES_MAX and all(trace.failed and trace.call == last[0].call for trace in last)


def _repeats(traces: Sequence[Trace]) -> bool:
    last = traces[-REPEATS_MAX:]
    return len(last) == REPEATS_MAX and len(set(last)) == 1


def _goes_round(traces: Sequence[Trace], length: int) -> bool:
    last = traces[-length * ROUNDS_MAX :]
    is_long_enough = len(last) == length * ROUNDS_MAX
    return is_long_enough and all(trace == last[place % length] for place, trace in enumerate(last))


def _tool(trace: Trace) -> str:
    return trace.call.partition(":")[0]


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
