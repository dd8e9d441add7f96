"""The tool loop: whatever the model does, it is answered, bounded, and leads where the documents send it."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.effects import AskPerson, Effect, Send
from actors.core.events import Failed, Finished
from actors.core.failures import Broken, Cancelled
from actors.core.results import PersonAnswered, Result
from actors.thinking.conversation import TOO_LONG, recorded_bytes
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
from actors.thinking.loop import (
    SAID_BYTES_MAX,
    SMALLER,
    Ended,
    Exhausted,
    Loop,
    Move,
    Outgrown,
    Rules,
    Standing,
    Stopped,
    Working,
    begin,
    begin_anew,
    go_on,
    refuse_end,
    take,
)
from actors.thinking.troubles import Refused
from bus.ledger.amounts import Amount, Usage
from protocol.codec import encode
from protocol.messages import ConversationRestarted

AT = datetime(2026, 11, 19, tzinfo=UTC)
PURPOSE = Purpose(role="coder", state="CODING", story="s-1", spec="todo")
OPENING = Opening(system=("You code.",), tools="[]")
RULES = Rules(ends_with=("done",), tools=("read", "list", "edit"), reading=("read", "list"), turns_max=10)


def an_answer(asked: AskModel, blocks: list[dict[str, Any]], reason: str, tokens: int = 100) -> ModelAnswered:
    return ModelAnswered(
        conversation=asked.conversation or asked.id,
        position=7,
        message=f"msg {asked.id}",
        model="claude",
        stop_reason=reason,
        content=json.dumps(blocks),
        usage=Usage(input_tokens=tokens, output_tokens=10),
    )


class Performance:
    """A loop with somebody who answers for the model, the tools and the person."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.rules = rules
        self.effects = 0
        self.open: dict[str, Any] = {}
        self.standing: Standing = Working()
        self.loop = Loop(purpose=PURPOSE)
        self.follow(begin(PURPOSE, OPENING, "Add a test."))

    def follow(self, move: Move) -> Move:
        self.loop, self.standing = move.loop, move.standing
        for effect in move.effects:
            if isinstance(effect, Send):
                continue  # it is recorded, and nothing comes of it
            self.effects += 1
            identifier = f"s-1.1/{self.effects}/0"
            self.open[identifier] = msgspec.structs.replace(effect, id=identifier)
        return move

    def only(self, kind: type[Effect]) -> Any:
        (found,) = [effect for effect in self.open.values() if isinstance(effect, kind)]
        return found

    def finish(self, effect: Any, result: Result) -> Move:
        del self.open[effect.id]
        move = take(self.loop, self.rules, Finished(at=AT, effect=effect.id, result=result, of=effect))
        assert move is not None
        return self.follow(move)

    def fail(self, effect: Any, failure: Any) -> Move:
        del self.open[effect.id]
        move = take(self.loop, self.rules, Failed(at=AT, effect=effect.id, failure=failure, of=effect))
        assert move is not None
        return self.follow(move)

    def answer(self, *calls: tuple[str, dict[str, Any]], text: str = "", tokens: int = 100, reason: str = "") -> Move:
        """The model says its turn."""
        asked = self.only(AskModel)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": f"{asked.id}-{n}", "name": name, "input": given}
            for n, (name, given) in enumerate(calls)
        ]
        return self.finish(asked, an_answer(asked, blocks, reason or ("tool_use" if calls else "end_turn"), tokens))

    def owing(self, *calls: tuple[str, dict[str, Any]]) -> set[str]:
        """The model says its turn; what it waits for then."""
        asked = self.only(AskModel).id
        self.answer(*calls)
        return {f"{asked}-{n}" for n in range(len(calls))}

    def run(self, output: str = "fine", *, tree: str = "", is_error: bool = False) -> Move:
        """The first tool that runs comes to its end."""
        effect = next(effect for effect in self.open.values() if isinstance(effect, RunTool))
        return self.finish(effect, ToolRan(output=output, tree=tree, is_error=is_error))

    @property
    def running(self) -> list[str]:
        return [effect.call.name for effect in self.open.values() if isinstance(effect, RunTool)]

    @property
    def told(self) -> list[dict[str, Any]]:
        """What the model is told now."""
        blocks: list[dict[str, Any]] = json.loads(self.only(AskModel).says or "[]")
        return blocks


