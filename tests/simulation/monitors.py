"""Monitors at the ports: what must hold at every moment, whatever the company does."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from actors.core.effects import Effect
from actors.errors import LostSessionError
from actors.hosting.host import Ending
from bus.broker import MESSAGE_ID, Acknowledged, Message
from bus.dead import REPLAY
from bus.errors import BusClosedError
from bus.memory import MemoryServer
from protocol.codec import decode_envelope
from protocol.errors import ProtocolError
from protocol.machine import DONE, ERROR
from protocol.messages import Envelope, InterviewRequest, SpecUpload, Story
from protocol.record import Record, decode_record
from protocol.subjects import parse_subject
from protocol.verification import Transition, verify
from tests.simulation.tracebacks import shortened


class Violation(Exception):  # noqa: N818 -- no error of the company's own: what the simulator looks for
    """An invariant does not hold; `invariant` names it, `details` are for whoever looks for the cause."""

    def __init__(self, invariant: str, evidence: str, details: str = "") -> None:
        self.invariant = invariant
        self.details = details
        super().__init__(f"{invariant}: {evidence}")


class Monitor:
    """What happened, and whether it may."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.trace: list[str] = []
        self.violations: list[Violation] = []
        self.records: dict[str, list[Record]] = {}
        self.effects: dict[str, Any] = {}
        self.contents: dict[str, Any] = {}
        self.woken: set[str] = set()
        self.buried: set[str] = set()
        """The ids of dead letters: each names the message that is dead by its subject and sequence."""
        self._seen: dict[str, set[str]] = {}
        self._writers: dict[str, set[str]] = {}

    def say(self, who: str, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{asyncio.get_running_loop().time():.6f} {who}: {what}")

    def violate(self, invariant: str, evidence: str, details: str = "") -> None:
        """Something must not have happened. The trace has no details: they may differ from process to process."""
        self.say("monitor", f"{invariant}: {evidence}")
        self.violations.append(Violation(invariant, evidence, details))

    def check_same(self, name: str, content: Any) -> None:
        """One id, one content."""
        if self.contents.setdefault(name, content) != content:
            self.violate("one id, one content", name)

    # Journals.

    def check_record(self, record: Record) -> None:
        """One writer: an incarnation that was followed by another never writes again."""
        records = self.records.setdefault(record.session, [])
        writers = self._writers.setdefault(record.session, set())
        if record.incarnation in writers and records[-1].incarnation != record.incarnation:
            latest = records[-1].incarnation
            self.violate("one writer", f"{record.incarnation} writes to {record.session} after {latest}")
        if records and record.n != records[-1].n + 1:
            self.violate("one writer", f"record {record.n} of {record.session} after {records[-1].n}")
        records.append(record)
        writers.add(record.incarnation)
        for effect in record.effects:
            fields = msgspec.json.decode(effect)
            self.effects[fields["id"]] = fields
        event = msgspec.json.decode(record.event)
        if event["event"] == "received":
            self._check_taken_once(record.session, event["message"]["id"], records)
        self.say(
            record.incarnation, f"{record.session}/{record.n} {event['event']} {record.state_from}→{record.state_to}"
        )

    def _check_taken_once(self, session: str, message: str, records: list[Record]) -> None:
        """A message is taken once; what was deferred is recorded again when it is presented."""
        seen = self._seen.setdefault(session, set())
        if message in seen:
            kept = msgspec.json.decode(records[-2].after).get("deferred", []) if len(records) > 1 else []
            if not any(each["event"].get("message", {}).get("id") == message for each in kept):
                self.violate("a message is taken once", f"{message} by {session}")
        seen.add(message)

    def check_histories(self) -> None:
        """Every recorded transition is an edge."""
        transitions = (
            Transition(
                machine=record.machine, session=record.session, n=record.n,
                state_from=record.state_from, state_to=record.state_to,
            )
            for records in self.records.values()
            for record in records
        )  # fmt: skip
        for offence in verify(transitions):
            taken = offence.transition
            self.violate("the machines are the documents", f"{taken.session}/{taken.n} {offence.reason}")

    # Effects.

    def check_effect(self, effect: Effect, incarnation: str) -> None:
        """No effect without its record; none by a process that has woken to find a successor."""
        if effect.id not in self.effects:
            self.violate("no effect without its record", effect.id)
        records = self.records.get(effect.id.partition("/")[0], [])
        if incarnation in self.woken and records and records[-1].incarnation != incarnation:
            self.violate("nothing is done after waking", f"{incarnation} performs {effect.id}")

    def check_send(self, message_id: str, data: bytes) -> None:
        """No send without its record; one id, one content."""
        if message_id.startswith((REPLAY, "office/", "supervisor-")):
            return
        if message_id.startswith("requeue."):
            self._check_requeued(message_id.removeprefix("requeue.").partition("/")[0])
        elif message_id not in self.effects:
            self.violate("no send without its record", message_id)
        else:
            self._check_ordered_once(message_id, self.effects[message_id]["message"])
        self.check_same(f"message {message_id}", data)

    def _check_ordered_once(self, message_id: str, message: Mapping[str, Any]) -> None:
        """A run at a story is put on the queue by one message, however often the supervisor asks for it."""
        if message["payload"] == "story":
            self.check_same(f"run {message['story']}.{message['run']}", message_id)

    def _check_requeued(self, session: str) -> None:
        """What the supervisor says of a session follows from its last record."""
        records = self.records.get(session)
        if not records or records[-1].state_to != ERROR:
            self.violate("no send without its record", f"{session} is to come again, and is not in ERROR")

    # Acknowledgements.

    def check_acknowledgement(self, message: Message) -> None:
        """No acknowledgement without a record in the journal of the session that it was for, or a dead letter of it."""
        if f"dead/{message.subject}/{message.sequence}" in self.buried:
            return
        try:
            envelope = decode_envelope(message.data)
        except ProtocolError:
            self.violate("no acknowledgement without its record", f"{message.subject}, which nobody can read")
            return
        if isinstance(envelope.payload, Story):
            self._check_story_over(envelope.payload)
        elif envelope.id not in self._seen.get(session := _session_of(message.subject, envelope), ()):
            self.violate("no acknowledgement without its record", f"{envelope.id} for {session}")

    def _check_story_over(self, story: Story) -> None:
        """A story stays on the queue until its session is over, whichever of its letters has begun it."""
        session = f"{story.story}.{story.run}"
        records = self.records.get(session)
        if not records or records[-1].state_to not in (DONE, ERROR) or "open" in msgspec.json.decode(records[-1].after):
            self.violate("no acknowledgement without its record", f"the story of {session}, which is not over")

    # Processes.

    def check_ending(self, process: str, ending: Ending | BaseException) -> str:
        """Nobody crashes: a process comes to its end, loses its place to another, or cannot reach the broker."""
        word = _word_for(ending)
        self.say(process, f"ends: {word}")
        if isinstance(ending, LostSessionError | BusClosedError):
            self.say(process, str(ending))
        elif isinstance(ending, BaseException):
            self.violate("nobody crashes", f"{process}: {type(ending).__name__}", shortened(ending))
        return word


def _word_for(ending: Ending | BaseException) -> str:
    match ending:
        case Ending():
            return ending.value
        case LostSessionError():
            return "lost"
        case BusClosedError():
            return "unreachable"
        case _:
            return "crashed"


def _session_of(subject: str, envelope: Envelope) -> str:
    """Whose a message is: the PM has its mail sorted by what it is about, everybody else's goes to its address."""
    address = parse_subject(subject)
    match envelope.payload:
        case InterviewRequest(interview=name) | SpecUpload(spec=name) if address.role == "pm":
            return name
        case _:
            return address.id


class WatchedServer(MemoryServer):
    """A MemoryServer whose ports are watched."""

    def __init__(self, monitor: Monitor, *, now: Callable[[], datetime], fence_first: bool) -> None:
        super().__init__(now=now, fence_first=fence_first)
        self._monitor = monitor

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Acknowledged:
        """Watch journals and mail."""
        acknowledged = super().store(subject, data, headers)
        if subject.startswith("callboard.") and not acknowledged.duplicate:
            kind = parse_subject(subject).kind
            if kind == "journal":
                self._monitor.check_record(decode_record(data))
            elif kind == "dead":
                self._monitor.buried.add(headers.get(MESSAGE_ID, ""))
            elif kind in ("request", "reply", "spec", "work", "event"):
                self._monitor.check_send(headers[MESSAGE_ID], data)
        return acknowledged

    def settle(self, ack_subject: str, verb: str, delay_seconds: float = 0.0) -> None:
        """Watch acknowledgements."""
        if verb == "ack":
            _, _, stream, _, _, sequence, *_ = ack_subject.split(".")
            message = self.streams[stream].messages.get(int(sequence)) if stream in self.streams else None
            if message is not None:
                self._monitor.check_acknowledgement(message)
        super().settle(ack_subject, verb, delay_seconds)
