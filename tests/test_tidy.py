"""What the repository's shape promises: layers, and a protocol without effects."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["protocol", "bus", "actors", "supervisors"]
# What would let the outside in: input and output, clocks, randomness, processes, logs.
IMPURE = frozenset(
    [
        "asyncio",
        "concurrent",
        "datetime.now",
        "http",
        "io",
        "logging",
        "multiprocessing",
        "nats",
        "os",
        "pathlib",
        "random",
        "secrets",
        "shutil",
        "signal",
        "socket",
        "ssl",
        "subprocess",
        "structlog",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
        "uvloop",
    ]
)
IMPURE_CALLS = frozenset({"open", "print", "input", "eval", "exec"})


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            yield node.module or ""


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_imports_only_to_its_left(package: str) -> None:
    forbidden = set(LAYERS[LAYERS.index(package) + 1 :])

    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] in forbidden | {"tests", "bench", "tools"}
    ]

    assert offences == []
    assert modules(package)


def test_only_one_module_knows_the_sdk_of_the_model() -> None:
    knowing = [
        str(path.relative_to(ROOT))
        for package in LAYERS
        for path in modules(package)
        if any(name.split(".")[0] == "anthropic" for name in imported(path))
    ]

    assert knowing == ["actors/claude/client.py"]


@pytest.mark.parametrize("package", ["protocol", "actors/core", "actors/thinking", "supervisors/core"])
def test_what_is_pure_has_no_effects(package: str) -> None:
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] in IMPURE
    ]
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
                offences.append(f"{path.relative_to(ROOT)}:{node.lineno} calls {node.func.id}")
            if isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}:
                offences.append(f"{path.relative_to(ROOT)}:{node.lineno} reads a clock")

    assert offences == []
    assert modules(package)


def test_only_one_module_spells_subjects() -> None:
    """A subject of ours begins with `callboard.`; only protocol/subjects.py writes that in a string."""
    offences = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in LAYERS
        for path in modules(package)
        if path != ROOT / "protocol/subjects.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith(("callboard.", "$KV.", "$O."))
        and node.value != "callboard.toml"
        and " " not in node.value
    ]

    assert offences == []


def test_agents_know_no_nats() -> None:
    offences = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in ("actors", "supervisors")
        for path in modules(package)
        for name in imported(path)
        if name.split(".")[0] == "nats"
    ]

    assert offences == []
