"""`supervisor settings`: each value and where it came from, without a broker."""

from pathlib import Path

from tests.bus.command import NOWHERE, Person

FILE = """\
[supervisor]
coders = 7

[bus]
url = "nats://127.0.0.1:1"
user = "demo"
password = "env:DEMO_PASSWORD"
"""
TREE = """
[tree]
strategy = "rest_for_one"

[[tree.children]]
name = "coders"
runs = "coder"
size = 2
"""


async def test_each_value_is_shown_with_its_source_and_no_secret(tmp_path: Path) -> None:
    person = Person(tmp_path, NOWHERE)
    del person.environ["NATS_URL"]
    place = person.folder / "callboard.toml"
    place.write_text(FILE)
    environ = {"DEMO_PASSWORD": "hunter2hunter2", "CALLBOARD_LOG_LEVEL": "debug"}

    done = await person.supervisor("--project", "demo", "settings", environ=environ)
    as_data = await person.supervisor("--project", "demo", "settings", "--json", environ=environ)

    shown = {line.split(" = ")[0].strip(): line.split(" = ")[1] for line in done.out.splitlines() if " = " in line}
    assert (done.code, done.err) == (0, "")
    assert shown["project"] == '"demo"  (flag --project)'
    assert shown["log_level"] == '"debug"  (CALLBOARD_LOG_LEVEL)'
    assert shown["supervisor.coders"] == f"7  ({place}:2)"
    assert shown["supervisor.attempts_max"] == "3  (default)"
    assert shown["bus.password"] == f'"env:DEMO_PASSWORD"  ({place}:7)'
    assert "hunter2" not in done.out + as_data.out
    values = {each["key"]: (each["value"], each["source"]) for each in as_data.data}
    assert values["supervisor.coders"] == (7, f"{place}:2")
    assert [child["name"] for child in values["tree"][0]["children"]] == ["broker", "health", "agents", "coders", "web"]
    assert values["tree"][1] == "default"


async def test_a_tree_of_ones_own_is_shown_as_it_is_written(tmp_path: Path) -> None:
    person = Person(tmp_path, NOWHERE)
    place = person.folder / "callboard.toml"
    place.write_text(TREE)

    done = await person.supervisor("settings")

    assert done.out.partition("# the tree ")[2] == f"({place}:2)\n{TREE.strip()}\n"


async def test_wrong_settings_are_told_as_by_every_command(tmp_path: Path) -> None:
    person = Person(tmp_path, NOWHERE)
    (person.folder / "callboard.toml").write_text("[supervisor]\ncodrs = 1\n")

    done = await person.supervisor("settings")

    assert (done.code, done.out) == (2, "")
    assert "did you mean supervisor.coders?" in done.err
