"""Security settings: secrets stay secret, and both clients get the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from harness.config import parse
from harness.errors import UsageError
from harness.security import Mechanism, Security, from_environment

PASSWORD, KEY_PASSWORD = "pass-6f1d0c", "key-83ab77"


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


def test_both_clients_get_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files and secrets reach kafka-python and confluent-kafka under their names for them."""
    ca, certificate, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    for file in (ca, certificate, key):
        file.touch()
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


@pytest.mark.parametrize("part", ["ca", "certificate", "key"])
def test_a_file_means_tls(tmp_path: Path, part: str) -> None:
    """Who names a certificate wants TLS, with or without the flag."""
    file = tmp_path / "x.pem"
    file.touch()
    assert chosen(**{part: file}).protocol == "SSL"  # type: ignore[arg-type]


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
