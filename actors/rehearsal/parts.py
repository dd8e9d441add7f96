"""Parts: how a role answers, by what its conversation contains. Pure.

A part is a cue, or a function of the scene. Neither counts calls, so an answer is the same after a restart in the
middle, and after any number of retries.
"""

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from actors.rehearsal.errors import BadPartError, NoCueError
from actors.rehearsal.prompt import Json, Prompt
from actors.rehearsal.scene import Scene, ToolResult, tell

StopReason = Literal[
    "", "end_turn", "tool_use", "pause_turn", "refusal", "max_tokens", "stop_sequence", "model_context_window_exceeded"
]
RefusalCategory = Literal["", "cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms"]


class Call(msgspec.Struct, frozen=True):
    """One call of a tool."""

    name: str
    input: Mapping[str, Any] = {}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says: its thinking, then text, then calls.

    `stop_reason` follows from the rest unless it is given; `category` is that of a refusal.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    stop_reason: StopReason = ""
    category: RefusalCategory = ""

    def __post_init__(self) -> None:
        """What no model says is found when the part is read."""
        if self.stop_reason not in get_args(StopReason):
            raise BadPartError(f"there is no stop reason {self.stop_reason!r}")
        if self.category not in get_args(RefusalCategory):
            raise BadPartError(f"there is no category {self.category!r} of a refusal")
        if self.category and self.stop_reason != "refusal":
            raise BadPartError("only a refusal has a category")
        if self.calls and self.stop_reason in ("end_turn", "pause_turn", "stop_sequence"):
            raise BadPartError(f"an answer with calls does not stop by {self.stop_reason}")
        if self.stop_reason == "tool_use" and not self.calls:
            raise BadPartError("an answer that stops by tool_use has calls")


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    """Holds when such a result has just come: of this tool, with such a text (a pattern to search for)."""

    tool: str = ""
    text: str = ""
    is_error: bool | None = None
    input: Mapping[str, Any] = {}
    """What its call had, among other things."""

    def fits(self, result: ToolResult) -> bool:
        """Whether a result is such a one."""
        return (
            self.tool in ("", result.name)
            and self.is_error in (None, result.is_error)
            and re.search(self.text, result.text) is not None
            and all(name in result.input and result.input[name] == value for name, value in self.input.items())
        )


class Cue(msgspec.Struct, frozen=True, kw_only=True):
    """When to say what; whatever is left out fits always.

    `after` is a pattern to search for in what the user has just said, or a result that has just come; `turns` is how
    often the assistant has spoken before.
    """

    says: Answer | Callable[[Scene], Answer | None]
    role: str = ""
    state: str = ""
    story: str = ""
    session: str = ""
    model: str = ""
    after: str | Returned | None = None
    turns: int | None = None

    def __call__(self, scene: Scene) -> Answer | None:
        """The answer, if this is the cue for it."""
        if not self._fits(scene):
            return None
        return self.says if isinstance(self.says, Answer) else self.says(scene)

    def _fits(self, scene: Scene) -> bool:
        return (
            self.role in ("", scene.role)
            and self.state in ("", scene.state)
            and self.story in ("", scene.story)
            and self.session in ("", scene.session)
            and self.model in ("", scene.model)
            and self.turns in (None, scene.turns)
            and self._follows(scene)
        )

    def _follows(self, scene: Scene) -> bool:
        match self.after:
            case None:
                return True
            case Returned() as returned:
                return any(returned.fits(result) for result in scene.results)
            case pattern:
                return bool(scene.text) and re.search(pattern, scene.text) is not None


Part = Cue | Callable[[Scene], Answer | None]


def perform(parts: Sequence[Part], prompt: Prompt, scene: Scene) -> Answer:
    """The answer of the first part that has one; NoCueError with the conversation if none has."""
    for part in parts:
        answer = _ask(part, scene)
        if answer is not None:
            _check(answer, scene, prompt.body.get("tool_choice") or {})
            return answer
    raise NoCueError(whose(scene), tell(prompt))


def _ask(part: Part, scene: Scene) -> Answer | None:
    try:
        return part(scene)
    except BadPartError:
        raise
    except Exception as error:  # whatever somebody's function does
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        raise BadPartError(f"a part failed for {whose(scene)}: {reason}") from error


def whose(scene: Scene) -> str:
    """Where a conversation stands, in one line."""
    words: Json = {"role": scene.role, "story": scene.story, "session": scene.session, "state": scene.state}
    said = [f"{name}={value}" for name, value in words.items() if value] or ["an unnamed role"]
    after = ", ".join(f"{each.name} returned{' an error' if each.is_error else ''}" for each in scene.results)
    return f"{' '.join(said)} after {after or repr(scene.text[-80:])} (turn {scene.turns})"


def _check(answer: Any, scene: Scene, choice: Json) -> None:
    if not isinstance(answer, Answer):
        raise BadPartError(f"a part answers {whose(scene)} with a {type(answer).__name__}, no Answer")
    for call in answer.calls:
        if call.name not in scene.tools:
            there = ", ".join(scene.tools) or "none"
            raise BadPartError(f"a part for {whose(scene)} calls {call.name!r}, and the tools are: {there}")
    names = {call.name for call in answer.calls}
    wanted = choice.get("type", "auto")
    if wanted == "none" and names:
        raise BadPartError(f"a part for {whose(scene)} calls a tool, and tool_choice is none")
    forced = {choice["name"]} if wanted == "tool" else names if wanted == "any" else None
    if forced is not None and not answer.stop_reason and (names != forced or not names):
        raise BadPartError(f"a part for {whose(scene)} does not call what tool_choice wants")
