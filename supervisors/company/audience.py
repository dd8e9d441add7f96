"""The audience of a company: whoever wants to know how it goes."""

from bus.bus import Bus
from supervisors.core.standing import Standing


class Audience:
    """Hears what is said of the start and the end, and sees how the tree stands. Nobody may have to wait for it."""

    def say(self, text: str) -> None:
        """A sentence for a person."""

    def show(self, standing: Standing) -> None:
        """The tree stands so now."""

    def opened(self, bus: Bus) -> None:
        """The bus is there."""

    def close(self) -> None:
        """There is nothing more to hear."""