def test_a_conversation_begins_with_where_the_model_is_and_what_is_to_be_done() -> None:
    performance = Performance()

    assert performance.only(AskModel) == AskModel(
        id="s-1.1/1/0",
        purpose=PURPOSE,
        says=json.dumps(
            [
                {"text": "callboard: role=coder state=CODING story=s-1 spec=todo", "type": "text"},
                {"text": "Add a test.", "type": "text"},
            ],
            separators=(",", ":"),
        ),
        opening=OPENING,
    )


def test_a_turn_after_the_first_follows_the_last_one() -> None:
    performance = Performance()

    performance.answer(("edit", {"line": 1}))
    performance.run("edited")

    asked = performance.only(AskModel)
    assert (asked.opening, asked.conversation, asked.position, asked.after) == (None, "s-1.1/1/0", 7, "msg s-1.1/1/0")
    assert performance.told == [{"type": "tool_result", "tool_use_id": "s-1.1/1/0-0", "content": "edited"}]


def test_the_call_that_ends_the_work_is_handed_to_the_actor_and_not_run() -> None:
    performance = Performance()

    performance.answer(("done", {"summary": "it works"}), text="I am done.")

    assert performance.standing == Ended(ToolCall(id="s-1.1/1/0-0", name="done", input='{"summary": "it works"}'))
    assert performance.open == {}


def test_what_only_reads_runs_side_by_side_and_everything_else_alone_and_in_order() -> None:
    performance = Performance()

    performance.answer(*((name, {"n": n}) for n, name in enumerate(["read", "list", "edit", "edit", "read"])))
    seen = [performance.running]
    for _ in range(4):
        performance.run()
        seen.append(performance.running)
    performance.run()

    assert seen == [["read", "list"], ["list"], ["edit"], ["edit"], ["read"]]
    assert [block["tool_use_id"] for block in performance.told] == [f"s-1.1/1/0-{n}" for n in range(5)]


def test_results_are_told_in_the_order_of_the_calls_and_all_in_one_message() -> None:
    performance = Performance()
    performance.answer(("read", {"n": 1}), ("read", {"n": 2}))
    first, second = performance.open.values()

    performance.finish(second, ToolRan(output="two"))
    performance.finish(first, ToolRan(output="one"))

    assert [block["content"] for block in performance.told] == ["one", "two"]


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        (["edit", "done"], "done ends your work and must be the only call of its turn: this call was not heeded"),
        (["edit", "merge"], "merge cannot be used in CODING"),
    ],
)
def test_what_must_not_be_run_is_answered_and_the_others_run(calls: list[str], told: str) -> None:
    performance = Performance()

    performance.answer(*((name, {}) for name in calls))
    assert performance.running == ["edit"]
    performance.run("edited")

    assert [(block["content"], block.get("is_error", False)) for block in performance.told] == [
        ("edited", False),
        (told, True),
    ]


def test_a_tool_that_fails_is_told_to_the_model_and_is_no_failure_of_the_actor() -> None:
    performance = Performance()
    performance.answer(("read", {}), ("list", {}))
    first, second = performance.open.values()

    performance.fail(first, Broken(error="SandboxError", reason="out of memory"))
    performance.fail(second, Cancelled(reason="interrupted"))

    assert [block["content"] for block in performance.told] == [
        "the tool failed: out of memory",
        "the tool failed: interrupted",
    ]
    assert all(block["is_error"] for block in performance.told)


@pytest.mark.parametrize("letter", ["x", "世", '"', "\x00"])
def test_results_that_are_too_long_together_are_cut_and_say_so(letter: str) -> None:
    performance = Performance()
    performance.answer(("read", {}), ("list", {}))

    performance.run(letter * SAID_BYTES_MAX)
    performance.run("y")

    first, second = performance.told
    assert SAID_BYTES_MAX * 0.45 < recorded_bytes(first["content"]) < SAID_BYTES_MAX * 0.55
    assert first["content"].endswith("ask for less at a time]")
    assert second["content"] == "y"


# Budgets.


