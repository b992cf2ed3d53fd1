"""Security settings: secrets stay secret, and both clients get the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from pydantic import SecretStr

from harness.foundation.config import parse
from harness.foundation.errors import UsageError
from harness.foundation.security import Mechanism, Security, SecuritySpec, from_environment

PASSWORD, KEY_PASSWORD = "pass-6f1d0c", "key-83ab77"


@dataclass(frozen=True)
class Files:
    """Real PEM files: an authority, a client's certificate and key, and another's key."""

    ca: Path
    certificate: Path
    key: Path
    both: Path
    encrypted_key: Path
    other_key: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Made once: keys take a while."""
    place = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    client, other = authority.issue_cert("client.example"), authority.issue_cert("other.example")
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
    contents = {
        "ca": authority.cert_pem.bytes(),
        "certificate": client.cert_chain_pems[0].bytes(),
        "key": client.private_key_pem.bytes(),
        "both": client.private_key_and_cert_chain_pem.bytes(),
        "encrypted_key": encrypted,
        "other_key": other.private_key_pem.bytes(),
    }
    for name, content in contents.items():
        (place / f"{name}.pem").write_bytes(content)
    return Files(**{name: place / f"{name}.pem" for name in contents})


@pytest.fixture(autouse=True)
def _no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests does not matter."""
    for name in ("SASL_USERNAME", "SASL_PASSWORD", "SASL_PASSWORD_FILE", "TLS_KEY_PASSWORD", "TLS_KEY_PASSWORD_FILE"):
        monkeypatch.delenv(f"TIDEGAUGE_{name}", raising=False)


def chosen(
    *,
    tls: bool = False,
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    mechanism: Mechanism | None = None,
) -> Security:
    """What flags choose."""
    return from_environment(tls=tls, ca_file=ca, certificate_file=certificate, key_file=key, mechanism=mechanism)


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by repr, str, format, a dump to plain data or to JSON, nor by an error about a bad value."""
    security = Security(mechanism="PLAIN", password=SecretStr(PASSWORD), key_password=SecretStr(KEY_PASSWORD))
    shown = [repr(security), str(security), f"{security}", str(security.model_dump()), security.model_dump_json()]
    with pytest.raises(UsageError) as caught:
        parse(Security, {"password": [PASSWORD], "key_password": KEY_PASSWORD}, "x")
    shown.append(str(caught.value))
    assert not [text for text in shown if PASSWORD in text or KEY_PASSWORD in text]
    assert security.password.get_secret_value() == PASSWORD


@pytest.mark.parametrize(
    ("tls", "mechanism", "protocol"),
    [
        (False, None, "PLAINTEXT"),
        (True, None, "SSL"),
        (False, "PLAIN", "SASL_PLAINTEXT"),
        (True, "SCRAM-SHA-512", "SASL_SSL"),
    ],
)
def test_the_protocol_is_named_as_kafka_does(tls: bool, mechanism: Mechanism | None, protocol: str) -> None:  # noqa: FBT001
    """TLS and SASL together make one of four names, the same for both clients."""
    security = Security(tls=tls, mechanism=mechanism)
    assert security.protocol == protocol
    assert security.kafka_python()["security_protocol"] == protocol
    assert security.confluent_kafka()["security.protocol"] == protocol


def test_plain_text_sets_nothing_else() -> None:
    """Without TLS and SASL, clients get no other settings."""
    assert Security().kafka_python() == {"security_protocol": "PLAINTEXT"}
    assert Security().confluent_kafka() == {"security.protocol": "PLAINTEXT"}


def test_both_clients_get_everything(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    """Files and secrets reach kafka-python and confluent-kafka under their names for them."""
    ca, certificate, key = files.ca, files.certificate, files.encrypted_key
    monkeypatch.setenv("TIDEGAUGE_SASL_USERNAME", "ann")
    monkeypatch.setenv("TIDEGAUGE_SASL_PASSWORD", PASSWORD)
    monkeypatch.setenv("TIDEGAUGE_TLS_KEY_PASSWORD", KEY_PASSWORD)
    security = chosen(ca=ca, certificate=certificate, key=key, mechanism="SCRAM-SHA-256")
    assert security.kafka_python() == {
        "security_protocol": "SASL_SSL",
        "ssl_check_hostname": True,
        "ssl_cafile": str(ca),
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key),
        "ssl_password": KEY_PASSWORD,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORD,
    }
    assert security.confluent_kafka() == {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(ca),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.key.password": KEY_PASSWORD,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": PASSWORD,
    }


def test_tls_alone_trusts_the_machine() -> None:
    """Without files nothing is passed for them, and verification stays on."""
    security = chosen(tls=True)
    assert security.confluent_kafka() == {"security.protocol": "SSL"}
    assert security.kafka_python()["ssl_check_hostname"] is True
    assert security.kafka_python()["ssl_cafile"] is None


@pytest.mark.parametrize("parts", [("ca",), ("both",), ("certificate", "key"), ("ca", "certificate", "key")])
def test_a_file_means_tls(files: Files, parts: tuple[str, ...]) -> None:
    """Who names a certificate wants TLS, with or without the flag; a key may be in the file of its certificate."""
    given: dict[str, Any] = {"certificate" if part == "both" else part: getattr(files, part) for part in parts}
    security = chosen(**given)
    assert security.protocol == "SSL"
    found = {"ca": security.ca_file, "certificate": security.certificate_file, "key": security.key_file}
    assert {name: path for name, path in found.items() if path} == given


