"""Monitors at the ports: what must hold at every moment, whatever the company does."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from actors.core.effects import Effect
from bus.broker import MESSAGE_ID, Acknowledged
from bus.memory import MemoryServer
from protocol.codec import decode_envelope
from protocol.errors import ProtocolError
from protocol.marks import parse_message_id
from protocol.record import Record, decode_record
from protocol.subjects import parse_subject
from protocol.verification import Transition, verify


class Violation(Exception):  # noqa: N818 -- no error of the company's own: what the simulator looks for
    """An invariant does not hold; `invariant` names it."""

    def __init__(self, invariant: str, evidence: str) -> None:
        self.invariant = invariant
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
        self.buried: set[bytes] = set()
        self._seen: dict[str, set[str]] = {}
        self._writers: dict[str, set[str]] = {}

    def say(self, who: str, what: str) -> None:
        """A line of the trace."""
        self.trace.append(f"{asyncio.get_running_loop().time():.6f} {who}: {what}")

    def violate(self, invariant: str, evidence: str) -> None:
        """Something must not have happened."""
        self.say("monitor", f"{invariant}: {evidence}")
        self.violations.append(Violation(invariant, evidence))

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
            self.violate("the machines are the documents", offence.reason)

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
        sender, _ = parse_message_id(message_id)
        if sender == "office":
            return
        if message_id not in self.effects:
            self.violate("no send without its record", message_id)
        self.check_same(f"message {message_id}", data)

    def check_acknowledgement(self, data: bytes) -> None:
        """No acknowledgement without the record of what was taken, or a dead letter of it."""
        if data in self.buried:
            return
        try:
            envelope = decode_envelope(data)
        except ProtocolError:
            return
        if not any(envelope.id in seen for seen in self._seen.values()):
            self.violate("no acknowledgement without its record", envelope.id)

    def check_ending(self, process: str, ending: Any) -> None:
        """Nobody is fenced who has no successor."""
        if isinstance(ending, Exception):
            self.say(process, str(ending))


class WatchedServer(MemoryServer):
    """A MemoryServer whose ports are watched."""

    def __init__(self, monitor: Monitor, *, now: Callable[[], datetime]) -> None:
        super().__init__(now=now)
        self._monitor = monitor

    def store(self, subject: str, data: bytes, headers: Mapping[str, str]) -> Acknowledged:
        """Watch journals and mail."""
        acknowledged = super().store(subject, data, headers)
        if subject.startswith("callboard.") and not acknowledged.duplicate:
            kind = parse_subject(subject).kind
            if kind == "journal":
                self._monitor.check_record(decode_record(data))
            elif kind == "dead":
                self._monitor.buried.add(data)
            elif kind in ("request", "reply", "spec", "work", "event"):
                self._monitor.check_send(headers[MESSAGE_ID], data)
        return acknowledged

    def settle(self, ack_subject: str, verb: str, delay_seconds: float = 0.0) -> None:
        """Watch acknowledgements."""
        if verb == "ack":
            _, _, stream, _, _, sequence, *_ = ack_subject.split(".")
            message = self.streams[stream].messages.get(int(sequence)) if stream in self.streams else None
            if message is not None:
                self._monitor.check_acknowledgement(message.data)
        super().settle(ack_subject, verb, delay_seconds)