def test_who_only_talks_is_nudged_twice_and_then_stopped() -> None:
    performance = Performance()

    performance.answer(text="I think I should …")
    first = performance.told
    performance.answer(text="Well …")
    performance.answer(text="As I said …")

    assert first == [{"type": "text", "text": "Nobody reads this. Go on by calling a tool; done ends your work here."}]
    assert performance.standing == Exhausted(
        "monologue", "it has answered 3 times without a call of a tool, the last time: As I said …"
    )


def test_nudges_are_not_earned_back_by_working_in_between() -> None:
    performance = Performance()
    for n in range(2):
        performance.answer(text="Hm.")
        performance.answer(("edit", {"n": n}))
        performance.run(f"{n}")

    performance.answer(text="Hm.")

    assert isinstance(performance.standing, Exhausted)


def test_the_last_turns_accept_nothing_but_the_end() -> None:
    performance = Performance()
    for n in range(7):
        performance.answer(("edit", {"n": n}))
        performance.run(f"{n}")
    warned = performance.told[-1]
    performance.answer(("edit", {"n": 8}))
    refused = performance.told
    performance.answer(("done", {}))

    assert warned == {"type": "text", "text": "3 turns are left: call done now."}
    assert refused[0]["content"] == "your turns are nearly used up, so nothing but done is accepted now"
    assert isinstance(performance.standing, Ended)


def test_who_uses_up_all_turns_is_stopped() -> None:
    performance = Performance()
    n = 0
    while isinstance(performance.standing, Working):
        n += 1
        performance.answer(("edit" if n % 2 else "read", {"n": n}))
        if performance.running:
            performance.run(f"{n}")

    assert (performance.standing, n) == (Exhausted("turns", "it has used up its 10 turns"), 10)


def test_who_goes_round_in_circles_is_stopped() -> None:
    performance = Performance()
    for _ in range(3):
        performance.answer(("edit", {"line": 1}))
        performance.run("no such line", is_error=True)

    assert performance.standing == Exhausted("circle", "the same call of edit has failed 3 times in a row")


def test_who_changes_nothing_for_long_is_stopped_where_something_should_change() -> None:
    performance = Performance(msgspec.structs.replace(RULES, quiet_turns_max=3))
    for n, tree in enumerate(["a", "b", "b", "b"]):
        performance.answer(("edit", {"n": n}))
        performance.run(f"{n}", tree=tree)
    assert performance.running == []
    assert performance.only(AskModel)
    performance.answer(("edit", {"n": 5}))
    performance.run("5", tree="b")

    assert performance.standing == Exhausted("no_progress", "nothing in its workspace has changed for 3 turns")


def test_an_answer_that_was_cut_is_asked_for_again_with_more_room_and_its_calls_are_never_run() -> None:
    performance = Performance()
    rooms = []
    for _ in range(2):
        performance.answer(("edit", {}), reason="max_tokens")
        asked = performance.only(AskModel)
        rooms.append(asked.max_tokens)
        assert (asked.opening, asked.conversation) == (OPENING, "")
    performance.answer(("edit", {}), reason="max_tokens")

    assert rooms == [20, 40]
    assert performance.standing == Exhausted("cut", "for want of room its answer was cut, times tried: 3")
    assert performance.running == []


def test_an_answer_that_is_too_large_for_a_record_is_asked_for_in_smaller_steps() -> None:
    performance = Performance()
    first = performance.told
    performance.answer(("edit", {}), reason=TOO_LONG)

    assert performance.running == []
    assert performance.told == [*first, {"type": "text", "text": SMALLER}]
    assert performance.only(AskModel).opening == OPENING


def test_a_model_that_has_no_more_room_for_an_answer_has_used_up_its_budget() -> None:
    performance = Performance()
    performance.answer(("edit", {}), reason="max_tokens")
    performance.fail(performance.only(AskModel), Broken(error="OutputLimitError", reason="128000 > 64000"))

    assert performance.standing == Exhausted("cut", "for want of room its answer was cut, times tried: 1")


def test_a_limit_of_an_answer_that_no_model_has_is_the_persons_to_set() -> None:
    performance = Performance()
    performance.fail(performance.only(AskModel), Broken(error="OutputLimitError", reason="900000 > 64000"))

    assert "model.ROLE.max_tokens" in performance.only(AskPerson).context


