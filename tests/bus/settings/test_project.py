"""The file, its paths, and which folder is the project."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bus.settings import (
    Loaded,
    SettingsError,
    find_root,
    load,
    project_name,
)
from bus.settings.catalogue import SETTINGS, TREE
from bus.settings.folders import PROJECT_PATTERN
from bus.settings.model import Settings
from bus.settings.toml_file import FILE_BYTES_MAX
from tests.bus.settings.projects import a_project, refused


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"a = 1\nb = = 2\n", ":2", "is not valid TOML: Invalid value"),
        (b"a = 1\na = 2\n", ":2", "is not valid TOML: Cannot overwrite a value"),
        (b"a = 1\n\nb = [\n\n", ":3", "is not valid TOML: "),
        (b"a = 1\n# caf\xe9\n", ":2", "is not UTF-8 text"),
        (bytes(range(256)), ":2", "is not UTF-8 text"),
        (b"a = " + b"[" * 100_000, "", "is nested too deeply"),
        (b"a = " + b"9" * 5_000, "", "is not valid TOML"),
    ],
)
def test_a_file_that_is_no_toml_is_told_with_its_line(tmp_path: Path, content: bytes, line: str, what: str) -> None:
    root = a_project(tmp_path, content)

    [problem] = refused(root)

    assert problem.startswith(f"{root}/callboard.toml{line} ")
    assert what in problem


NOBODY = 65534


def test_a_file_over_the_limit_is_not_read_whole(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    os.truncate(root / "callboard.toml", 50_000_000)

    assert refused(root) == [f"{root}/callboard.toml is over {FILE_BYTES_MAX} bytes; keep only settings in it"]


def test_a_file_of_just_the_limit_is_read(tmp_path: Path) -> None:
    root = a_project(tmp_path, "# " + "x" * (FILE_BYTES_MAX - 2))

    assert load({}, {}, root).settings.project == "demo"


def test_a_folder_called_like_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "callboard.toml").mkdir()

    [problem] = refused(tmp_path)

    assert problem.startswith(f"{tmp_path}/callboard.toml is ")


def test_a_named_pipe_and_links_to_nowhere_are_told_and_not_waited_for(tmp_path: Path) -> None:
    pipe, dangling, circle = tmp_path / "pipe", tmp_path / "dangling", tmp_path / "circle"
    for folder in (pipe, dangling, circle):
        folder.mkdir()
    os.mkfifo(pipe / "callboard.toml")
    (dangling / "callboard.toml").symlink_to("nowhere")
    (circle / "callboard.toml").symlink_to("callboard.toml")

    assert "is not a file" in refused(pipe)[0]
    for folder in (dangling, circle):
        expected = f"{folder}/callboard.toml is a link that leads nowhere; mend the link, or remove it"
        assert refused(folder) == [expected]


@contextmanager
def without_the_rights_of_root() -> Iterator[None]:
    """Root may read everything, so it becomes nobody for a moment."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_that_may_not_be_read_is_told() -> None:
    with tempfile.TemporaryDirectory() as folder:  # unlike tmp_path, in folders that nobody may enter
        root = a_project(Path(folder))
        Path(folder).chmod(0o755)
        (root / "callboard.toml").chmod(0)

        with without_the_rights_of_root():
            told = refused(root)

    assert "cannot be read (Permission denied)" in told[0]


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    root = a_project(tmp_path, b"\xef\xbb\xbfproject = 'marked'")

    assert load({}, {}, root).settings.project == "marked"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(content=b"a.b.c=1\n[a.d]\n[[x]]\n[[x]]\ny={}")
@example(content=b"'' = 1")
@example(content=b"bus=[{url=1}]")
@example(content=b"[tree]\n[[tree.children]]\nname=[1]\nx=nan\n[[tree.children.children]]\n''=1")
@example(content=b"[[tree.children]]\nruns=[['coder']]\nname={}\nid=1979-05-27\nsize=9e99\nrestart='\\u001b'")
@example(content=b".".join([b"a"] * 5000) + b" = 1")
@example(content=b"bus.url = '''\n''''' \n[ server ]\nport = 1979-05-27")
def test_no_file_whatever_makes_the_loader_raise_anything_but_its_own_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "callboard.toml").write_bytes(content)

    try:
        settled = load({}, {}, tmp_path).settings
    except SettingsError:
        return
    assert re.search(PROJECT_PATTERN, settled.project)


def test_paths_start_at_the_file_or_at_the_working_folder_and_know_home(tmp_path: Path) -> None:
    root = a_project(tmp_path, '[bus]\ntls.ca = "ca.pem"\ncredentials = "~/me.creds"')
    below = root / "below"
    below.mkdir()

    bus = load(
        {"bus.tls.cert": "../cert.pem"}, {"HOME": "/home/me", "CALLBOARD_BUS_TLS_KEY": "key.pem"}, below
    ).settings.bus

    assert bus.credentials == "/home/me/me.creds"
    assert (bus.tls.ca, bus.tls.cert, bus.tls.key) == (
        f"{root}/ca.pem",
        f"{below}/../cert.pem",
        f"{below}/key.pem",
    )


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        (["callboard.toml", "a/.git/", "a/b/.git/"], "."),
        (["callboard.toml", "a/callboard.toml"], "a"),
        (["a/b/c/callboard.toml", ".git/"], "a/b/c"),
        ([".git/"], "."),
        ([".git/", "a/b/.git"], "a/b"),
        ([], "a/b/c"),
    ],
)
def test_the_root_is_the_nearest_with_settings_else_the_nearest_with_git_else_the_start(
    tmp_path: Path, marks: list[str], expected: str
) -> None:
    start = tmp_path / "a" / "b" / "c"
    start.mkdir(parents=True)
    for mark in marks:
        (tmp_path / mark).mkdir() if mark.endswith("/") else (tmp_path / mark).touch()

    assert find_root(start) == (tmp_path / expected).resolve()


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("demo", "demo"),
        ("My App!", "my-app"),
        ("_x.y_", "x-y"),
        ("Zürich Café", "zurich-cafe"),
        ("日本", "project"),
        ("", "project"),
        ("a" * 31 + "-b", "a" * 31),
    ],
)
def test_a_folders_name_becomes_the_projects(folder: str, name: str) -> None:
    assert project_name(folder) == name


@given(text=st.text())
def test_every_name_that_is_made_is_valid_and_stays_as_it_is(text: str) -> None:
    name = project_name(text)

    assert re.search(PROJECT_PATTERN, name)
    assert project_name(name) == name


def test_without_a_file_the_folder_names_the_project(tmp_path: Path) -> None:
    root = a_project(tmp_path, None)

    loaded = load({}, {}, root)

    assert loaded == Loaded(
        settings=Settings(project="demo"),
        sources=dict.fromkeys([*SETTINGS, TREE], "default"),
        root=root.resolve(),
        file=None,
    )
