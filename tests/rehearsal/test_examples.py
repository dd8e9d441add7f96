"""What the documents show does what they say."""

import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

import actors.rehearsal
from actors.rehearsal import Rehearsal, read_parts
from actors.rehearsal.faults import Fault, Kind
from tests.rehearsal.company import TOOL, ask, result, spoken, user

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rehearsal.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NAMES = {name: getattr(actors.rehearsal, name) for name in actors.rehearsal.__all__}


async def test_the_context_of_the_page_runs() -> None:
    names: dict[str, Any] = NAMES | {"AsyncAnthropic": AsyncAnthropic}
    code = f"async def run():\n{textwrap.indent(SHOWN[0], '    ')}"

    exec(code, names)

    await names["run"]()


async def test_the_part_of_the_page_plays(tmp_path: Path, connect: Callable[..., AsyncAnthropic]) -> None:
    (tmp_path / "coder.py").write_text(SHOWN[1])
    tools = [TOOL | {"name": "run_tests"}, TOOL | {"name": "submit"}]
    coding = ask("callboard: role=coder state=CODING", tools=tools)
    async with Rehearsal(tmp_path) as rehearsal:
        client = connect(rehearsal)
        pm: Any = await client.messages.create(**ask("a shop\ncallboard: role=pm"))
        plan: Any = await client.messages.create(**ask("callboard: role=coder state=PLANNING"))
        messages, said = coding["messages"], []
        for back in ("1 failed", None, "2 passed", None):
            message: Any = await client.messages.create(**coding | {"messages": messages})
            last = message.content[-1]
            said.append(last.name if last.type == "tool_use" else last.text)
            spoke = user(result(last.id, back)) if back else user("Go on.")
            messages = [*messages, spoken(message), spoke]
            if message.stop_reason == "tool_use" and last.name == "submit":
                break

    assert pm.content[0].text.startswith("You want: a shop")
    assert plan.content[-1].text == "1. Write the test."
    assert said == ["run_tests", "Not yet.", "run_tests", "submit"]


def test_the_page_names_every_fault_and_each_of_its_fields() -> None:
    missing = [kind for kind in Kind.__args__ if f"`{kind}`" not in PAGE]  # type: ignore[attr-defined]  # of a Literal
    missing += [name for name in Fault.__struct_fields__ if f"`{name}`" not in PAGE and name != "kind"]

    assert missing == []


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("hello", "You said: hello"),
        ("callboard: role=coder state=PLANNING", "1. Write the test."),
        ("run ls", "At once."),
    ],
)
async def test_the_example_answers(connect: Callable[..., AsyncAnthropic], said: str, answered: str) -> None:
    async with Rehearsal(read_parts(ROOT / "examples" / "parts")) as rehearsal:
        client = connect(rehearsal)
        message: Any = await client.messages.create(**ask(said, tools=[TOOL]))
        texts = [block.text for block in message.content if block.type == "text"]
        if message.stop_reason == "tool_use":
            back = user(result(message.content[-1].id, is_error=True))
            after: Any = await client.messages.create(
                **ask(tools=[TOOL]) | {"messages": [user(said), spoken(message), back]}
            )
            texts.append(after.content[-1].text)

    assert texts in ([answered], [answered, "That did not work."])


def test_the_server_does_not_know_the_sdk() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "actors" / "rehearsal").rglob("*.py")]

    assert anthropic.__name__ == "anthropic"
    assert not any(re.search(r"^\s*(import|from) anthropic", source, re.MULTILINE) for source in sources)
