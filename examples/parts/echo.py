"""A part to try a rehearsal with: it says again what was said, and runs a tool if there is one.

actor rehearsal --parts examples/parts
"""

from actors.rehearsal import Answer, Call, Cue, Returned, Scene


def _run(scene: Scene) -> Answer | None:
    """None: the next part is asked."""
    if not scene.tools:
        return None
    return Answer(text="At once.", calls=(Call(scene.tools[0], {"command": scene.text.removeprefix("run ")}),))


CUES = [
    Cue(role="coder", state="PLANNING", says=Answer(thinking="A plan needs a first step.", text="1. Write the test.")),
    Cue(after=Returned(is_error=True), says=Answer(text="That did not work.")),
    Cue(after=Returned(), says=Answer(text="That worked.")),
    Cue(after=r"^run \w", says=_run),
]


def answer(scene: Scene) -> Answer:
    """Whatever is left: the same again."""
    return Answer(text=f"You said: {scene.text}")
