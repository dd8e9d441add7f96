"""The standard edition's coder: rework happens in CODING, a question is an effect, budgets have a review."""

from protocol.machine import Machine

CODER = Machine(
    name="coder",
    purpose="Takes one story from plan to merge, and asks for a review when its iteration budget runs out.",
    initial="WAITING",
    states={
        "WAITING": "Has no story yet.",
        "SETUP": "Gets workspace, branch and tools ready for the story.",
        "PLANNING": "Works out how the story is to be done, with the model and its tools.",
        "PLAN_REVIEW": "The architect has the plan: approved, to be changed, or the story abandoned.",
        "CODING": "Carries out the approved plan with the file tools, and reworks what came back.",
        "TESTING": "Runs the project's tests and format checks.",
        "BUDGET_REVIEW": "Has used up its iterations; waits to hear whether and how to go on.",
        "CODE_REVIEW": "The architect has the code: approved, to be changed, or the story abandoned.",
        "AWAIT_MERGE": "The code is approved and the pull request open; waits for the outcome of the merge.",
        "DONE": "The story is merged, or was found complete.",
        "ERROR": "The story was abandoned, or something failed for good.",
    },
    edges={
        "WAITING": {"SETUP": "task received", "ERROR": "queue deleted · unrecoverable error"},
        "SETUP": {"PLANNING": "workspace ready", "ERROR": "setup failed"},
        "PLANNING": {"PLAN_REVIEW": "plan submitted"},
        "PLAN_REVIEW": {
            "CODING": "approved",
            "PLANNING": "changes",
            "ERROR": "abandon",
            "DONE": "already complete (rare)",
        },
        "CODING": {
            "TESTING": "code complete",
            "BUDGET_REVIEW": "iteration limit",
            "ERROR": "unrecoverable error",
        },
        "TESTING": {"CODE_REVIEW": "tests pass", "CODING": "tests fail"},
        "BUDGET_REVIEW": {"PLANNING": "PIVOT · REPLAN", "CODING": "CONTINUE", "ERROR": "ABANDON"},
        "CODE_REVIEW": {"AWAIT_MERGE": "approved", "CODING": "changes", "ERROR": "abandon"},
        "AWAIT_MERGE": {"DONE": "merged", "CODING": "merge conflict", "ERROR": "merge failed"},
        "DONE": {},
        "ERROR": {},
    },
    # Not by way of a review: a failure is nothing to ask the architect about.
    ways_to_error={"TESTING": "CODING"},
)
