"""One key pair per role. Seeds stay in files of their owner; the server learns only the public keys."""

import os
from pathlib import Path

import nkeys  # type: ignore[import-untyped]  # it has no stubs

from bus.errors import ServerError
from bus.server.files import make_private_folder, write_private
from protocol.subjects import ROLES, Role

SEED_BYTES = 32


def credentials(folder: Path, role: Role) -> dict[str, str]:
    """What ConnectOptions.secrets needs to be `role` on the server of `folder`; ServerError if there is none."""
    return {"nkeys_seed_str": _read_seed(key_file(folder, role)).decode()}


def make_identities(folder: Path) -> dict[Role, str]:
    """The public key of every role; seeds that are missing are made, those that exist are kept."""
    make_private_folder(folder / "credentials")
    return {role: _public_key(key_file(folder, role)) for role in ROLES}


def key_file(folder: Path, role: Role) -> Path:
    """Where the seed of a role lies, for whoever is told how to reach the server."""
    return folder / "credentials" / f"{role}.nk"


def _public_key(path: Path) -> str:
    if not path.exists():
        write_private(path, nkeys.encode_seed(os.urandom(SEED_BYTES), nkeys.PREFIX_BYTE_USER) + b"\n")
    try:
        public: bytes = nkeys.from_seed(bytearray(_read_seed(path))).public_key
    except nkeys.NkeysError as error:
        # No cause in the message: it must not quote what is in the file.
        raise ServerError(f"{path} holds no key: remove it, and the next start makes a new one") from error
    return public.decode()


def _read_seed(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except FileNotFoundError as error:
        raise ServerError(f"{path} is missing: it is made when the embedded server starts") from error
