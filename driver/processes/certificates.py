"""The keys of a cluster that other machines can reach: an authority of its own, and what it certifies. `cep keys` makes them.

| file | what |
|---|---|
| `ca.crt`, `ca.key` | the cluster's authority: clients are given the first; the second is needed for nothing but making more |
| `server.crt`, `server.key`, `server.pem` | of REST and of ZooKeeper, for the names by which they are asked for; the last is both in one |
| `client.crt`, `client.key` | by which the cluster's processes are let in by ZooKeeper |
| `members.key` | the key pair by which they know each other on links (CURVE), JSON with `public` and `secret` in z85 |

Keys are of curve P-256, as TLS 1.2 and later, Java and Python all have it. A file is written whole or not at all, for its owner alone.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cep.errors import ClusterError
from cep.transport.curve import KeyPair, new_pair
from driver.processes.key_folder import KeyFolder

DAYS = 365
"""How long a certificate is good for, unless `cep keys --days` says otherwise."""

CA_DAYS = 3650
_EARLY = datetime.timedelta(hours=1)  # a host whose clock is behind takes it all the same
_HERE = ("localhost", "127.0.0.1", "::1")

_Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class KeyMaker:
    """Makes what is in a folder of keys."""

    folder: KeyFolder

    def make(self, names: Sequence[str], now: datetime.datetime, days: int = DAYS) -> None:
        """Makes all that is not there. Raises ClusterError: a certificate is there already, or the folder cannot be written."""
        if self.folder.server.exists():
            raise ClusterError(f"{self.folder.server} is there already: `cep keys --renew` makes a new one by the same authority")
        try:
            self.folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"the folder {self.folder.path} for the keys cannot be made: {error.strerror}") from None
        if not self.folder.ca.exists():
            self._make_authority(now)
        if not self.folder.members.exists():
            self._make_members(new_pair())
        self._certify(names, now, days)

    def renew(self, names: Sequence[str], now: datetime.datetime, days: int = DAYS) -> None:
        """New certificates by the same authority, for the names of before unless others are given. Raises ClusterError: none is there."""
        if not self.folder.ca.exists() or not self.folder.server.exists():
            raise ClusterError(f"there are no keys in {self.folder.path} to renew; `cep keys --name HOST` makes them")
        self._certify(names or names_of(self.folder.server), now, days)

    def _make_authority(self, now: datetime.datetime) -> None:
        key, name = ec.generate_private_key(ec.SECP256R1()), _name("CEP cluster authority")
        made = (
            _certificate(name, name, key, now, CA_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        self._write("ca.key", _key_pem(key))
        self._write("ca.crt", _pem(made), mode=0o644)  # what copies it elsewhere copies that, and there it is for every user

    def _make_members(self, pair: KeyPair) -> None:
        self._write("members.key", json.dumps({"public": pair.public, "secret": pair.secret.text}).encode() + b"\n")

    def _certify(self, names: Iterable[str], now: datetime.datetime, days: int) -> None:
        """The server's certificate comes last: where it is, all are. A disk may be full before."""
        key, certificate = self._issue("CEP cluster process", now, days, ExtendedKeyUsageOID.CLIENT_AUTH)
        for name, text in (("client.key", key), ("client.crt", certificate)):
            self._write(name, text)
        all_names = list(dict.fromkeys((*names, *_HERE)))
        own = x509.SubjectAlternativeName([_general_name(name) for name in all_names])
        key, certificate = self._issue(all_names[0], now, days, ExtendedKeyUsageOID.SERVER_AUTH, own)
        # A server that reads them anew meanwhile finds a pair, or an error after which it keeps the one of before.
        for name, text in (("server.pem", key + certificate), ("server.key", key), ("server.crt", certificate)):
            self._write(name, text)

    def _issue(
        self, name: str, now: datetime.datetime, days: int, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None = None
    ) -> tuple[bytes, bytes]:
        """A key and its certificate."""
        authority, signs = self._authority()
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _certificate(_name(name), authority.subject, key, now, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key()), critical=False)
        )
        if names is not None:
            made = made.add_extension(names, critical=False)
        return _key_pem(key), _pem(made.sign(signs, hashes.SHA256()))

    def _authority(self) -> tuple[x509.Certificate, _Key]:
        try:
            certificate = x509.load_pem_x509_certificate(self.folder.ca.read_bytes())
            key = serialization.load_pem_private_key((self.folder.path / "ca.key").read_bytes(), None)
        except (OSError, ValueError) as error:
            raise ClusterError(f"the authority in {self.folder.path} cannot be used: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ClusterError(f"{self.folder.path / 'ca.key'}: expected a key of an elliptic curve, got {type(key).__name__}")
        return certificate, key

    def _write(self, name: str, text: bytes, mode: int = 0o600) -> None:
        unnamed = self.folder.path / f".{name}.new"
        try:
            unnamed.unlink(missing_ok=True)
            handle = os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text)
            os.chmod(unnamed, mode)
            if os.geteuid() == 0:  # what root makes in a user's folder is that user's
                owner = self.folder.path.parent.stat()
                os.chown(unnamed, owner.st_uid, owner.st_gid)
                os.chown(self.folder.path, owner.st_uid, owner.st_gid)
            unnamed.rename(self.folder.path / name)
        except OSError as error:
            raise ClusterError(f"{self.folder.path / name} cannot be written: {error.strerror}") from None


def names_of(certificate: Path) -> list[str]:
    """The names and addresses that a certificate is for. Raises ClusterError: it cannot be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise ClusterError(f"{certificate} cannot be read: {error}") from None
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def ends(certificate: Path) -> datetime.datetime:
    """When it is good for nothing any more. Raises ClusterError: it cannot be read."""
    try:
        return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        raise ClusterError(f"{certificate} cannot be read: {error}") from None


def _certificate(subject: x509.Name, issuer: x509.Name, key: _Key, now: datetime.datetime, days: int) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: _Key) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
