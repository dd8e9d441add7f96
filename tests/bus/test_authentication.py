"""Who we are and whom we trust: passwords, tokens, keys, credentials files and TLS, right and wrong."""

import asyncio
import base64
import json
import os
import secrets
import ssl
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]  # it has no stubs
import pytest
from structlog.testing import capture_logs

from bus import opening
from bus.errors import BusError, BusUnreachableError
from bus.jetstream.connection import Connection, ConnectOptions
from bus.opening import open_bus
from bus.settings import SettingsError, load
from protocol.subjects import Subjects
from tests.bus.brokers import connected, eventually, impostor
from tests.bus.settings.projects import a_project
from tests.certificates import Authority, Pair
from tests.contract.world import nats_world
from tests.nats_server import NatsServer

PASSWORD = secrets.token_hex()
LOGIN = {"MY_PASSWORD": PASSWORD}


@contextmanager
def serving(folder: Path, extra: str) -> Iterator[NatsServer]:
    """A server with a configuration of its own."""
    server = NatsServer(folder / "nats", extra)
    try:
        yield server.start()
    finally:
        server.stop()


def new_key(prefix: int) -> tuple[str, Any]:
    """A seed and its key pair."""
    seed = nkeys.encode_seed(os.urandom(32), prefix)
    return seed.decode(), nkeys.from_seed(bytearray(seed))


async def use_the_bus(folder: Path, settings: Mapping[str, str], environ: Mapping[str, str]) -> int:
    """Open the bus as a command does and store something."""
    project = folder / "project"
    project.mkdir(exist_ok=True)
    loaded = load({"project": "auth", **settings}, environ, project)
    async with asyncio.timeout(20), open_bus(loaded, environ, "person") as bus:
        return await bus.board.put("specs.todo", b"x")


async def refused(folder: Path, settings: Mapping[str, str], environ: Mapping[str, str]) -> str:
    """What a command says when it cannot open the bus; it must not take long, and must not show a secret."""
    started_at = asyncio.get_running_loop().time()
    with capture_logs() as logs, pytest.raises(BusError) as caught:
        await use_the_bus(folder, settings, environ)
    assert asyncio.get_running_loop().time() - started_at < 3.0, "a refusal was waited out"
    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value)) + repr(logs)
    assert [value for value in environ.values() if value in shown] == []
    return str(caught.value)


# Passwords, tokens and keys.


@pytest.mark.parametrize(
    ("server", "settings"),
    [
        (f'user: ada, password: "{PASSWORD}"', {"bus.user": "ada", "bus.password": "env:MY_PASSWORD"}),
        (f'token: "{PASSWORD}"', {"bus.token": "env:MY_PASSWORD"}),
    ],
    ids=["password", "token"],
)
async def test_a_login_opens_the_bus_and_a_wrong_one_is_a_clear_error(
    tmp_path: Path, server: str, settings: dict[str, str]
) -> None:
    with serving(tmp_path, f"authorization {{ {server} }}") as nats:
        settings = {"bus.url": nats.url, **settings}
        revision = await use_the_bus(tmp_path, settings, LOGIN)
        wrong = await refused(tmp_path, settings, {"MY_PASSWORD": secrets.token_hex()})
        nobody = await refused(tmp_path, {"bus.url": nats.url}, {})

    assert revision == 1
    for text in (wrong, nobody):
        assert text.startswith(f"cannot reach NATS at {nats.url}: 'Authorization Violation'; check bus.credentials")


async def test_a_login_in_the_url_is_not_shown(tmp_path: Path) -> None:
    secret = secrets.token_hex()
    with serving(tmp_path, f'authorization {{ user: ada, password: "{PASSWORD}" }}') as nats:
        address = nats.url.removeprefix("nats://")
        with capture_logs() as logs, pytest.raises(BusUnreachableError) as caught:
            await Connection.open(ConnectOptions(url=f"nats://ada:{secret}@{address}"))

    shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value)) + repr(logs)
    assert secret not in shown
    assert caught.value.url == f"nats://***@{address}"
    assert "check bus.credentials" in str(caught.value)