def test_a_conversation_whose_model_was_changed_begins_anew() -> None:
    performance = Performance()
    performance.answer(("edit", {}))
    performance.run("edited")

    performance.fail(performance.only(AskModel), Broken(error="ModelChangedError", reason="it is another now"))

    assert performance.standing == Outgrown("it is another now")


def test_a_turn_that_was_paused_goes_on_as_it_is() -> None:
    performance = Performance()

    performance.answer(text="searching …", reason="pause_turn")

    assert performance.only(AskModel).says == ""


def test_a_conversation_that_grows_too_long_begins_anew_and_what_was_counted_is_kept() -> None:
    performance = Performance()
    performance.answer(("edit", {}), tokens=200_000)
    performance.run("edited")
    assert isinstance(performance.standing, Outgrown)

    move = performance.follow(begin_anew(performance.loop, OPENING, "too long", "The plan, the diff, the findings."))

    restarted = ConversationRestarted(
        conversation="s-1.1/1/0", reason="too long", state="CODING", story="s-1", spec="todo", tokens=200_010
    )
    assert move.effects[0] == Send(to="coder.all", message=restarted, kind="EVENT")
    asked = performance.only(AskModel)
    assert (asked.opening, asked.conversation, asked.after) == (OPENING, "", "")
    assert (performance.loop.turns, performance.loop.overflows) == (1, 1)


@pytest.mark.parametrize("reason", ["model_context_window_exceeded", "compaction"])
def test_a_conversation_that_does_not_fit_again_and_again_is_given_up(reason: str) -> None:
    performance = Performance()
    for _ in range(2):
        performance.answer(text="…", reason=reason)
        assert isinstance(performance.standing, Outgrown)
        performance.follow(begin_anew(performance.loop, OPENING, "too long", "again"))

    performance.fail(performance.only(AskModel), Broken(error="ContextFullError", reason="prompt is too long"))

    assert performance.standing == Exhausted("context", "prompt is too long, for the 3th time")


# What a person or another has to settle.


def test_a_refused_key_is_an_ask_and_the_same_question_follows_the_answer() -> None:
    performance = Performance()
    asked = performance.only(AskModel)

    performance.fail(asked, Broken(error="KeyRefusedError", reason="invalid key"))
    question = performance.only(AskPerson)
    performance.finish(question, PersonAnswered(answer="try again"))

    assert question.choices == ("try again", "give up")
    assert performance.only(AskModel) == msgspec.structs.replace(asked, id="s-1.1/3/0")
    assert performance.loop.question is None


def test_a_person_who_gives_up_ends_it() -> None:
    performance = Performance()

    performance.fail(performance.only(AskModel), Broken(error="BillingError", reason="no credit"))
    performance.finish(performance.only(AskPerson), PersonAnswered(answer="give up"))

    assert isinstance(performance.standing, Stopped)
    assert performance.standing.cause.kind == "abandoned"


def test_an_answer_to_another_question_is_not_the_loops() -> None:
    performance = Performance()
    performance.fail(performance.only(AskModel), Broken(error="BillingError", reason="no credit"))
    other = AskPerson(id="s-1.1/9/0", question="Tabs or spaces?")

    event = Finished[Any, Any](at=AT, effect=other.id, result=PersonAnswered(answer="tabs"), of=other)

    assert take(performance.loop, RULES, event) is None


@pytest.mark.parametrize(("answer", "once"), [("raise", False), ("continue once", True)])
def test_a_budget_of_a_spec_is_raised_by_a_person_and_the_work_goes_on(answer: str, once: bool) -> None:
    performance = Performance()
    asked = performance.only(AskModel)

    refused = encode(Refused(scope="spec", name="todo", raised=Amount(tokens=7))).decode()
    performance.fail(asked, Broken(error="SpecBudgetError", reason="50 $ are spent", evidence=refused))
    performance.finish(performance.only(AskPerson), PersonAnswered(answer=answer))
    raised = performance.only(RaiseBudget)
    performance.finish(raised, BudgetRaised())

    assert (raised.scope, raised.name, raised.raised, raised.once) == ("spec", "todo", Amount(tokens=7), once)
    assert performance.only(AskModel).says == asked.says


