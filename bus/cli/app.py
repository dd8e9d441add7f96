"""The `bus` command, to which each module adds its own."""

from bus.cli.flags import new_app

app = new_app(
    "bus",
    "Read and write what Callboard's actors say to each other.",
    "bus publish spec.md · bus -C ~/demo tail · bus verify --json",
)
