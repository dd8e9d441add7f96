"""Where the state of a project lives."""

import hashlib
import os
from pathlib import Path

import pytest

from bus.settings import (
    StateFolderError,
    make_state_folder,
    state_folder,
)
from tests.bus.settings.projects import a_project


def test_the_state_folder_is_under_xdg_by_project_and_path(tmp_path: Path) -> None:
    root = Path("/work-tree/demo")
    digest = hashlib.sha256(b"/work-tree/demo").hexdigest()[:8]

    by_home = state_folder("demo", root, "", {"HOME": "/home/me"})
    by_xdg = state_folder("demo", root, "", {"HOME": "/home/me", "XDG_STATE_HOME": "/xdg"})
    by_relative_xdg = state_folder("demo", root, "", {"HOME": "/home/me", "XDG_STATE_HOME": "xdg"})
    chosen = state_folder("demo", root, "/chosen", {})

    assert by_home == by_relative_xdg == Path(f"/home/me/.local/state/callboard/demo-{digest}")
    assert by_xdg == Path(f"/xdg/callboard/demo-{digest}")
    assert chosen == Path("/chosen")


def test_two_checkouts_of_one_project_have_two_state_folders() -> None:
    environ = {"HOME": "/home/me"}

    assert state_folder("demo", Path("/a"), "", environ) != state_folder("demo", Path("/b"), "", environ)


def test_without_a_home_there_is_no_default() -> None:
    with pytest.raises(StateFolderError, match="set CALLBOARD_STATE_FOLDER"):
        state_folder("demo", Path("/demo"), "", {})


@pytest.mark.parametrize("folder", ["/demo", "/demo/state", "/demo/a/../state", "/x/../demo/state"])
def test_a_state_folder_in_the_project_is_refused(folder: str) -> None:
    with pytest.raises(StateFolderError, match="is inside the project /demo"):
        state_folder("demo", Path("/demo"), folder, {})


def test_a_folder_beside_the_project_is_no_folder_in_it() -> None:
    assert state_folder("demo", Path("/demo"), "/demo-state", {}) == Path("/demo-state")
    assert state_folder("demo", Path("/demo"), "/demo/../state", {}) == Path("/demo/../state")


def test_a_home_that_is_itself_the_project_is_refused_with_the_way_out() -> None:
    with pytest.raises(StateFolderError, match="set state_folder"):
        state_folder("me", Path("/home/me"), "", {"HOME": "/home/me"})


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_state_folder_and_its_new_parents_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    root = a_project(tmp_path)
    folder = tmp_path / "new" / "callboard" / "demo"
    before = os.umask(umask)
    try:
        made = make_state_folder(folder, root)
        again = make_state_folder(folder, root)
    finally:
        os.umask(before)

    assert made == again == folder
    assert [each.stat().st_mode & 0o777 for each in (folder, folder.parent, folder.parent.parent)] == [0o700] * 3


@pytest.mark.parametrize("environ", [{}, {"HOME": "me"}, {"HOME": "", "XDG_STATE_HOME": "state"}])
def test_a_home_that_is_none_is_told(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(StateFolderError, match="needs XDG_STATE_HOME or HOME, and neither is an absolute path; set"):
        state_folder("demo", tmp_path, "", environ)


def test_an_open_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)

    with pytest.raises(StateFolderError, match=r"is open to others \(mode 0755\); run: chmod 700"):
        make_state_folder(folder, root)

    assert folder.stat().st_mode & 0o777 == 0o755


def test_links_do_not_lead_the_state_into_the_project(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    (tmp_path / "innocent").symlink_to(root)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    with pytest.raises(StateFolderError, match="is inside the project"):
        make_state_folder(tmp_path / "innocent" / "state", root)
    with pytest.raises(StateFolderError, match="cannot be"):
        make_state_folder(tmp_path / "circle" / "state", root)
    assert list(root.iterdir()) == [root / "callboard.toml"]


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    root = a_project(tmp_path)
    (tmp_path / "taken").touch()

    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(StateFolderError, match="cannot be made"):
            make_state_folder(folder, root)
