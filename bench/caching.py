"""What of the prompts of a coding conversation is read from the cache, by the rehearsal server's own accounting.

The transcript is stated: thirty turns of a coder who reads, edits and tests, with the sizes below. It is said three
times by the real client: with our marks for the cache, with the API's automatic mark alone, and with none.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

import msgspec

from actors.claude.client import CallLimits, Claude
from actors.claude.providers import Provider
from actors.rehearsal.parts import Answer, Call, Cue
from actors.rehearsal.scene import Scene
from actors.rehearsal.server import Rehearsal
from actors.thinking.conversation import (
    Conversation,
    calls_in,
    render,
    render_tools,
    result_block,
    text_block,
    with_turn,
)
from actors.thinking.effects import AskModel, ModelAnswered, Opening, Purpose
from actors.thinking.request import Profile, request_of
from bench.measures import Result, judge
from bench.rounds import Comparison
from bus.ledger import Usage, load_prices
from bus.ledger.amounts import MICRODOLLARS

TURNS = 30
MANY = 14
"""So many files one turn reads at once: more blocks than the cache looks back over from one mark."""
MODEL = "claude-sonnet-5-5"
DAY = date(2026, 11, 1)
CALL_SECONDS = 30.0
PURPOSE = Purpose(role="coder", state="CODING", story="s-1", spec="todo")

# The sizes, in bytes; the rehearsal counts four for a token.
SYSTEM_BYTES = 8_000
REPOSITORY_MAP_BYTES = 6_000
STORY_BYTES = 3_000
THINKING_BYTES = 600
FILE_BYTES = 6_000
EDIT_BYTES = 1_600
TESTS_BYTES = 2_400

READS_TARGET_PERCENT = 90.0
IDEAL_TARGET = 1.05
"""How much of what could be read at best may be missed, in reads and in dollars."""
OFF_TARGET = 0.25
"""What caching must bring the price of the prompts down to."""

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}
TOOLS = ("read", "edit", "run_tests", "done", "search", "list", "ask_question", "todo")
OPENING = Opening(
    system=("You are a coder. ".ljust(SYSTEM_BYTES, "r"), "The repository: ".ljust(REPOSITORY_MAP_BYTES, "m")),
    tools=render_tools((name, f"What {name} is for. ".ljust(400, "d"), SCHEMA) for name in TOOLS),
)
OUTPUT_BYTES = {"read": FILE_BYTES, "edit": 80, "run_tests": TESTS_BYTES}

replace = msgspec.structs.replace

Request = dict[str, Any]
Policy = Callable[[Request], Request]


class Prompts(NamedTuple):
    """The prompts of a conversation, as they were accounted."""

    usages: tuple[Usage, ...]

    @property
    def reads_percent(self) -> float:
        """How much of them was read from the cache."""
        return 100 * sum(usage.cache_read_tokens for usage in self.usages) / self.tokens

    @property
    def tokens(self) -> int:
        """All of them together."""
        return sum(usage.prompt_tokens for usage in self.usages)

    @property
    def dollars(self) -> float:
        """What they cost, without the answers, which are the same however prompts are cached."""
        prompts = (replace(usage, output_tokens=0) for usage in self.usages)
        return sum(load_prices().price_of(MODEL, prompt, DAY).microdollars for prompt in prompts) / MICRODOLLARS


def measure_caching() -> dict[str, Result]:
    """Our marks beside the ideal, beside the API's automatic mark, and beside no caching."""
    ours, automatic, off = asyncio.run(_measure())
    ideal = _ideal(ours)
    return {
        "prompt_cache_reads_percent": _figure(ours.reads_percent, READS_TARGET_PERCENT / ours.reads_percent, 1.0),
        "prompt_cache_reads_ideal_percent": _figure(
            ideal.reads_percent, ideal.reads_percent / ours.reads_percent, IDEAL_TARGET
        ),
        "prompt_cache_reads_off_percent": _figure(off.reads_percent, off.reads_percent / ours.reads_percent, 0.0),
        "prompt_dollars_vs_ideal": _figure(ours.dollars, ours.dollars / ideal.dollars, IDEAL_TARGET),
        "prompt_dollars_vs_automatic_mark": _figure(ours.dollars, ours.dollars / automatic.dollars, 1.0),
        "prompt_dollars_vs_no_caching": _figure(ours.dollars, ours.dollars / off.dollars, OFF_TARGET),
    }


