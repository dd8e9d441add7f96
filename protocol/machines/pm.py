"""The PM: interviews the person, drafts the spec, and hands it to the architect until it is approved."""

from protocol.machine import Machine

PM = Machine(
    name="pm",
    purpose="Interviews the person, drafts a spec from what was said, and submits it to the architect.",
    initial="WAITING",
    states={
        "WAITING": "Waits for someone to interview, a finished spec, or the architect's verdict on one.",
        "INTERVIEWING": "Talks with the person about what is wanted.",
        "DRAFTING": "Writes the spec from the conversation.",
        "SUBMITTING": "Checks the spec and sends it to the architect.",
        "DONE": "Shut down; the session is over.",
        "ERROR": "Something failed for good; resets itself to WAITING.",
    },
    edges={
        "WAITING": {
            "INTERVIEWING": "interview requested · architect wants changes",
            "SUBMITTING": "spec file uploaded",
            "DONE": "shutdown",
        },
        "INTERVIEWING": {
            "DRAFTING": "interview complete (turn limit, or the person is done)",
            "ERROR": "unrecoverable error",
            "DONE": "shutdown",
        },
        "DRAFTING": {
            "SUBMITTING": "draft written",
            "INTERVIEWING": "draft needs refinement",
            "ERROR": "unrecoverable error",
            "DONE": "shutdown",
        },
        "SUBMITTING": {"WAITING": "spec submitted to the architect", "ERROR": "validation failed", "DONE": "shutdown"},
        "DONE": {},
        "ERROR": {"WAITING": "reset", "DONE": "shutdown"},
    },
    ways_to_error={"WAITING": "INTERVIEWING"},  # SUBMITTING is as near, but there is no spec to submit.
)
