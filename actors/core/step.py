"""One step of a session: the only place where a decision becomes a new session and a record.

Pure. The live loop, the simulator and the tests that replay a journal all call `advance`, so they cannot differ;
`refuse` is what the live loop does about a step of it that cannot be stored.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec

from actors.core.behaviour import Behaviour
from actors.core.decision import Decision, Model, fail, go, ignore
from actors.core.effects import AskPerson, Effect, Send, Timer, WithdrawAsk
from actors.core.events import ChannelClosed, Entered, Event, Failed, Failing, Finished, Received, Resumed, Signalled
from actors.core.failures import Broken, Cancelled, Cause, Unavailable
from actors.core.session import Deferred, Session, Suspension
from actors.evidence import evidence_of, reason_of
from protocol.machine import DONE, ERROR, SUSPEND
from protocol.marks import message_id, was_seen, with_mark
from protocol.messages import Envelope, Recover, Recycle, Restore, Stop

M = TypeVar("M", bound=Model)
E = TypeVar("E", bound=Effect)
R = TypeVar("R")

replace = msgspec.structs.replace


class Step(msgspec.Struct, Generic[M, E, R], frozen=True, kw_only=True):
    """What is to be recorded, and what follows once it is."""

    session: Session[M, E, R]
    event: Event[E, R]
    state_from: str
    effects: tuple[E, ...]
    runs: tuple[E, ...]
    """Effects to start, those that were parked among them; sends are in `effects` alone."""
    cancelled: tuple[str, ...]
    cause: Cause | None = None
    """Why the session fails, also where no way leads to ERROR and nothing else would say so."""


def is_repeated(session: Session[M, E, R], event: Event[E, R]) -> bool:
    """Whether what has arrived was recorded before, or means nothing any more: acknowledge it and go on."""
    match event:
        case Received():
            return was_seen(session.marks.get(event.inbox, {}), event.message.id)
        case Finished() | Failed():
            return event.effect not in session.open
        case Signalled():
            return event.generation <= session.heard
        case _:
            return False


def next_event(behaviour: Behaviour[M, E, R], session: Session[M, E, R], at: datetime) -> Event[E, R] | None:
    """What the session presents to itself before anything new: the way to ERROR, or what it deferred and now takes."""
    if session.failing is not None and session.state != ERROR:
        return Failing(at=at, cause=session.failing)
    for deferred in session.deferred:
        if _judge(behaviour, session, deferred.event, deferred.effect).verb != "defer":
            return replace(deferred.event, at=at)  # what follows from it begins now, however long it has waited
    return None


def advance(
    behaviour: Behaviour[M, E, R], session: Session[M, E, R], event: Event[E, R], *, paused: bool = False
) -> Step[M, E, R] | None:
    """The step that an event leads to; None for a restore that restores nothing, and for what concerns another session.

    A paused session keeps whatever happens, control excepted, until the brake is off.
    """
    if paused and not isinstance(event, Signalled | Resumed):
        return _keep(session, event)
    match event:
        case Resumed():
            return _step(session, session, event)
        case Failing():
            return _fail(behaviour, session, session, event, fail(session.model, event.cause))
        case Failed(failure=Unavailable()) if session.suspension or behaviour.machine.can_suspend(session.state):
            return _suspend(behaviour, session, event)
        case Signalled():
            return _signalled(behaviour, session, event)
        case _:
            return _decided(behaviour, session, event)


def refuse(
    behaviour: Behaviour[M, E, R], session: Session[M, E, R], event: Event[E, R], cause: Cause, *, bare: bool = False
) -> Step[M, E, R]:
    """The step to ERROR instead of one that cannot be recorded or sent; `bare`, without any effect of ERROR's own."""
    taken, _ = _take(session, event)
    step = _fail(behaviour, session, taken, event, fail(session.model, cause))
    return replace(step, effects=(), runs=(), session=replace(step.session, open={})) if bare else step


