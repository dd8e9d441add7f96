"""The tool loop: from a question to the model to the call that ends its work, however the model behaves. Pure.

An actor keeps a Loop in its memory and hands it what happens; what comes back is the loop as it is then, the effects
to begin, and how it stands. Each turn and each run of a tool is an effect of its own, so a crash repeats at most one.
"""

from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from actors.core.effects import AskPerson, Effect, Send
from actors.core.events import Event, Failed, Finished
from actors.core.failures import AnyFailure, Broken, Cause
from actors.core.results import PersonAnswered
from actors.thinking.circles import Trace, circle_in, trace_of, with_trace
from actors.thinking.conversation import (
    TOO_LONG,
    Block,
    blocks_of,
    calls_in,
    is_kept,
    recorded_bytes,
    render,
    result_block,
    text_block,
    text_in,
)
from actors.thinking.effects import (
    AskModel,
    BudgetRaised,
    ModelAnswered,
    Opening,
    Purpose,
    RaiseBudget,
    RunTool,
    ToolCall,
    ToolRan,
)
from actors.thinking.troubles import CANNOT_GO_ON, OUTPUT_LIMIT, STORY_BUDGET, Question, question_about
from protocol.messages import ConversationRestarted
from protocol.routing import address

replace = msgspec.structs.replace

CUTS_MAX = 2
"""How often an answer that was cut is asked for again, each time with twice the room."""
OVERFLOWS_MAX = 2
"""How often a conversation may outgrow its limit in one piece of work."""
SAID_BYTES_MAX = 150_000
"""What the results of one turn may have together, as they are recorded: they stand in one record."""
CUT_OFF = "\n… [the rest was left out: ask for less at a time]"
SMALLER = "Your last answer was too large to be kept, so nothing of it was done. Go on in smaller steps."


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the model's work in one state of an actor."""

    ends_with: tuple[str, ...]
    """The tools of which one ends the work; it is not run, but handed to the actor."""
    tools: tuple[str, ...] = ()
    """The other tools that may be used in this state; the conversation may have more of them."""
    reading: tuple[str, ...] = ()
    """Those that change nothing, so that several can run side by side."""
    turns_max: int = 60
    closing_turns: int = 3
    """So many of the last turns accept nothing but what ends the work."""
    nudges_max: int = 2
    quiet_turns_max: int = 0
    """How many turns may pass in which the workspace stays as it is; 0: any number."""
    context_tokens_max: int = 150_000
    """How long a conversation may grow before it begins anew with what matters."""


class Loop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model's work as far as it has come: a few numbers, and what the current turn waits for."""

    purpose: Purpose
    conversation: str = ""
    position: int = 0
    message: str = ""
    turns: int = 0
    nudges: int = 0
    cuts: int = 0
    overflows: int = 0
    tokens: int = 0
    """How long the conversation was at its last turn."""
    quiet_turns: int = 0
    tree: str = ""
    calls: tuple[ToolCall, ...] = ()
    """What the model's last turn wants done."""
    outputs: dict[str, ToolRan] = {}
    """What came of it so far, by the call's id."""
    running: tuple[str, ...] = ()
    unanswered: str = ""
    """The call that ended the work: whoever goes on with the conversation answers it first."""
    traces: tuple[Trace, ...] = ()
    parked: AskModel | None = None
    """What was asked and has no answer yet: it is asked again once a person has settled what is in its way, and said
    first by whoever goes on with the conversation in another way."""
    question: Question | None = None


class Working(NamedTuple):
    """It goes on by itself."""


class Ended(NamedTuple):
    """The model has called what ends its work."""

    call: ToolCall


class Exhausted(NamedTuple):
    """It comes no further by itself: the documents' way for a budget that is used up."""

    kind: str
    reason: str


class Outgrown(NamedTuple):
    """The conversation is too long: the actor begins another one with what matters (`begin_anew`)."""

    reason: str


class Stopped(NamedTuple):
    """It cannot go on at all, or a person does not want it to."""

    cause: Cause


Standing = Working | Ended | Exhausted | Outgrown | Stopped


class Move(NamedTuple):
    """The loop after something has happened, what is to be begun, and how it stands."""

    loop: Loop
    effects: tuple[Effect, ...] = ()
    standing: Standing = Working()


# What the actor does.


def begin(purpose: Purpose, opening: Opening, *texts: str) -> Move:
    """Begin a conversation."""
    return _begin(Loop(purpose=purpose), opening, texts)


