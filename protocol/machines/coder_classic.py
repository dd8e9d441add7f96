"""The classic edition's coder: questions are a state, and rework has one of its own, FIXING."""

from protocol.machine import Machine

CODER_CLASSIC = Machine(
    name="coder-classic",
    purpose="Takes one story from plan to merge, reworks in FIXING, and checks in when an iteration budget runs out.",
    initial="WAITING",
    states={
        "WAITING": "Has no story yet.",
        "SETUP": "Makes a worktree and the story's branch.",
        "PLANNING": "Works out how the story is to be done.",
        "PLAN_REVIEW": "The architect has the plan: approved, to be changed, or the story abandoned.",
        "CODING": "Carries out the approved plan.",
        "TESTING": "Runs the project's tests.",
        "FIXING": "Repairs what the tests, the review or a merge conflict brought up.",
        "CODE_REVIEW": "The architect has the code: approved, to be changed, or the story abandoned.",
        "AWAIT_MERGE": "The code is approved and the pull request open; waits for the architect to merge it.",
        "QUESTION": "Waits for an answer, or for leave to go on.",
        "DONE": "The story is merged.",
        "ERROR": "The story was abandoned, or something failed for good.",
    },
    edges={
        "WAITING": {"SETUP": "task received"},
        "SETUP": {"PLANNING": "workspace ready", "ERROR": "workspace setup failed"},
        "PLANNING": {"PLAN_REVIEW": "plan submitted", "QUESTION": "clarification"},
        "PLAN_REVIEW": {
            "CODING": "approved",
            "PLANNING": "changes",
            "ERROR": "abandon · unrecoverable error",
        },
        "CODING": {
            "TESTING": "code complete",
            "QUESTION": "clarification · auto-approve",
            "ERROR": "unrecoverable error",
        },
        "TESTING": {"CODE_REVIEW": "tests pass", "FIXING": "tests fail"},
        "FIXING": {
            "TESTING": "fix done",
            "QUESTION": "clarification · auto-approve",
            "ERROR": "unrecoverable error",
        },
        "CODE_REVIEW": {
            "AWAIT_MERGE": "approved, merge requested",
            "FIXING": "changes",
            "ERROR": "abandon · unrecoverable error",
        },
        "AWAIT_MERGE": {"DONE": "merged", "FIXING": "merge conflict"},
        "QUESTION": {
            "PLANNING": "design answer",
            "PLAN_REVIEW": "plan resubmitted",
            "CODING": "answer · CONTINUE · PIVOT",
            "FIXING": "answer · CONTINUE · PIVOT",
            "CODE_REVIEW": "ESCALATE",
            "ERROR": "ABANDON · unrecoverable error",
        },
        "DONE": {},
        "ERROR": {},
    },
    # Not by way of a review: a failure is nothing to ask the architect about.
    ways_to_error={"PLANNING": "QUESTION", "TESTING": "FIXING"},
)
