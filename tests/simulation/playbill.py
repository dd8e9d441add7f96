"""One run from a seed: a company under its fates, and what must be true of the outcome."""

import asyncio
import hashlib
import random
import textwrap
from collections import Counter

import msgspec

from protocol.messages import SessionStuck
from protocol.subjects import parse_subject
from supervisors.core.recycling import fall_of, story_of
from tests.simulation.fates import BAD_SECONDS, Fates
from tests.simulation.loop import NeverRestsError, NothingLeftError, VirtualLoop, limited, run_virtual
from tests.simulation.monitors import Violation
from tests.simulation.theatre import Theatre
from tests.simulation.tracebacks import shortened

ACTORS = ("architect.main", "coder.coder-1", "coder.coder-2", "coder.coder-3", "pm.main", "supervisor.main")
STORIES = ("s-1", "s-2", "s-3", "s-4")
INTERVIEWS = ("talk-1", "talk-2")
SECONDS_MAX = BAD_SECONDS + 4 * 3600.0
LATE_SECONDS_MAX = 300.0
PROCESSOR_SECONDS_MAX = 60.0
"""A seed takes a fraction of a second, and some seconds if somebody waits in vain."""
TRACE_LINES = 60
VIOLATIONS_SHOWN = 5


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a seed."""

    seed: int
    trace: list[str]
    violations: list[Violation]
    records: int
    seconds: float

    @property
    def digest(self) -> str:
        """The whole trace in a word: equal seeds have equal ones."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    def report(self) -> str:
        """For whoever has to find the bug: what was violated, the end of the trace, and how to see it again."""
        said = "\n".join(self._say(violation) for violation in self.violations[:VIOLATIONS_SHOWN])
        left = len(self.violations) - VIOLATIONS_SHOWN
        said += f"\nseed {self.seed}: and {left} more" if left > 0 else ""
        first = next((n for n, line in enumerate(self.trace) if " monitor: " in line), len(self.trace) - 1)
        shown = "\n".join(self.trace[max(0, first - TRACE_LINES) : first + 1])
        return f"{shown}\n{said}\nagain: make simulate SEED={self.seed} SEEDS=1"

    def _say(self, violation: Violation) -> str:
        return f"seed {self.seed}: {violation}\n{textwrap.indent(violation.details, '    ')}".rstrip()


def play_seed(seed: int) -> Run:
    """Play one seed to its end."""
    random.seed(seed)  # the bus spreads its retries with it
    theatres: list[Theatre] = []

    async def main(loop: VirtualLoop) -> None:
        fates = Fates(seed)
        theatre = Theatre(loop, seed)
        theatres.append(theatre)
        theatre.director = lambda process, _: fates.direct(theatre, process)
        theatre.make_network = fates.network
        theatre.outside.slowness, theatre.outside.breakage = fates.slowness, fates.breakage
        for work in (theatre.answer_asks(), *fates.befall(theatre)):
            theatre.have_done(work)
        await theatre.open(*ACTORS)
        for story in STORIES:
            await theatre.order(story)
        for interview in INTERVIEWS:
            await theatre.talk(interview)
            await theatre.upload(interview)
            theatre.have_done(_upload_again(theatre, interview))
        is_over = await theatre.until(lambda: _is_over(theatre), SECONDS_MAX)
        theatre.closing = True
        _check_outcome(theatre, fates, is_over=is_over)

    violations: list[Violation] = []
    try:
        with limited(PROCESSOR_SECONDS_MAX):
            run_virtual(main)
    except NothingLeftError:
        violations.append(Violation("everything comes to its end", "everybody waits for ever"))
    except NeverRestsError as error:
        violations.append(Violation("everything comes to its end", "somebody never rests", shortened(error)))
    theatre = theatres[0]
    return Run(
        seed=seed,
        trace=theatre.monitor.trace,
        violations=[*theatre.monitor.violations, *violations],
        records=sum(map(len, theatre.monitor.records.values())),
        seconds=theatre.loop.time(),
    )


async def _upload_again(theatre: Theatre, interview: str) -> None:
    """A letter that comes before, during or after the end of its session."""
    await asyncio.sleep(theatre.chance.random() ** 2 * LATE_SECONDS_MAX)
    await theatre.upload(interview, revision=2)


def _is_over(theatre: Theatre) -> bool:
    lines = set(theatre.outside.announcements.values())
    expected = {f"merged {story}" for story in STORIES} | {f"approved {interview}" for interview in INTERVIEWS}
    is_awake = not any(process.is_alive and process.is_stopped for process in theatre.stopped)
    return expected <= lines and is_awake and not _left_over(theatre)


def _left_over(theatre: Theatre) -> list[str]:
    """Mail and work that nobody has settled, apart from mail that was repeated for a session that is over."""
    over = {
        session for session, records in theatre.monitor.records.items() if records[-1].state_to in ("DONE", "ERROR")
    }
    return [
        message.subject
        for name, stream in theatre.server.streams.items()
        if "MAIL" in name or "WORK" in name
        for message in stream.messages.values()
        if parse_subject(message.subject).id not in over
    ]


def _check_outcome(theatre: Theatre, fates: Fates, *, is_over: bool) -> None:
    monitor = theatre.monitor
    monitor.check_histories()
    if not is_over:
        monitor.violate("everything comes to its end", f"left over: {_left_over(theatre)[:5]}")
    for line, times in Counter(theatre.outside.announcements.values()).items():
        if times > 1:
            monitor.violate("each outside result is there once", f"{line}: {times} times")
    _check_payments(theatre, fates)
    _check_attempts(theatre)
    for told in theatre.heard:
        if isinstance(told, SessionStuck):  # the supervisor gets over it, and hides that an event was lost
            monitor.violate("everybody makes progress", f"{told.session} is stuck in {told.state}")
    for process, ending in theatre.endings:
        if ending == "lost" and process not in fates.touched and process not in theatre.superseded:
            monitor.violate("nobody is falsely fenced", process)


def _check_attempts(theatre: Theatre) -> None:
    """Each run that failed by its own fault has cost one attempt, and no other."""
    begun = [(story, records) for records in theatre.monitor.records.values() if (story := story_of(records[0]))]
    costly: Counter[str] = Counter()
    for story, records in sorted(begun, key=lambda run: run[0].run):
        if story.attempt != 1 + costly[story.story]:
            theatre.monitor.violate("an outage burns no attempt", f"{story.story}.{story.run} is {story.attempt}")
        falls = (fall_of(record) for record in records)
        costly[story.story] += any(fall.cause.costs_attempt for fall in falls if fall is not None)


def _check_payments(theatre: Theatre, fates: Fates) -> None:
    """Nobody pays for an effect twice, and somebody else only if whoever had it in hand has come to grief."""
    payers: dict[str, list[str]] = {}
    for payment in theatre.outside.payments:
        payers.setdefault(payment.effect, []).append(payment.incarnation)
    excused = theatre.disturbed | fates.touched
    for effect, paid in payers.items():
        if len(paid) > len(set(paid)) or not excused.issuperset(paid[:-1]):
            theatre.monitor.violate("a crash repeats at most what was in hand", f"{effect}: paid by {', '.join(paid)}")
