"""The error of a call of the model, for whoever calls and whoever is called: it has the trouble in it."""

from actors.thinking.troubles import Trouble


class TroubleError(Exception):
    """A call that failed."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble
        super().__init__(str(trouble))
