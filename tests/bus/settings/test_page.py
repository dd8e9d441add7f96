"""The page of the settings."""

import re
import tomllib
from pathlib import Path

from bus.settings import (
    load,
)
from bus.settings.catalogue import SETTINGS
from bus.settings.page import render_page
from bus.settings.tree import default_tree
from bus.settings.tree_table import KEYS
from tests.bus.settings.projects import a_project


def test_the_page_has_every_setting_and_its_example_loads(tmp_path: Path) -> None:
    page = render_page()
    sample, _ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    root = a_project(tmp_path, sample)

    loaded = load({}, {}, root)

    assert all(f"| `{setting.key}` |" in page and f"`{setting.variable}`" in page for setting in SETTINGS.values())
    assert loaded.settings.bus.replicas == tomllib.loads(sample)["bus"]["replicas"]
    assert loaded.settings.bus.tls.ca == f"{root}/certificates/ca.pem"


def test_the_pages_tree_is_the_one_by_default(tmp_path: Path) -> None:
    _, tree = re.findall(r"```toml\n(.*?)```", render_page(), re.DOTALL)

    assert load({}, {}, a_project(tmp_path, tree)).settings.tree == default_tree("standard")


def test_the_page_has_every_key_of_the_tree() -> None:
    page = render_page()

    assert [key for keys in KEYS.values() for key in keys if f"| `{key}` |" not in page] == []
