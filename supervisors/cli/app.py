"""The `supervisor` command, to which each module adds its own."""

from bus.cli.flags import new_app

app = new_app(
    "supervisor",
    "Start the company, see how it is, and steer it.",
    "supervisor up · supervisor status · supervisor why coder-1 · supervisor restart coder",
)