def begin_anew(loop: Loop, opening: Opening, reason: str, *texts: str) -> Move:
    """Begin another conversation in the same piece of work, and say so: what was counted goes on being counted."""
    purpose = loop.purpose
    restarted = ConversationRestarted(
        conversation=loop.conversation,
        reason=reason,
        state=purpose.state,
        story=purpose.story,
        spec=purpose.spec,
        tokens=loop.tokens,
    )
    said = Send(to=address(purpose.role, "all"), message=restarted, kind="EVENT")
    move = _begin(_without_debts(replace(loop, conversation="", position=0, message="", tokens=0)), opening, texts)
    return move._replace(effects=(said, *move.effects))


def go_on(loop: Loop, purpose: Purpose, *texts: str) -> Move:
    """Go on with a conversation that had ended: with feedback, in another state. Its turns are counted from none.

    What the model waits for comes first: the answer to the call that ended its work, what came of its calls, or what
    it was told and has not answered.
    """
    fresh = replace(loop, purpose=purpose, turns=0, nudges=0, cuts=0, overflows=0, quiet_turns=0, traces=())
    if loop.unanswered:
        first, *others = texts
        owed = [result_block(loop.unanswered, first)]
    else:
        others = list(texts)
        owed = _results(loop) if loop.parked is None else blocks_of(loop.parked.says)
    opening = None if loop.parked is None else loop.parked.opening
    return _ask(_without_debts(fresh), render(*owed, _place(purpose), *map(text_block, others)), opening)


def refuse_end(loop: Loop, rules: Rules, call: ToolCall, reason: str) -> Move:
    """Tell the model that the call which ends its work cannot be accepted as it is."""
    refused = replace(loop, unanswered="", calls=(call,))
    return _taken(refused, rules, call, ToolRan(output=reason, is_error=True))


def _without_debts(loop: Loop) -> Loop:
    """The loop when all has been said that somebody waits for, or nobody does any more."""
    return replace(loop, unanswered="", calls=(), outputs={}, running=(), parked=None, question=None)


def _begin(loop: Loop, opening: Opening, texts: tuple[str, ...]) -> Move:
    says = render(_place(loop.purpose), *map(text_block, texts))
    return _asking(loop, AskModel(purpose=loop.purpose, says=says, opening=opening))


def _place(purpose: Purpose) -> Block:
    """Where the model is, for itself and for whoever reads along."""
    facts = {"role": purpose.role, "state": purpose.state, "story": purpose.story, "spec": purpose.spec}
    return text_block(" ".join(["callboard:", *(f"{name}={value}" for name, value in facts.items() if value)]))


# What happens.


def take(  # noqa: PLR0911 -- one for each thing that can happen
    loop: Loop, rules: Rules, event: Event[Any, Any]
) -> Move | None:
    """The move that an event leads to; None if it is none of the loop's.

    What nobody waits for any more, because the work was left before it ended, leads to nothing.
    """
    match event:
        case Finished(of=AskModel() as asked) | Failed(of=AskModel() as asked) if _plain(asked) != loop.parked:
            return Move(loop)
        case Finished(of=RunTool(call=call)) | Failed(of=RunTool(call=call)) if call.id not in loop.running:
            return Move(loop)
        case Finished(of=RaiseBudget()) if loop.question is None:
            return Move(loop)
        case Finished(of=AskModel() as asked, result=ModelAnswered() as answer):
            return _heard(loop, rules, asked, answer, event.effect)
        case Finished(of=RunTool(call=call), result=ToolRan() as ran):
            return _taken(loop, rules, call, ran)
        case Failed(of=RunTool(call=call), failure=failure):
            return _taken(loop, rules, call, ToolRan(output=f"the tool failed: {failure.reason}", is_error=True))
        case Failed(of=AskModel() as asked, failure=failure):
            return _failed(loop, asked, failure)
        case Finished(of=AskPerson(question=asked_of_person), result=PersonAnswered(answer=said)) if (
            loop.question is not None and loop.question.text == asked_of_person
        ):
            return _settled(loop, loop.question, said)
        case Finished(of=RaiseBudget(), result=BudgetRaised()):
            return _ask_again(loop)
        case _:
            return None


def _heard(loop: Loop, rules: Rules, asked: AskModel, answer: ModelAnswered, effect: str) -> Move:
    loop = replace(
        loop,
        conversation=asked.conversation or effect,
        position=answer.position,
        parked=None,
        turns=loop.turns + 1,
        tokens=answer.usage.prompt_tokens + answer.usage.output_tokens,
    )
    if not is_kept(answer):
        return _unkept(loop, rules, asked, answer)
    loop = replace(loop, message=answer.message, cuts=0)
    calls = calls_in(answer.content)
    if answer.stop_reason == "pause_turn":
        return _ask(loop, "") if loop.turns < rules.turns_max else _out_of_turns(loop, rules)
    if not calls:
        return _nudge(loop, rules, text_in(answer.content))
    if len(calls) == 1 and calls[0].name in rules.ends_with:
        return Move(replace(loop, unanswered=calls[0].id, calls=(), outputs={}), (), Ended(calls[0]))
    loop = replace(loop, calls=calls, outputs={}, quiet_turns=loop.quiet_turns + 1)
    return _run(_refuse_what_may_not_be(loop, rules), rules)