@pytest.mark.parametrize(
    ("answer", "standing"),
    [("pivot", Exhausted("budget", "a person says: pivot")), ("abandon", Stopped)],
)
def test_a_budget_can_also_lead_to_a_review_or_to_the_end(answer: str, standing: Any) -> None:
    performance = Performance()

    performance.fail(performance.only(AskModel), Broken(error="DayBudgetError", reason="100 $ are spent"))
    performance.finish(performance.only(AskPerson), PersonAnswered(answer=answer))

    assert performance.standing == standing or isinstance(performance.standing, standing)


def test_the_budget_of_a_story_leads_where_the_documents_send_it() -> None:
    performance = Performance()

    performance.fail(performance.only(AskModel), Broken(error="StoryBudgetError", reason="5 $ are spent"))

    assert performance.standing == Exhausted("budget", "5 $ are spent")


def test_a_refusal_is_an_ask_and_none_of_its_calls_is_run() -> None:
    performance = Performance()

    performance.answer(("edit", {}), reason="refusal")

    assert performance.running == []
    assert performance.only(AskPerson).question.startswith("The model refuses")


def test_a_bad_request_is_ours_and_ends_in_error() -> None:
    performance = Performance()

    performance.fail(performance.only(AskModel), Broken(error="BadRequestError", reason="tools: …", evidence="400"))

    assert isinstance(performance.standing, Stopped)
    assert (performance.standing.cause.kind, performance.standing.cause.evidence) == ("effect", "400")


# Going on.


def test_feedback_answers_the_call_that_ended_the_work_before() -> None:
    performance = Performance()
    performance.answer(("done", {"summary": "it works"}))

    performance.follow(go_on(performance.loop, PURPOSE, "The tests fail.", "Mend them."))

    assert performance.told == [
        {"type": "tool_result", "tool_use_id": "s-1.1/1/0-0", "content": "The tests fail."},
        {"type": "text", "text": "callboard: role=coder state=CODING story=s-1 spec=todo"},
        {"type": "text", "text": "Mend them."},
    ]
    assert performance.loop.turns == 0


def test_an_end_that_cannot_be_accepted_is_refused_and_three_times_the_same_is_a_circle() -> None:
    performance = Performance()
    for n in range(3):
        performance.answer(("done", {"sumary": ""}))
        assert isinstance(performance.standing, Ended)
        performance.follow(refuse_end(performance.loop, RULES, performance.standing.call, "there is no sumary"))
        if n < 2:
            assert performance.told[0] | {"tool_use_id": ""} == {
                "type": "tool_result",
                "tool_use_id": "",
                "content": "there is no sumary",
                "is_error": True,
            }

    assert isinstance(performance.standing, Exhausted)


def test_what_came_of_the_calls_before_a_budget_was_used_up_is_told_when_it_goes_on() -> None:
    performance = Performance(msgspec.structs.replace(RULES, turns_max=1, closing_turns=0))
    performance.answer(("edit", {}), ("read", {}))
    performance.run("edited")
    performance.run("one line")
    assert isinstance(performance.standing, Exhausted)

    performance.follow(go_on(performance.loop, PURPOSE, "Go on."))

    assert [(block["type"], block.get("content", block.get("text"))) for block in performance.told] == [
        ("tool_result", "edited"),
        ("tool_result", "one line"),
        ("text", "callboard: role=coder state=CODING story=s-1 spec=todo"),
        ("text", "Go on."),
    ]
    assert (performance.loop.calls, performance.loop.outputs) == ((), {})


@pytest.mark.parametrize("answer", ["budget", "pivot"])
def test_what_has_no_answer_when_the_money_is_used_up_is_said_again_when_there_is_more(answer: str) -> None:
    performance = Performance()
    performance.answer(("edit", {}))
    performance.run("edited")
    error = "StoryBudgetError" if answer == "budget" else "DayBudgetError"
    performance.fail(performance.only(AskModel), Broken(error=error, reason="5 $ are spent"))
    if answer == "pivot":
        performance.finish(performance.only(AskPerson), PersonAnswered(answer="pivot"))
    assert isinstance(performance.standing, Exhausted)

    performance.follow(go_on(performance.loop, PURPOSE, "Go on."))

    assert [block["type"] for block in performance.told] == ["tool_result", "text", "text"]


