"""The probe of the model's API: what counts as healthy, for whom it is asked, and that it costs nothing."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.claude.probe import UnhealthyError, check
from actors.claude.providers import Provider
from actors.rehearsal.faults import Fault
from actors.rehearsal.server import Rehearsal
from bus.settings import Loaded, load
from supervisors.health.model import model_probes

KEY = {"CALLBOARD_ANTHROPIC_API_KEY": "a-key-for-tests"}
MODEL = "claude-sonnet-5-5"


def settings(root: Path, text: str, environ: Mapping[str, str] = KEY) -> Loaded:
    (root / "callboard.toml").write_text(text)
    return load({}, environ, root)


async def test_an_api_that_answers_is_healthy_and_its_model_is_never_called() -> None:
    async with Rehearsal(()) as rehearsal:
        await check(Provider(url=rehearsal.url, key="key"), MODEL, 2.0)

        assert [call.endpoint for call in rehearsal.calls] == ["count_tokens"]


@pytest.mark.parametrize(
    "fault",
    [
        *(Fault(kind=kind) for kind in ("auth", "permission", "billing", "not_found", "bad_request")),
        Fault(kind="spend_limit", status=400),
    ],
    ids=lambda fault: fault.kind,
)
async def test_what_a_person_has_to_settle_is_no_illness_of_the_api(fault: Fault) -> None:
    async with Rehearsal((), [fault]) as rehearsal:
        await check(Provider(url=rehearsal.url, key="key"), MODEL, 2.0)

        assert rehearsal.faults[0].used == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(kind="overloaded"), "status 529: Overloaded"),
        (Fault(kind="server_error", status=503), "status 503: Service unavailable"),
        (Fault(kind="rate_limit"), "status 429"),
        (Fault(kind="refuse_connection"), "Error"),
        (Fault(kind="no_answer"), "timed out"),
    ],
    ids=lambda value: value.kind if isinstance(value, Fault) else "",
)
async def test_what_is_transient_is(fault: Fault, words: str) -> None:
    async with Rehearsal((), [fault]) as rehearsal:
        with pytest.raises(UnhealthyError, match=words):
            await check(Provider(url=rehearsal.url, key="key"), MODEL, 0.5)


@pytest.mark.parametrize("key", ["", "two words", "two\nlines", "umläut"])
async def test_who_has_no_key_or_none_that_can_be_sent_learns_whether_the_api_is_there(
    tmp_path: Path, key: str
) -> None:
    async with Rehearsal(()) as rehearsal:
        environ = {"CALLBOARD_ANTHROPIC_API_KEY": key} if key else {}
        text = f'health.model = "always"\nmodel.base_url = "{rehearsal.url}"'
        (probe,) = model_probes(settings(tmp_path, text, environ), environ)
        await probe.check(None)  # type: ignore[arg-type]  # it needs no bus

        assert [call.status for call in rehearsal.calls] == [401]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ('health.model = "never"', []),
        ('health.model = "always"', ["model"]),
        ('health.model = "always"\nmodel.pm.base_url = "http://other"', ["model", "model-pm"]),
        ('health.model = "always"\nmodel.coder.base_url = "https://api.anthropic.com/"', ["model"]),
    ],
)
def test_each_address_is_probed_once(tmp_path: Path, text: str, names: list[str]) -> None:
    assert [probe.name for probe in model_probes(settings(tmp_path, text), KEY)] == names