def _unkept(loop: Loop, rules: Rules, asked: AskModel, answer: ModelAnswered) -> Move:
    """An answer that does not become part of the conversation: what was asked is asked again, or cannot be."""
    again = _plain(asked)
    loop = replace(loop, conversation=asked.conversation)
    if loop.turns >= rules.turns_max:
        return _out_of_turns(replace(loop, parked=again), rules)
    match answer.stop_reason:
        case "max_tokens" if loop.cuts < CUTS_MAX:
            room = 2 * max(answer.usage.output_tokens, asked.max_tokens, 1)
            return _asking(replace(loop, cuts=loop.cuts + 1), replace(again, max_tokens=room))
        case reason if reason == TOO_LONG and loop.cuts < CUTS_MAX:
            says = render(*blocks_of(asked.says), text_block(SMALLER))
            return _asking(replace(loop, cuts=loop.cuts + 1), replace(again, says=says))
        case reason if reason in ("max_tokens", TOO_LONG):
            return _cut_too_often(loop, again, loop.cuts + 1)
        case "refusal":
            failure = Broken(error="ContentRefusedError", reason=f"the model refused: {answer.detail or 'no reason'}")
            return _failed(replace(loop, parked=again), again, failure)
        case reason:
            return _overflow(replace(loop, parked=again), f"its conversation does not fit any more ({reason})")


def _cut_too_often(loop: Loop, again: AskModel, times: int) -> Move:
    reason = f"for want of room its answer was cut, times tried: {times}"
    return Move(replace(loop, parked=replace(again, max_tokens=0)), (), Exhausted("cut", reason))


def _nudge(loop: Loop, rules: Rules, said: str) -> Move:
    """It has only talked: what it wants to tell somebody it has to say by a tool."""
    ends = " or ".join(rules.ends_with)
    if loop.nudges >= rules.nudges_max:
        reason = f"it has answered {loop.nudges + 1} times without a call of a tool, the last time: {said[:200]}"
        return Move(loop, (), Exhausted("monologue", reason))
    if loop.turns >= rules.turns_max:
        return _out_of_turns(loop, rules)
    loop = replace(loop, nudges=loop.nudges + 1)
    return _ask(loop, render(text_block(f"Nobody reads this. Go on by calling a tool; {ends} ends your work here.")))


# Tools.


def _refuse_what_may_not_be(loop: Loop, rules: Rules) -> Loop:
    """Answer at once what must not be run: an end beside other calls, a tool of another state, anything too late."""
    reasons = {call.id: _why_not(loop, rules, call) for call in loop.calls}
    return _with_outputs(loop, {call: ToolRan(output=why, is_error=True) for call, why in reasons.items() if why})


def _why_not(loop: Loop, rules: Rules, call: ToolCall) -> str:
    ends = " or ".join(rules.ends_with)
    if call.name in rules.ends_with:
        return f"{call.name} ends your work and must be the only call of its turn: this call was not heeded"
    if loop.turns > rules.turns_max - rules.closing_turns:
        return f"your turns are nearly used up, so nothing but {ends} is accepted now"
    if call.name not in rules.tools:
        return f"{call.name} cannot be used in {loop.purpose.state}"
    return ""


def _with_outputs(loop: Loop, outputs: dict[str, ToolRan]) -> Loop:
    traces = loop.traces
    for call in loop.calls:
        if call.id in outputs:
            ran = outputs[call.id]
            traces = with_trace(traces, trace_of(call.name, call.input, ran.output, failed=ran.is_error))
    return replace(loop, outputs={**loop.outputs, **outputs}, traces=traces)


def _run(loop: Loop, rules: Rules) -> Move:
    """Run what is next: what only reads side by side, everything else alone."""
    waiting = [call for call in loop.calls if call.id not in loop.outputs]
    if not waiting:
        return _tell_results(loop, rules)
    begun = list(takewhile(lambda call: call.name in rules.reading, waiting)) or waiting[:1]
    loop = replace(loop, running=tuple(call.id for call in begun))
    return Move(loop, tuple(RunTool(purpose=loop.purpose, call=call) for call in begun))


