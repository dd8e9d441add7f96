"""A company for the tests: parts that say what their conversation asks for, and requests in short."""

from typing import Any

from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

from actors.rehearsal import Answer, Call, Cue, Rehearsal, Returned, Scene

MODEL = "claude-sonnet-5-5"
TOOL = {
    "name": "run",
    "description": "Run a command.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
OTHER = TOOL | {"name": "read"}
Body = dict[str, Any]


class Clock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def _think(scene: Scene) -> Answer:
    return Answer(thinking=f"I hear {len(scene.text)} letters.", text="Ready.", calls=(Call("run", {"command": "ls"}),))


PARTS = [
    Cue(after="^think", says=_think),
    Cue(after="^both", says=Answer(calls=(Call("run", {"command": "a"}), Call("read", {"command": "b"})))),
    Cue(after="^refuse", says=Answer(text="No.", stop_reason="refusal", category="cyber")),
    Cue(after="^pause", says=Answer(text="One moment.", stop_reason="pause_turn")),
    Cue(after="^long", says=Answer(text="one two three four five six seven eight nine ten")),
    Cue(after="^write", says=Answer(text="So.", calls=(Call("run", {"command": "ls", "text": "x" * 400}),))),
    Cue(after=Returned(is_error=True), says=Answer(text="That failed.")),
    Cue(after=Returned(tool="run"), says=Answer(thinking="It came back.", text="Done.")),
    Cue(turns=0, says=lambda scene: Answer(text=f"You said: {scene.text[-40:]}") if scene.text != "silence" else None),
    Cue(says=lambda scene: Answer(text=f"Turn {scene.turns}.") if scene.text != "silence" else None),
]


def client_of(rehearsal: Rehearsal, key: str = "key", seconds: float = 30.0) -> AsyncAnthropic:
    """The SDK as it is, but for its own retries, and for certificates, which take 80 ms to read."""
    plain = DefaultAsyncHttpxClient(verify=False)
    return AsyncAnthropic(base_url=rehearsal.url, api_key=key, max_retries=0, timeout=seconds, http_client=plain)


def ask(text: str = "hello", **more: Any) -> Body:
    """A request that says one thing."""
    return {"model": MODEL, "max_tokens": 1000, "messages": [user(text)], **more}


def user(*content: Any) -> Body:
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]}


def assistant(*content: Any) -> Body:
    return user(*content) | {"role": "assistant"}


def text(said: str, **more: Any) -> Body:
    return {"type": "text", "text": said, **more}


def call(identifier: str = "toolu_1", name: str = "run", **more: Any) -> Body:
    return {"type": "tool_use", "id": identifier, "name": name, "input": {"command": "ls"}, **more}


def result(identifier: str = "toolu_1", content: Any = "fine", **more: Any) -> Body:
    return {"type": "tool_result", "tool_use_id": identifier, "content": content, **more}


def spoken(message: Any) -> Body:
    """An answer as it is sent back."""
    return {"role": "assistant", "content": message.model_dump(exclude_unset=True)["content"]}


async def stream(client: AsyncAnthropic, body: Body) -> Any:
    """The whole of a streamed answer."""
    async with client.messages.stream(**body) as streamed:
        return await streamed.get_final_message()


async def post(client: AsyncAnthropic, body: Any, path: str = "/v1/messages") -> Any:
    """A request as it is, past what the SDK would not send."""
    return await client.post(path, body=body, cast_to=dict[str, Any])
