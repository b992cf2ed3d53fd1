"""How clients prove who they are and check whom they talk to.

Secrets come from the environment or from files. They are never arguments, never printed, never stored: descriptions and
reports carry the protocol's name and nothing else. Verification of certificates and host names cannot be turned off.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from harness.foundation.config import Model
from harness.foundation.errors import UsageError

Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
USERNAME_VARIABLE = "TIDEGAUGE_SASL_USERNAME"
PASSWORD_VARIABLE = "TIDEGAUGE_SASL_PASSWORD"  # noqa: S105 - the name of a variable
KEY_PASSWORD_VARIABLE = "TIDEGAUGE_TLS_KEY_PASSWORD"  # noqa: S105 - the name of a variable


class Security(Model):
    """Plain text unless told otherwise."""

    tls: bool = False
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    mechanism: Mechanism | None = None
    username: str = ""
    password: SecretStr = SecretStr("")
    key_password: SecretStr = SecretStr("")

    @property
    def protocol(self) -> str:
        """As Kafka calls it."""
        return ("SASL_" if self.mechanism else "") + ("SSL" if self.tls else "PLAINTEXT")

    def kafka_python(self) -> dict[str, Any]:
        """Settings for kafka-python."""
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.tls:
            settings |= {
                "ssl_check_hostname": True,
                "ssl_cafile": _text(self.ca_file),
                "ssl_certfile": _text(self.certificate_file),
                "ssl_keyfile": _text(self.key_file),
                "ssl_password": self.key_password.get_secret_value() or None,
            }
        if self.mechanism:
            settings |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password.get_secret_value(),
            }
        return settings

    def without_tls(self) -> Security:
        """For clients behind a tap, which speaks TLS in their place."""
        nothing = {"tls": False, "ca_file": None, "certificate_file": None, "key_file": None}
        return self.model_copy(update=nothing)

    def tls_context(self) -> ssl.SSLContext | None:
        """What a connection to a broker needs; None in plain text."""
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file, self.key_password.get_secret_value)
        return context

    def confluent_kafka(self) -> dict[str, Any]:
        """Settings for confluent-kafka."""
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.tls:
            settings |= {
                "ssl.ca.location": _text(self.ca_file),
                "ssl.certificate.location": _text(self.certificate_file),
                "ssl.key.location": _text(self.key_file),
                "ssl.key.password": self.key_password.get_secret_value() or None,
            }
        if self.mechanism:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password.get_secret_value(),
            }
        return {name: value for name, value in settings.items() if value is not None}

    def java(self) -> dict[str, Any]:
        """Settings for Kafka's Java clients."""
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.ca_file:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": _text(self.ca_file)}
        if self.certificate_file:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": self.certificate_file.read_text(encoding="utf-8"),
                "ssl.keystore.key": (self.key_file or self.certificate_file).read_text(encoding="utf-8"),
                "ssl.key.password": self.key_password.get_secret_value() or None,
            }
        if self.mechanism:
            module = "plain.PlainLoginModule" if self.mechanism == "PLAIN" else "scram.ScramLoginModule"
            named = f'username="{_quoted(self.username)}" password="{_quoted(self.password.get_secret_value())}"'
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {named};",
            }
        return settings


class SecuritySpec(Model):
    """How clients prove who they are, without secrets: those come from the environment."""

    tls: bool = False
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    mechanism: Mechanism | None = None

    @classmethod
    def of(cls, security: Security) -> SecuritySpec:
        """What may be written down of it."""
        return cls(**{name: getattr(security, name) for name in cls.model_fields})

    def with_secrets(self) -> Security:
        """The whole of it, with what the environment holds."""
        return from_environment(**{name: getattr(self, name) for name in type(self).model_fields})


def from_environment(
    *,
    tls: bool,
    ca_file: Path | None,
    certificate_file: Path | None,
    key_file: Path | None,
    mechanism: Mechanism | None,
) -> Security:
    """What the flags say, with the secrets that the environment or the files it names hold."""
    for file in (ca_file, certificate_file, key_file):
        if file is not None and not file.is_file():
            raise UsageError(f"there is no file {file}", "check the path")
    key_password = _secret(KEY_PASSWORD_VARIABLE)
    _check_certificates(ca_file, certificate_file, key_file, key_password)
    username = os.environ.get(USERNAME_VARIABLE, "")
    password = _secret(PASSWORD_VARIABLE)
    if mechanism and not (username and password):
        raise UsageError(
            f"SASL {mechanism} needs a user name and a password",
            f"set {USERNAME_VARIABLE}, and {PASSWORD_VARIABLE} or {PASSWORD_VARIABLE}_FILE",
        )
    return Security(
        tls=tls or any((ca_file, certificate_file, key_file)),
        ca_file=ca_file,
        certificate_file=certificate_file,
        key_file=key_file,
        mechanism=mechanism,
        username=username,
        password=SecretStr(password),
        key_password=SecretStr(key_password),
    )


def _check_certificates(ca: Path | None, certificate: Path | None, key: Path | None, key_password: str) -> None:
    """Say now what is wrong with the files: a client would only say that it cannot connect."""
    if key and not certificate:
        raise UsageError("a client key was given without its certificate", "add --tls-cert")
    reading = ca
    try:
        context = ssl.create_default_context(cafile=ca)
        reading = certificate
        if certificate:
            context.load_cert_chain(certificate, key, lambda: key_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        raise UsageError(
            f"{reading} cannot be used for TLS ({error})", "give PEM files that belong together"
        ) from error


def _secret(variable: str) -> str:
    file = os.environ.get(f"{variable}_FILE")
    if file is None:
        return os.environ.get(variable, "")
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{variable}_FILE cannot be read ({error})", "check the path it holds") from error


def _quoted(text: str) -> str:
    """For a JAAS configuration, within double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text(path: Path | None) -> str | None:
    return str(path) if path else None