def test_a_key_without_its_certificate_is_an_error(files: Files) -> None:
    """It proves nothing, and no client could use it."""
    with pytest.raises(UsageError, match="a client key was given without its certificate: add --tls-cert"):
        chosen(key=files.key)
    with pytest.raises(UsageError, match="a client key was given without its certificate"):
        chosen(ca=files.ca, key=files.key, tls=True)


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x00\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
@pytest.mark.parametrize("part", ["ca", "certificate", "key"])
def test_garbage_is_found_at_once(files: Files, tmp_path: Path, part: str, content: bytes) -> None:
    """Before any client says that it cannot connect; the file is named."""
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(content)
    given: dict[str, Any] = {"ca": files.ca, "certificate": files.certificate, "key": files.key} | {part: garbage}
    named = files.certificate if part == "key" else garbage
    with pytest.raises(
        UsageError, match=rf"{named} cannot be used for TLS \(.+\): give PEM files that belong together"
    ):
        chosen(**given)


@pytest.mark.parametrize(
    ("certificate", "key"), [("certificate", None), ("certificate", "other_key"), ("key", "certificate"), ("ca", "key")]
)
def test_files_that_do_not_belong_together_are_an_error(files: Files, certificate: str, key: str | None) -> None:
    """A certificate without key, with another's key, or both mixed up."""
    with pytest.raises(UsageError, match="cannot be used for TLS"):
        chosen(certificate=getattr(files, certificate), key=getattr(files, key) if key else None)


@pytest.mark.parametrize("password", [None, "", "wrong", "x" * 2000])
def test_a_key_that_cannot_be_opened_is_an_error(
    monkeypatch: pytest.MonkeyPatch, files: Files, password: str | None
) -> None:
    """Without its password, or with a wrong one: said at once, asked of nobody, and the password is not shown."""
    if password is not None:
        monkeypatch.setenv("TIDEGAUGE_TLS_KEY_PASSWORD", password)
    with pytest.raises(UsageError, match="cannot be used for TLS") as caught:
        chosen(certificate=files.certificate, key=files.encrypted_key)
    assert not password or password not in str(caught.value)


def test_a_key_without_password_may_be_given_one(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    """It is not needed, and does no harm."""
    monkeypatch.setenv("TIDEGAUGE_TLS_KEY_PASSWORD", KEY_PASSWORD)
    assert chosen(certificate=files.certificate, key=files.key).protocol == "SSL"


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_password_comes_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: str) -> None:
    """The file wins over the variable; only the line's end is not part of the secret."""
    file = tmp_path / "secret"
    file.write_bytes(f" {PASSWORD} {ending}".encode())
    monkeypatch.setenv("TIDEGAUGE_SASL_USERNAME", "ann")
    monkeypatch.setenv("TIDEGAUGE_SASL_PASSWORD", "another")
    monkeypatch.setenv("TIDEGAUGE_SASL_PASSWORD_FILE", str(file))
    monkeypatch.setenv("TIDEGAUGE_TLS_KEY_PASSWORD_FILE", str(file))
    security = chosen(tls=True, mechanism="PLAIN")
    assert security.password.get_secret_value() == security.key_password.get_secret_value() == f" {PASSWORD} "


@pytest.mark.parametrize("given", [{}, {"USERNAME": "ann"}, {"PASSWORD": PASSWORD}, {"USERNAME": "", "PASSWORD": ""}])
def test_sasl_without_both_is_an_error(monkeypatch: pytest.MonkeyPatch, given: dict[str, str]) -> None:
    """A missing user name or password is found before anything is started, and names all variables."""
    for name, value in given.items():
        monkeypatch.setenv(f"TIDEGAUGE_SASL_{name}", value)
    with pytest.raises(UsageError, match=r"SASL PLAIN needs a user name and a password.*PASSWORD_FILE") as caught:
        chosen(mechanism="PLAIN")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_secret_that_cannot_be_read_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    """A missing or a binary file is named by its variable."""
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("TIDEGAUGE_TLS_KEY_PASSWORD_FILE", str(file))
    with pytest.raises(UsageError, match="TIDEGAUGE_TLS_KEY_PASSWORD_FILE cannot be read"):
        chosen(tls=True)


@pytest.mark.parametrize("part", ["ca", "certificate", "key"])
@pytest.mark.parametrize("directory", [True, False])
def test_a_file_that_is_none_is_an_error(tmp_path: Path, part: str, directory: bool) -> None:  # noqa: FBT001
    """A path that leads nowhere, or to a directory, is named."""
    path = tmp_path if directory else tmp_path / "nowhere.pem"
    with pytest.raises(UsageError, match=f"there is no file {path}"):
        chosen(**{part: path})  # type: ignore[arg-type]


def test_behind_a_tap_nothing_of_tls_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not even the files, from which a worker would take that TLS is wanted."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("TIDEGAUGE_SASL_USERNAME", "me")
    monkeypatch.setenv("TIDEGAUGE_SASL_PASSWORD", "secret")
    whole = from_environment(
        tls=True, ca_file=tmp_path / "ca.pem", certificate_file=None, key_file=None, mechanism="PLAIN"
    )
    assert whole.tls_context() is not None
    behind = SecuritySpec.of(whole.without_tls()).with_secrets()
    assert (behind.protocol, behind.tls_context()) == ("SASL_PLAINTEXT", None)