def _signalled(behaviour: Behaviour[M, E, R], session: Session[M, E, R], event: Signalled) -> Step[M, E, R] | None:
    """The supervisor's decisions on a session are no decider's; one that comes too late is recorded all the same."""
    taken, _ = _take(session, event)
    match event.signal.payload:
        case Restore():
            is_newer = session.suspension is not None and event.generation > session.suspension.generation
            return _restore(session, event) if is_newer else None
        case Recover(session=session.id) if session.state == ERROR and _can_recover(behaviour):
            return _go_on(behaviour, session, taken, event, go(session.model, behaviour.machine.initial))
        case Recycle(session=session.id, record=session.n, reason=reason) if session.state not in (DONE, ERROR):
            return _fail(behaviour, session, taken, event, fail(session.model, Cause(kind="stuck", reason=reason)))
        case Recover(session=name) | Recycle(session=name):
            return _step(session, taken, event) if name == session.id else None
        case _:
            return _decided(behaviour, session, event)


def _can_recover(behaviour: Behaviour[M, E, R]) -> bool:
    return behaviour.machine.initial in behaviour.machine.edges[ERROR]


def _decided(behaviour: Behaviour[M, E, R], session: Session[M, E, R], event: Event[E, R]) -> Step[M, E, R]:
    taken, effect = _take(session, event)
    decision = _judge(behaviour, taken, event, effect)
    if decision.verb == "defer":
        return _keep(session, event)
    if decision.verb == "fail":
        return _fail(behaviour, session, taken, event, decision)
    return _go_on(behaviour, session, taken, event, decision)


def _keep(session: Session[M, E, R], event: Event[E, R]) -> Step[M, E, R]:
    taken, effect = _take(session, event)
    return _step(session, replace(taken, deferred=(*taken.deferred, Deferred(event=event, effect=effect))), event)


def _take(session: Session[M, E, R], event: Event[E, R]) -> tuple[Session[M, E, R], E | None]:
    """The session with the event taken out of what it waits for, and the effect that the event answers."""
    for place, deferred in enumerate(session.deferred):
        if replace(deferred.event, at=event.at) == event:
            rest = session.deferred[:place] + session.deferred[place + 1 :]
            return replace(session, deferred=rest), deferred.effect
    match event:
        case Received():
            marks = with_mark(session.marks.get(event.inbox, {}), event.message.id)
            return replace(session, marks={**session.marks, event.inbox: marks}), None
        case Finished() | Failed():
            still_open = {key: each for key, each in session.open.items() if key != event.effect}
            return replace(session, open=still_open), session.open[event.effect]
        case Signalled():
            return replace(session, heard=max(session.heard, event.generation)), None
        case _:
            return session, None


# Deciding.


def bug(error: BaseException) -> Cause:
    """Something of ours went wrong, where nothing may."""
    return Cause(kind="bug", reason=f"{type(error).__name__}: {reason_of(error)}", evidence=evidence_of(error))


def _judge(
    behaviour: Behaviour[M, E, R], session: Session[M, E, R], event: Event[E, R], effect: E | None
) -> Decision[M]:
    """The decider's answer, or the runtime's own where the decider has nothing to say."""
    if isinstance(effect, WithdrawAsk):
        return ignore(session.model)
    if session.suspension is not None:
        ends = _ends_suspension(behaviour, session.suspension, event)
        if ends is not None:
            return fail(session.model, ends)
        if not isinstance(event, Signalled):
            return Decision(verb="defer", model=session.model)
    decision = _ask(behaviour, session.model, event, effect)
    if decision.verb == "defer" and isinstance(event, Failed | ChannelClosed):
        # Nobody waits for a failure: left alone, the session would stand still for ever.
        return fail(session.model, _cause_of(event))
    return decision


def _ends_suspension(behaviour: Behaviour[M, E, R], suspension: Suspension, event: Event[E, R]) -> Cause | None:
    match event:
        case Finished(effect=effect) if effect == suspension.timer:
            waited = f"{suspension.service} was out of reach for {behaviour.suspend_seconds:g} s"
            return Cause(kind="suspend_timeout", reason=waited)
        case Signalled(signal=Envelope(payload=Stop(reason=reason))):
            return Cause(kind="shutdown", reason=reason or "the company closes")
        case _:
            return None