async def test_a_key_opens_the_bus_and_a_wrong_one_is_a_clear_error(tmp_path: Path) -> None:
    seed, pair = new_key(nkeys.PREFIX_BYTE_USER)
    stranger, _ = new_key(nkeys.PREFIX_BYTE_USER)
    file = tmp_path / "me.nk"
    with serving(tmp_path, f"authorization {{ users: [ {{ nkey: {pair.public_key.decode()} }} ] }}") as nats:
        settings = {"bus.url": nats.url, "bus.credentials": str(file)}
        file.write_text(seed + "\n")
        revision = await use_the_bus(tmp_path, settings, {})
        file.write_text(stranger)
        wrong = await refused(tmp_path, settings, {"never shown": stranger})
        file.write_text(PASSWORD)
        garbage = await refused(tmp_path, settings, LOGIN)
        file.unlink()
        missing = await refused(tmp_path, settings, {})

    assert revision == 1
    assert "Authorization Violation" in wrong
    assert garbage.endswith("let bus.credentials name a .creds file or a .nk file with a seed")
    assert str(file) in missing


async def test_a_credentials_file_opens_the_bus(tmp_path: Path) -> None:
    file = tmp_path / "me.creds"
    with serving(tmp_path, _operated_server(file)) as nats:
        async with (
            connected(nats.url, secrets={"user_credentials": str(file)}) as connection,
            connection.subscribe("here", lambda message: message.data) as heard,
        ):
            await connection.publish("here", b"x")
            word = await heard.get()

    assert word == b"x"


@pytest.mark.parametrize("content", ["", "no key in here\n", PASSWORD], ids=["empty", "other text", "a password"])
async def test_a_file_without_credentials_is_a_clear_error(tmp_path: Path, content: str) -> None:
    """nats-py would read it for ever, and nothing else would run meanwhile."""
    file, proper = tmp_path / "me.creds", tmp_path / "proper.creds"
    with serving(tmp_path, _operated_server(proper)) as nats:
        file.write_text(content)
        text = await refused(tmp_path, {"bus.url": nats.url, "bus.credentials": str(file)}, LOGIN)

    assert f"{file} holds no NATS credentials; let bus.credentials name a .creds file" in text


def _operated_server(file: Path) -> str:
    """The configuration of a server that trusts an operator, and in `file` the credentials of a user of its."""
    _, operator = new_key(nkeys.PREFIX_BYTE_OPERATOR)
    accounts = [new_key(nkeys.PREFIX_BYTE_ACCOUNT)[1] for _ in range(2)]
    seed, user = new_key(nkeys.PREFIX_BYTE_USER)
    limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1}
    trusted = _token(operator, operator, {"type": "operator"})
    vouched = [_token(operator, account, {"type": "account", "limits": limits}) for account in accounts]
    token = _token(accounts[0], user, {"type": "user", "subs": -1, "data": -1, "payload": -1})
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    names = [account.public_key.decode() for account in accounts]
    known = "\n".join(f"{name}: {token}" for name, token in zip(names, vouched, strict=True))
    return f"operator: {trusted}\nsystem_account: {names[1]}\nresolver: MEMORY\nresolver_preload: {{\n{known}\n}}"


def _token(issuer: Any, subject: Any, claims: dict[str, Any]) -> str:
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    body = {
        "jti": secrets.token_hex(),
        "iat": 1_700_000_000,
        "iss": issuer.public_key.decode(),
        "sub": subject.public_key.decode(),
        "name": "test",
        "nats": {"version": 2, **claims},
    }
    signed = ".".join(_base64(json.dumps(part).encode()) for part in (head, body))
    return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_a_key_that_cannot_be_read_for_a_while_does_not_end_the_attempts_to_reconnect(tmp_path: Path) -> None:
    seed, pair = new_key(nkeys.PREFIX_BYTE_USER)
    file = tmp_path / "me.nk"
    file.write_text(seed)
    with serving(tmp_path, f"authorization {{ users: [ {{ nkey: {pair.public_key.decode()} }} ] }}") as nats:
        async with connected(nats.url, secrets={"nkeys_seed": str(file)}) as connection:
            file.write_text("half of a key")
            nats.kill()
            await asyncio.to_thread(nats.start)
            await eventually("an attempt fails for the key", lambda: "seed" in " ".join(connection._failures))
            file.write_text(seed)
            async with asyncio.timeout(5):
                await connection.request("$JS.API.STREAM.NAMES", seconds=5.0)