def _figure(value: float, ratio: float, target: float) -> Result:
    return judge(Comparison(seconds=value / 1000, ratio=ratio), target)


async def _measure() -> tuple[Prompts, Prompts, Prompts]:
    return await _say(lambda request: request), await _say(_automatically), await _say(_unmarked)


async def _say(policy: Policy) -> Prompts:
    """The whole transcript, said before a rehearsal of its own."""
    conversation, says, after, usages = Conversation(OPENING), _first(), "", []
    claude = Claude(CallLimits(5.0, CALL_SECONDS))
    async with Rehearsal([Cue(says=_turn)]) as rehearsal:
        for number in range(TURNS):
            request = policy(request_of(conversation, says, Profile(model=MODEL, max_tokens=16_000), after, 16_000))
            heard = await claude.call(Provider(url=rehearsal.url, key="bench"), request, CALL_SECONDS)
            usages.append(heard.usage)
            asked = AskModel(id=f"bench/{number + 1}/0", purpose=PURPOSE, says=says)
            answer = ModelAnswered(
                conversation="bench/1/0",
                position=1,
                message=heard.message,
                model=heard.model,
                stop_reason=heard.stop_reason,
                content=heard.content,
                usage=heard.usage,
            )
            conversation, after = with_turn(conversation, asked, answer), heard.message
            says = render(*(result_block(call.id, _output(call.name, call.input)) for call in calls_in(heard.content)))
        await claude.close()
    return Prompts(tuple(usages))


def _first() -> str:
    return render(text_block("callboard: role=coder state=CODING"), text_block("The story. ".ljust(STORY_BYTES, "s")))


def _turn(scene: Scene) -> Answer:
    """What the coder does in each turn: look around once, then read, edit and test in turn."""
    number = scene.turns
    thinking = f"Turn {number}. ".ljust(THINKING_BYTES, "t")
    if number == 0:
        return Answer(thinking=thinking, calls=tuple(Call("read", {"path": f"file-{n}"}) for n in range(MANY)))
    match number % 3:
        case 1:
            return Answer(thinking=thinking, calls=(Call("edit", {"path": "a", "text": "e" * EDIT_BYTES}),))
        case 2:
            return Answer(thinking=thinking, calls=(Call("run_tests"),))
        case _:
            return Answer(thinking=thinking, calls=(Call("read", {"path": f"{number}"}), Call("read", {"path": "b"})))


def _output(tool: str, arguments: str) -> str:
    return f"{json.loads(arguments).get('path', tool)} ".ljust(OUTPUT_BYTES[tool], "o")


def _automatically(request: Request) -> Request:
    """As the API does it by itself: one mark, at the end."""
    return _unmarked(request) | {"cache_control": {"type": "ephemeral"}}


def _unmarked(request: Request) -> Request:
    bare = {name: request[name] for name in request if name not in ("system", "tools", "messages")}
    messages = [message | {"content": _bare(message["content"])} for message in request["messages"]]
    return bare | {"system": _bare(request["system"]), "tools": _bare(request["tools"]), "messages": messages}


def _bare(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: block[name] for name in block if name != "cache_control"} for block in blocks]


def _ideal(prompts: Prompts) -> Prompts:
    """Each token of a prompt written once, at the lower price, and read ever after."""
    before, usages = 0, []
    for usage in prompts.usages:
        usages.append(Usage(cache_read_tokens=before, cache_write_5m_tokens=usage.prompt_tokens - before))
        before = usage.prompt_tokens
    return Prompts(tuple(usages))
