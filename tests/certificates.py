"""Certificates for tests, made on the spot: an authority, and what it signs for 127.0.0.1.

Ed25519 keys come with the client's own dependencies, so neither a program nor another package is needed.
"""

import base64
import hashlib
import ipaddress
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nacl.signing import SigningKey

ED25519 = bytes.fromhex("06032b6570")
_SERIALS = itertools.count(0x10000000)  # four bytes, the first of them neither zero nor negative


class Pair:
    """A certificate and its key, as files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.certificate = str(certificate)
        self.key = str(key)


class Authority:
    """Signs certificates; its own is `pair.certificate`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._key = SigningKey.generate()
        # Basic constraints: an authority. Key usage: signs certificates.
        extensions = [
            _extension("551d13", _sequence(b"\x01\x01\xff"), critical=True),
            _extension("551d0f", b"\x03\x02\x02\x04", critical=True),
        ]
        self.pair = self._issue(name, self._key, extensions)

    def sign(self, name: str, address: str = "127.0.0.1") -> Pair:
        """A certificate for a server or a client at an address."""
        host = ipaddress.ip_address(address).packed
        return self._issue(name, SigningKey.generate(), [_extension("551d11", _sequence(_der(0x87, host)))])

    def _issue(self, name: str, key: SigningKey, extensions: list[bytes]) -> Pair:
        subject_key, signer = bytes(key.verify_key), bytes(self._key.verify_key)
        identifiers = [
            _extension("551d0e", _der(0x04, _key_identifier(subject_key))),
            _extension("551d23", _sequence(_der(0x80, _key_identifier(signer)))),
        ]
        body = _sequence(
            _der(0xA0, b"\x02\x01\x02"),
            _der(0x02, next(_SERIALS).to_bytes(4, "big")),
            _sequence(ED25519),
            _name(self._name),
            _validity(),
            _name(name),
            _sequence(_sequence(ED25519), _der(0x03, b"\x00", subject_key)),
            _der(0xA3, _sequence(*extensions, *identifiers)),
        )
        signature = self._key.sign(body).signature
        certificate = _sequence(body, _sequence(ED25519), _der(0x03, b"\x00", signature))
        secret = _sequence(b"\x02\x01\x00", _sequence(ED25519), _der(0x04, _der(0x04, bytes(key))))
        return Pair(
            self._write(f"{name}.pem", "CERTIFICATE", certificate), self._write(f"{name}.key", "PRIVATE KEY", secret)
        )

    def _write(self, file_name: str, kind: str, content: bytes) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / file_name
        text = base64.encodebytes(content).decode()
        path.write_text(f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n")
        path.chmod(0o600)
        return path


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _der(0x30, *parts)


def _extension(identifier: str, value: bytes, *, critical: bool = False) -> bytes:
    return _sequence(_der(0x06, bytes.fromhex(identifier)), b"\x01\x01\xff" if critical else b"", _der(0x04, value))


def _name(text: str) -> bytes:
    return _sequence(_der(0x31, _sequence(_der(0x06, bytes.fromhex("550403")), _der(0x0C, text.encode()))))


def _validity() -> bytes:
    now = datetime.now(UTC)
    times = (now - timedelta(days=1), now + timedelta(days=30))
    return _sequence(*(_der(0x17, time.strftime("%y%m%d%H%M%SZ").encode()) for time in times))


def _key_identifier(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:20]
