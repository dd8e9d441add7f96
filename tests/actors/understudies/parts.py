"""The understudies as parts, for whatever world outside a test has."""

from functools import partial

from actors.hosting.part import Part
from protocol.messages import Envelope, InterviewRequest, SpecUpload
from tests.actors.understudies.architect import ARCHITECT
from tests.actors.understudies.coder import CODER
from tests.actors.understudies.outside import Outside, executors_of
from tests.actors.understudies.pm import PM


def parts(outside: Outside) -> dict[str, Part]:
    """By machine."""
    executors = partial(executors_of, outside)
    return {
        "coder": Part(behaviour=CODER, hosting="each", executors=executors),
        "architect": Part(behaviour=ARCHITECT, hosting="one", executors=executors),
        "pm": Part(behaviour=PM, hosting="many", executors=executors, route=_interview_of),
    }


def _interview_of(envelope: Envelope) -> str | None:
    match envelope.payload:
        case InterviewRequest(interview=name) | SpecUpload(spec=name):
            return name
        case _:
            return None