def _ask(behaviour: Behaviour[M, E, R], model: M, event: Event[E, R], effect: E | None) -> Decision[M]:
    """Ask the decider. What it raises, and a state that no edge leads to, are bugs of ours and lead to ERROR."""
    if isinstance(event, Finished | Failed):
        event = replace(event, of=effect)
    try:
        decision = behaviour.decide(model, event)
        assert isinstance(decision, Decision), f"decide returned a {type(decision).__name__}, no Decision"
        behaviour.machine.check(model.state, decision.model.state)
        assert decision.verb == "go" or decision.model.state == model.state, "only go changes the state"
        assert decision.verb != "go" or decision.model.state != ERROR, "fail, which has a cause, leads to ERROR"
        for each in decision.effects:
            if isinstance(each, Timer):
                _due(each, event)  # a time that no clock shows is found here, where it is a bug like any other
    except (Exception, SystemExit) as error:
        return fail(model, bug(error))
    return decision


def _cause_of(event: Failed[E] | ChannelClosed) -> Cause:
    if isinstance(event, ChannelClosed):
        return Cause(kind="channel_closed", reason=f"{event.inbox}: {event.reason}")
    match event.failure:
        case Broken() as broken:
            return Cause(kind="effect", reason=f"{broken.error}: {broken.reason}", evidence=broken.evidence)
        case Cancelled():
            return Cause(kind="cancelled", reason=event.failure.reason)
        case Unavailable() as unavailable:
            return Cause(kind="effect", reason=f"{unavailable.service} is out of reach: {unavailable.reason}")


# Going on.


def _go_on(
    behaviour: Behaviour[M, E, R],
    before: Session[M, E, R],
    taken: Session[M, E, R],
    event: Event[E, R],
    decision: Decision[M],
) -> Step[M, E, R]:
    changed = replace(taken, model=decision.model)
    if decision.verb != "go":
        return _step(before, changed, event, decision.effects, decision.cancels)
    changed = replace(changed, deferred=_without_entered(changed))
    if before.state == ERROR:
        changed = replace(changed, failing=None)
    return _enter(behaviour, before, changed, event, decision)


def _enter(
    behaviour: Behaviour[M, E, R],
    before: Session[M, E, R],
    changed: Session[M, E, R],
    event: Event[E, R],
    decision: Decision[M],
) -> Step[M, E, R]:
    """Begin the work of the state that the session has come to, in the same step."""
    entered = Entered(at=event.at)
    entry = _ask(behaviour, changed.model, entered, None)
    effects, cancels = decision.effects, decision.cancels
    if entry.verb == "stay":
        changed = replace(changed, model=entry.model)
        effects, cancels = (*effects, *entry.effects), (*cancels, *entry.cancels)
    elif entry.verb in ("go", "fail"):
        # The state is left again at once: that is a step of its own, with a record of its own.
        changed = replace(changed, deferred=(Deferred(event=entered), *changed.deferred))
    return _step(before, changed, event, effects, cancels)


def _fail(
    behaviour: Behaviour[M, E, R],
    before: Session[M, E, R],
    taken: Session[M, E, R],
    event: Event[E, R],
    decision: Decision[M],
) -> Step[M, E, R]:
    """One step to ERROR; states on the way are not entered. Where no way leads there, the session stays as it is."""
    path = behaviour.machine.path_to_error(before.state)
    if not path:
        stays = replace(taken, failing=taken.failing or decision.cause) if before.state == ERROR else taken
        return replace(_step(before, stays, event, decision.effects), cause=decision.cause)
    changed = replace(
        taken,
        model=_in_state(taken.model, path[0]),
        failing=decision.cause,
        suspension=None,
        open={key: each for key, each in taken.open.items() if isinstance(each, WithdrawAsk)},
        deferred=_without_entered(taken),
    )
    is_there = path[0] == ERROR
    step = (
        _enter(behaviour, before, changed, event, decision)
        if is_there
        else _step(before, changed, event, decision.effects)
    )
    return replace(step, cause=decision.cause)