# Settings that the server, or nobody, can meet.


@pytest.mark.parametrize("key", ["password", "token"])
async def test_a_secret_that_is_missing_is_told_with_its_setting_and_its_place(tmp_path: Path, key: str) -> None:
    user = 'user = "ada"' if key == "password" else ""
    toml = f'project = "auth"\n[bus]\nurl = "nats://127.0.0.1:1"\n{user}\n{key} = "env:DEMO_SECRET"\n'
    root = a_project(tmp_path, toml)

    with pytest.raises(SettingsError) as caught:
        async with open_bus(load({}, {}, root), {}, "person"):
            pytest.fail("it opens without its secret")

    refers = f"bus.{key} refers to env:DEMO_SECRET, which is empty or not set; put the secret there"
    assert str(caught.value) == f"{root}/callboard.toml:5: {refers}"


async def test_a_file_that_cannot_be_read_is_told_with_its_setting_and_its_place(tmp_path: Path) -> None:
    root = a_project(tmp_path, 'bus.url = "tls://127.0.0.1:1"\n\n[bus.tls]\nca = "ca.pem"\n')

    with pytest.raises(SettingsError) as caught:
        async with open_bus(load({}, {}, root), {}, "person"):
            pytest.fail("it opens without its certificate")

    assert str(caught.value) == (
        f"{root}/callboard.toml:4: bus.tls.ca names {root}/ca.pem, which cannot be read (No such file or directory); "
        "name the right file"
    )


async def test_more_copies_than_a_single_server_can_keep_are_a_matter_of_settings(
    tmp_path: Path, shared_server: NatsServer, subjects: Subjects
) -> None:
    environ = {"NATS_URL": shared_server.url, "CALLBOARD_BUS_REPLICAS": "3", "CALLBOARD_PROJECT": subjects.project}

    with pytest.raises(SettingsError) as caught:
        async with open_bus(load({}, environ, a_project(tmp_path)), environ, "person"):
            pytest.fail("it keeps three copies on one server")

    [problem] = caught.value.problems
    assert (problem.place, problem.key) == ("CALLBOARD_BUS_REPLICAS", "bus.replicas")
    assert problem.what.startswith(f"is 3, and NATS at {shared_server.url} has not as many servers for it")
    assert problem.fix == "set bus.replicas = 1, or use a cluster of 3"