def test_a_conversation_that_never_began_begins_when_there_is_money() -> None:
    performance = Performance()
    performance.fail(performance.only(AskModel), Broken(error="StoryBudgetError", reason="5 $ are spent"))

    performance.follow(go_on(performance.loop, PURPOSE, "Go on."))

    asked = performance.only(AskModel)
    assert (asked.opening, asked.conversation) == (OPENING, "")
    assert [block["text"] for block in performance.told][1::2] == ["Add a test.", "Go on."]


def test_a_call_that_was_still_running_when_the_work_was_left_is_answered_too() -> None:
    performance = Performance()
    performance.answer(("read", {}), ("edit", {}))

    performance.open.clear()
    performance.follow(go_on(performance.loop, PURPOSE, "Something else comes first."))

    assert [block.get("content") for block in performance.told][:2] == ["it was given up before it ended"] * 2


def test_what_was_told_and_not_answered_when_the_work_was_left_is_told_again_and_a_late_answer_is_none() -> None:
    performance = Performance()
    performance.answer(("edit", {}))
    performance.run("edited")
    late = performance.only(AskModel)
    performance.open.clear()

    performance.follow(go_on(performance.loop, PURPOSE, "Something else comes first."))
    told, loop = performance.told, performance.loop
    performance.open[late.id] = late
    performance.finish(late, an_answer(late, [], "end_turn"))

    assert told[0] | {"tool_use_id": ""} == {"type": "tool_result", "tool_use_id": "", "content": "edited"}
    assert performance.loop == loop


def test_a_tool_that_ends_after_the_work_was_left_asks_nothing() -> None:
    performance = Performance()
    performance.answer(("edit", {}))
    late = performance.only(RunTool)
    performance.follow(go_on(performance.loop, PURPOSE, "Something else comes first."))
    loop = performance.loop

    performance.finish(late, ToolRan(output="edited"))

    assert performance.loop == loop
    assert performance.only(AskModel)


def test_a_raise_that_comes_after_the_work_was_left_asks_nothing() -> None:
    performance = Performance()
    performance.fail(performance.only(AskModel), Broken(error="DayBudgetError", reason="100 $ are spent"))
    performance.finish(performance.only(AskPerson), PersonAnswered(answer="raise"))
    performance.follow(go_on(performance.loop, PURPOSE, "Something else comes first."))

    performance.finish(performance.only(RaiseBudget), BudgetRaised())

    assert performance.only(AskModel)


# Whatever comes.

ANSWERS = st.sampled_from(["read", "edit", "done", "merge", "talk", "cut", "pause", "full", "refuse", "both"])


@given(st.lists(st.tuples(ANSWERS, st.integers(0, 3)), max_size=60))
def test_whatever_the_model_does_the_loop_ends_and_every_call_is_answered(answers: list[tuple[str, int]]) -> None:
    """It never stands still with nothing to do, never asks twice at once, stays small, and can always go on."""
    performance = Performance()
    owed: set[str] = set()
    for answer, number in answers:
        match answer:
            case "talk" | "pause" | "full" | "cut" | "refuse":
                reasons = {"pause": "pause_turn", "full": "compaction", "cut": "max_tokens", "refuse": "refusal"}
                performance.answer(text="…", reason=reasons.get(answer, ""))
            case "both":
                owed = performance.owing(("read", {"n": number}), ("done", {}), ("edit", {"n": number}))
            case name:
                owed = performance.owing((name, {"n": number}))
        owed = set() if answer in ("talk", "pause") else owed
        while performance.running:
            performance.run(f"{number}", is_error=number == 3)
        match performance.standing:
            case Outgrown():
                owed = set()
                performance.follow(begin_anew(performance.loop, OPENING, "too long", "again"))
            case Exhausted():
                performance.follow(go_on(performance.loop, PURPOSE, "Go on."))
            case Ended(call=call):
                performance.follow(refuse_end(performance.loop, RULES, call, f"not yet {number}"))
        if not isinstance(performance.standing, Working):
            break
        for question in [each for each in performance.open.values() if isinstance(each, AskPerson)]:
            performance.finish(question, PersonAnswered(answer="try again"))
        told = {block["tool_use_id"] for block in performance.told if block["type"] == "tool_result"}
        assert told == owed
        assert len(encode(performance.loop)) < 10_000

    assert performance.loop.turns <= RULES.turns_max
    assert len(performance.open) == (1 if isinstance(performance.standing, Working) else 0)
