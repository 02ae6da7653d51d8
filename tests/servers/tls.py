"""TLS for the tests' servers: an authority of the test's own, and a front for a server that speaks none itself."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from servers.process import PATIENCE, MissingPartError, free_port

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS = "2"
_FRONT = str(Path(__file__).with_name("tls_front.py"))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, in files."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates, which are good for who trusts `cert`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self.cert = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._openssl(
            *("req", "-x509", *_CURVE, "-days", _DAYS, "-subj", f"/CN={name}"),
            *("-keyout", self._key, "-out", self.cert, "-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )

    def sign(self, subject: str, names: str = "IP:127.0.0.1") -> Certificate:
        """Return a certificate for a server with these names, or for a client."""
        request, rules = self._folder / "request", self._folder / "rules"
        made = Certificate(
            self._folder / f"{self._name}-{subject}.crt", self._folder / f"{self._name}-{subject}.key"
        )
        rules.write_text(f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\n")
        self._openssl("req", *_CURVE, "-subj", f"/CN={subject}", "-keyout", made.key, "-out", request)
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", _DAYS, "-extfile", rules, "-out", made.cert),
        )
        made.key.chmod(0o600)
        return made

    def _openssl(self, *words: str | Path) -> None:
        program = shutil.which("openssl")
        if program is None:
            raise MissingPartError("no certificates for the tests: install openssl so that it is on PATH")
        subprocess.run([program, *map(str, words)], check=True, capture_output=True, stdin=subprocess.DEVNULL)


class TlsFront:
    """Listens with TLS and passes everything on to a port of this machine: a Redis for tests is built without TLS.

    With `clients` only those are let in who have a certificate of this authority.
    """

    def __init__(self, behind: int, certificate: Certificate, clients: Authority | None = None) -> None:
        self.port = free_port()
        trusted = [] if clients is None else [clients.cert]
        words = [self.port, behind, certificate.cert, certificate.key, *trusted]
        self._command = [sys.executable, _FRONT, *map(str, words)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the front for TLS did not start"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.communicate(timeout=PATIENCE)
