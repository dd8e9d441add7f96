"""Where a role's model is, how it is asked, and with which key: from the settings and the environment."""

from collections.abc import Mapping

import msgspec

from actors.redaction import remember_secrets
from actors.thinking.errors import KeyRefusedError, MissingKeyError
from actors.thinking.request import Profile
from bus.settings import Loaded, SecretReference, SecretUnavailableError, resolve
from bus.settings.model import CoderModel
from bus.settings.sources import KEY_VARIABLES
from protocol.subjects import Role

DEFAULT_EFFORT = "default"


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """An API and the key for it."""

    url: str
    key: str


def provider_of(role: Role, loaded: Loaded, environ: Mapping[str, str]) -> Provider:
    """Where a role's model is, with the key as it is now; MissingKeyError, KeyRefusedError."""
    key = _key(_chosen(role, loaded).key or loaded.settings.model.key, loaded, environ)
    remember_secrets([key])
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise KeyRefusedError("what is set as the key has spaces, line breaks or other characters that no key has")
    return Provider(url=url_of(role, loaded), key=key)


def url_of(role: Role, loaded: Loaded) -> str:
    """Where a role's model is."""
    return (_chosen(role, loaded).base_url or loaded.settings.model.base_url).rstrip("/")


def profile_of(role: Role, loaded: Loaded) -> Profile:
    """How a role's model is asked."""
    chosen = _chosen(role, loaded)
    effort = "" if chosen.effort == DEFAULT_EFFORT else chosen.effort
    return Profile(model=chosen.name, max_tokens=chosen.max_tokens, effort=effort)


def _chosen(role: Role, loaded: Loaded) -> CoderModel:
    settings = loaded.settings.model
    match role:
        case "pm":
            return settings.pm
        case "architect":
            return settings.architect
        case _:
            return settings.coder


def _key(reference: SecretReference | None, loaded: Loaded, environ: Mapping[str, str]) -> str:
    if reference is not None:
        try:
            return resolve(reference, environ, loaded.root).reveal()
        except SecretUnavailableError as error:
            raise MissingKeyError(str(error)) from error
    for variable in KEY_VARIABLES:
        if key := environ.get(variable, "").strip():
            return key
    raise MissingKeyError(f"neither {' nor '.join(KEY_VARIABLES)} is set, and no setting names a key")