async def test_more_copies_than_a_cluster_has_servers_are_a_matter_of_settings(
    tmp_path: Path, cluster: list[NatsServer], subjects: Subjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PREPARE_SECONDS", 0.0)
    environ = {"NATS_URL": cluster[0].url, "CALLBOARD_BUS_REPLICAS": "5", "CALLBOARD_PROJECT": subjects.project}

    async with nats_world(Subjects("cluster-is-up"), cluster[0].url, 3):
        with pytest.raises(SettingsError, match=r"is 5, and NATS .* has not as many servers for it"):
            async with open_bus(load({}, environ, a_project(tmp_path)), environ, "person"):
                pytest.fail("it keeps five copies on three servers")


async def test_who_may_not_do_what_is_told_with_the_settings_to_check(tmp_path: Path) -> None:
    rules = 'publish: ">", subscribe: "open.>"'
    users = f'{{ user: ada, password: "{PASSWORD}", permissions: {{ {rules} }} }}'
    with serving(tmp_path, f"authorization {{ users: [ {users} ] }}") as nats:
        login = {"bus.url": nats.url, "bus.user": "ada", "bus.password": "env:MY_PASSWORD"}
        text = await refused(tmp_path, login, LOGIN)

    assert "user ada (role person) may not listen to the answers to its own questions" in text
    assert "allow it in the server, or check bus.user and bus.password" in text


# TLS.


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of both sides."""
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def secure_server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[NatsServer]:
    """A server that shows a certificate and asks for one."""
    folder, pair = tmp_path_factory.mktemp("secure"), authority.sign("server")
    trust = f'ca_file: "{authority.pair.certificate}", verify: true'
    with serving(folder, f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}", {trust} }}') as server:
        yield server


def secure(server: NatsServer, ca: str, pair: Pair | None, **more: str) -> dict[str, str]:
    """Settings for a server with TLS."""
    ours = {"bus.tls.cert": pair.certificate, "bus.tls.key": pair.key} if pair else {}
    return {"bus.url": server.url.replace("nats://", "tls://"), "bus.tls.ca": ca, **ours, **more}


async def test_certificates_on_both_sides_open_the_bus(
    tmp_path: Path, secure_server: NatsServer, authority: Authority
) -> None:
    settings = secure(secure_server, authority.pair.certificate, authority.sign("client"))

    assert await use_the_bus(tmp_path, settings, {}) >= 1


async def test_a_server_of_another_authority_is_refused(
    tmp_path: Path, secure_server: NatsServer, authority: Authority
) -> None:
    stranger = Authority(tmp_path, "stranger")
    text = await refused(tmp_path, secure(secure_server, stranger.pair.certificate, authority.sign("client")), {})

    assert "certificate verify failed" in text
    assert text.endswith("let bus.tls.ca name the authority that signed the server's certificate")


async def test_a_server_of_another_name_is_refused(
    tmp_path: Path, secure_server: NatsServer, authority: Authority
) -> None:
    settings = secure(secure_server, authority.pair.certificate, authority.sign("client"))
    text = await refused(tmp_path, {**settings, "bus.tls.hostname": "nats.example"}, {})

    assert text.endswith("set bus.tls.hostname to the name in the server's certificate")


async def test_a_server_that_wants_our_certificate_says_so(
    tmp_path: Path, secure_server: NatsServer, authority: Authority
) -> None:
    text = await refused(tmp_path, secure(secure_server, authority.pair.certificate, None), {})

    assert text.endswith("let bus.tls.cert and bus.tls.key name a certificate for this client")


@pytest.mark.parametrize("content", [None, "no certificate"], ids=["missing", "garbage"])
async def test_a_file_that_holds_no_certificate_is_a_clear_error(
    tmp_path: Path, secure_server: NatsServer, content: str | None
) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    text = await refused(tmp_path, secure(secure_server, str(file), None), {})

    assert "bus.tls.ca" in text


async def test_a_connection_with_tls_survives_a_restart(tmp_path: Path, authority: Authority) -> None:
    pair = authority.sign("server")
    with serving(tmp_path, f'tls {{ cert_file: "{pair.certificate}", key_file: "{pair.key}" }}') as nats:
        context = _trusting(authority)
        async with connected(nats.url, secrets={"tls": context}) as connection:
            nats.kill()
            await eventually("the loss is noticed", lambda: not connection.is_up)
            await asyncio.to_thread(nats.start)
            async with asyncio.timeout(5):
                await connection.request("$JS.API.STREAM.NAMES", seconds=5.0)


def _trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.pair.certificate)


@pytest.mark.parametrize("by", ["scheme", "context"])
async def test_a_server_without_tls_never_hears_our_password_where_tls_was_asked_for(
    authority: Authority, by: str
) -> None:
    """nats-py would go on in the clear."""
    greeting = b'INFO {"server_id":"x","version":"2.15.1","max_payload":1048576,"auth_required":true}\r\n'
    login: dict[str, Any] = {"user": "ada", "password": PASSWORD}
    async with impostor(greeting) as (address, heard):
        options = (
            ConnectOptions(url=f"tls://{address}", secrets=login)
            if by == "scheme"
            else ConnectOptions(url=f"nats://{address}", secrets={**login, "tls": _trusting(authority)})
        )
        with pytest.raises(BusUnreachableError, match="the server offers no TLS; turn TLS on in the server"):
            await Connection.open(options)

    assert heard == []