def _without_entered(session: Session[M, E, R]) -> tuple[Deferred[E, R], ...]:
    """That a state was entered means nothing once it is left."""
    return tuple(each for each in session.deferred if not isinstance(each.event, Entered))


# SUSPEND.


def _suspend(behaviour: Behaviour[M, E, R], session: Session[M, E, R], event: Failed[E]) -> Step[M, E, R]:
    if session.suspension is not None:
        # Another effect failed for want of a service: it waits with the first one.
        parked = replace(session.suspension, parked=(*session.suspension.parked, event.effect))
        return _step(session, replace(session, suspension=parked), event)
    assert isinstance(event.failure, Unavailable)
    suspension = Suspension(
        suspended_from=session.state,
        service=event.failure.service,
        generation=event.generation,
        timer=message_id(session.id, session.n + 1, 0),
        parked=(event.effect,),
    )
    changed = replace(session, model=_in_state(session.model, SUSPEND), suspension=suspension)
    return _step(session, changed, event, (Timer(name=SUSPEND, seconds=behaviour.suspend_seconds),))


def _restore(session: Session[M, E, R], event: Signalled) -> Step[M, E, R]:
    """Back to exactly where it was; nothing is entered anew, and what was outstanding runs again."""
    suspension = session.suspension
    assert suspension is not None
    still_open = {key: each for key, each in session.open.items() if key != suspension.timer}
    changed = replace(
        session,
        model=_in_state(session.model, suspension.suspended_from),
        suspension=None,
        open=still_open,
        deferred=tuple(each for each in session.deferred if _answered(each.event) != suspension.timer),
        heard=max(session.heard, event.generation),
    )
    step = _step(session, changed, event)
    return replace(step, runs=tuple(still_open[key] for key in suspension.parked if key in still_open))


# The new session.


def _in_state(model: M, state: str) -> M:
    changed: M = replace(model, state=state)  # type: ignore[type-var]  # every model is a struct
    return changed


def _step(
    before: Session[M, E, R],
    after: Session[M, E, R],
    event: Event[E, R],
    effects: Iterable[Effect] = (),
    cancels: Iterable[str] = (),
) -> Step[M, E, R]:
    n = before.n + 1
    unwanted = frozenset(cancels)
    kept = {key: each for key, each in after.open.items() if _tag(each) not in unwanted}
    cancelled = tuple(key for key in before.open if key not in kept and key != _answered(event))
    named = _name((*effects, *_withdrawals(before, cancelled)), before.id, n, event)
    started = tuple(effect for effect in named if not isinstance(effect, Send))
    since = before.since if before.since and after.state == before.state else event.at
    return Step(
        session=replace(after, n=n, open={**kept, **{effect.id: effect for effect in started}}, since=since),
        event=event,
        state_from=before.state,
        effects=named,
        runs=started,
        cancelled=cancelled,
    )


def _answered(event: Event[E, R]) -> str:
    return event.effect if isinstance(event, Finished | Failed) else ""


def _withdrawals(before: Session[M, E, R], cancelled: tuple[str, ...]) -> tuple[Effect, ...]:
    """A person is not left with a question that nobody waits for any more."""
    return tuple(WithdrawAsk(ask=key) for key in cancelled if isinstance(before.open[key], AskPerson))


def _name(effects: Iterable[Effect], session: str, n: int, event: Event[E, R]) -> tuple[Any, ...]:
    return tuple(_named(effect, message_id(session, n, k), event) for k, effect in enumerate(effects))


def _named(effect: Effect, identifier: str, event: Event[E, R]) -> Effect:
    match effect:
        case Timer():
            return replace(effect, id=identifier, due=_due(effect, event))
        case Send():
            return replace(effect, id=identifier, cause=_message_of(event))
        case _:
            return replace(effect, id=identifier)


def _due(timer: Timer, event: Event[E, R]) -> datetime:
    return event.at + timedelta(seconds=timer.seconds)


def _message_of(event: Event[E, R]) -> str:
    match event:
        case Received():
            return event.message.id
        case Signalled():
            return event.signal.id
        case _:
            return ""


def _tag(effect: Effect) -> str:
    return str(effect.__struct_config__.tag)
