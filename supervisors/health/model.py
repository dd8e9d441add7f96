"""Probes of the models' APIs that the settings name: one for each, however many roles use it."""

from collections.abc import Awaitable, Callable, Mapping

from actors.claude.probe import check
from actors.claude.providers import Provider, profile_of, provider_of, url_of
from actors.finding import PARTS
from actors.thinking.errors import KeyRefusedError, MissingKeyError
from bus.bus import Bus
from bus.settings import Loaded
from protocol.subjects import Role
from supervisors.core.planning import plan_of
from supervisors.core.plans import Child, walk
from supervisors.health.probes import Probe

MODEL = "model"
THINKERS: tuple[Role, ...] = ("coder", "architect", "pm")


def model_probes(loaded: Loaded, environ: Mapping[str, str]) -> tuple[Probe, ...]:
    """None where nobody thinks, or the settings do not want any. The first is called `model`."""
    if not _are_wanted(loaded):
        return ()
    by_url: dict[str, Role] = {}
    for role in THINKERS:
        by_url.setdefault(url_of(role, loaded), role)
    return tuple(
        Probe(name=f"{MODEL}-{role}" if place else MODEL, check=_check(role, loaded, environ), ours=True)
        for place, role in enumerate(by_url.values())
    )


def _are_wanted(loaded: Loaded) -> bool:
    match loaded.settings.health.model:
        case "always":
            return True
        case "never":
            return False
        case _:
            actors = [each for each in walk(plan_of(loaded.settings)) if isinstance(each, Child)]
            return any(each.runs in PARTS and each.part in ("", PARTS[each.runs]) for each in actors)


def _provider(role: Role, loaded: Loaded, environ: Mapping[str, str]) -> Provider:
    try:
        return provider_of(role, loaded, environ)
    except (MissingKeyError, KeyRefusedError):
        # Whoever calls asks a person for it; whether the API is there can be found without one.
        return Provider(url=url_of(role, loaded), key="")


def _check(role: Role, loaded: Loaded, environ: Mapping[str, str]) -> Callable[[Bus], Awaitable[None]]:
    async def ask(_: Bus) -> None:
        """Ask the API, with the key as it is now."""
        provider = _provider(role, loaded, environ)
        await check(provider, profile_of(role, loaded).model, loaded.settings.health.timeout_seconds)

    return ask