def _taken(loop: Loop, rules: Rules, call: ToolCall, ran: ToolRan) -> Move:
    """A tool has an answer; the model hears of it when all of its turn have."""
    ran = replace(ran, output=_fitting(ran.output, SAID_BYTES_MAX // max(1, len(loop.calls))))
    changed = ran.tree not in ("", loop.tree)
    running = tuple(each for each in loop.running if each != call.id)
    loop = replace(_with_outputs(loop, {call.id: ran}), running=running)
    if changed:
        loop = replace(loop, tree=ran.tree, quiet_turns=0)
    return Move(loop) if running else _run(loop, rules)


def _tell_results(loop: Loop, rules: Rules) -> Move:
    """Tell the model what came of all calls of its turn, unless there is no point in going on."""
    if circle := circle_in(loop.traces):
        return Move(loop, (), Exhausted("circle", circle))
    if 0 < rules.quiet_turns_max <= loop.quiet_turns:
        reason = f"nothing in its workspace has changed for {loop.quiet_turns} turns"
        return Move(loop, (), Exhausted("no_progress", reason))
    if loop.turns >= rules.turns_max:
        return _out_of_turns(loop, rules)
    if loop.tokens > rules.context_tokens_max:
        return _overflow(loop, f"its conversation has {loop.tokens} tokens, over {rules.context_tokens_max}")
    blocks = _results(loop)
    left = rules.turns_max - rules.closing_turns - loop.turns
    if left == 0:
        blocks.append(text_block(f"{rules.closing_turns} turns are left: call {' or '.join(rules.ends_with)} now."))
    return _ask(replace(loop, calls=(), outputs={}), render(*blocks))


def _results(loop: Loop) -> list[Block]:
    """What came of the calls of the model's last turn."""
    given_up = ToolRan(output="it was given up before it ended", is_error=True)
    results = ((call.id, loop.outputs.get(call.id, given_up)) for call in loop.calls)
    return [result_block(call, ran.output, is_error=ran.is_error) for call, ran in results]


def _fitting(output: str, bytes_max: int) -> str:
    """As much of an output as has room in a record."""
    if (size := recorded_bytes(output)) <= bytes_max:
        return output
    while size > bytes_max:
        output = output[: len(output) * bytes_max // size]
        size = recorded_bytes(output)
    return output + CUT_OFF


def _out_of_turns(loop: Loop, rules: Rules) -> Move:
    return Move(loop, (), Exhausted("turns", f"it has used up its {rules.turns_max} turns"))


def _overflow(loop: Loop, reason: str) -> Move:
    if loop.overflows >= OVERFLOWS_MAX:
        return Move(loop, (), Exhausted("context", f"{reason}, for the {loop.overflows + 1}th time"))
    return Move(_without_debts(replace(loop, overflows=loop.overflows + 1)), (), Outgrown(reason))


# What is in the way.


def _failed(loop: Loop, asked: AskModel, failure: AnyFailure) -> Move:
    error = failure.error if isinstance(failure, Broken) else type(failure).__name__
    evidence = failure.evidence if isinstance(failure, Broken) else ""
    if error in CANNOT_GO_ON:
        return _overflow(loop, failure.reason)
    if error == STORY_BUDGET:
        return Move(loop, (), Exhausted("budget", failure.reason))
    if error == OUTPUT_LIMIT and loop.cuts:
        return _cut_too_often(loop, _plain(asked), loop.cuts)
    question = question_about(error, failure.reason, evidence, loop.purpose)
    if question is None:
        return Move(loop, (), Stopped(Cause(kind="effect", reason=f"{error}: {failure.reason}", evidence=evidence)))
    ask = AskPerson(question=question.text, context=question.context, choices=tuple(question.choices))
    return Move(replace(loop, question=question), (ask,))


def _settled(loop: Loop, question: Question, answer: str) -> Move:
    """A person has said what now; what is none of the choices is taken as a wish to try again."""
    way = question.choices.get(answer, "again")
    match way:
        case "again":
            return _ask_again(loop)
        case "raise" | "once":
            once = way == "once"
            more = RaiseBudget(scope=question.scope, name=question.name, raised=question.raised, once=once)
            return Move(loop, (more,))
        case "exhausted":
            return Move(replace(loop, question=None), (), Exhausted("budget", f"a person says: {answer}"))
        case _:
            reason = f"a person has given it up: {question.text}"
            return Move(replace(loop, question=None), (), Stopped(Cause(kind="abandoned", reason=reason)))


def _ask_again(loop: Loop) -> Move:
    assert loop.parked is not None
    return _asking(replace(loop, question=None), loop.parked)


def _asking(loop: Loop, asked: AskModel) -> Move:
    return Move(replace(loop, parked=asked), (asked,))


def _ask(loop: Loop, says: str, opening: Opening | None = None) -> Move:
    ask = AskModel(
        purpose=loop.purpose,
        says=says,
        opening=opening,
        conversation=loop.conversation,
        position=loop.position,
        after=loop.message,
    )
    return _asking(loop, ask)


def _plain(asked: AskModel) -> AskModel:
    """The same question, to be asked anew: its id is given by the runtime."""
    return replace(asked, id="")
