"""Password authentication by SCRAM-SHA-256 (RFC 5802, 7677), the server's side. The password never crosses the wire,
and what is kept of it cannot be used to log in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass

from headrace.errors import HeadraceError

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096


class AuthenticationFailed(HeadraceError):
    sqlstate = "28P01"


@dataclass(frozen=True)
class Verifier:
    """What is known of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int = ITERATIONS

    @staticmethod
    def of(password: str) -> Verifier:
        salt = os.urandom(16)
        salted = hashlib.pbkdf2_hmac("sha256", prepared(password).encode(), salt, ITERATIONS)
        return Verifier(salt, hashlib.sha256(_hmac(salted, b"Client Key")).digest(), _hmac(salted, b"Server Key"))

    def of_nobody(self, user: str) -> Verifier:
        """For a name that nobody has. It looks like anybody's: its salt is the same each time, as a real one is."""
        salt = _hmac(self.server_key, b"salt of " + user.encode())[:16]
        return Verifier(salt, os.urandom(32), os.urandom(32), self.iterations)


def prepared(password: str) -> str:
    """As clients prepare it before they use it (SASLprep, RFC 4013). One that cannot be prepared is used as it is.

    >>> prepared("I\u00adX"), prepared("\u2168"), prepared("a\u00a0b")
    ('IX', 'IX', 'a b')
    """
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each for each in password if not stringprep.in_table_b1(each)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    return password if not normal or any(_prohibited(each) for each in normal) or _mixed_directions(normal) else normal


def _prohibited(character: str) -> bool:
    return any(table(character) for table in _PROHIBITED)


_PROHIBITED = (
    stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
    stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
    stringprep.in_table_c9, stringprep.in_table_a1,
)  # fmt: skip


def _mixed_directions(text: str) -> bool:
    if not any(map(stringprep.in_table_d1, text)):
        return False
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return not ends or any(map(stringprep.in_table_d2, text))


class Exchange:
    """One attempt to log in: :meth:`first`, then :meth:`final`."""

    def __init__(self, verifier: Verifier):
        self._verifier = verifier

    def first(self, message: bytes) -> bytes:
        """The client's first message, and our answer."""
        try:
            flag, _, bare = message.decode().split(",", 2)
            fields = dict(part.split("=", 1) for part in bare.split(","))
            nonce = fields["r"]
        except (UnicodeDecodeError, ValueError, KeyError):
            raise AuthenticationFailed("malformed SCRAM message") from None
        if flag not in ("n", "y"):
            raise AuthenticationFailed("channel binding is not supported")
        self._flag, self._bare = flag, bare
        self._nonce = nonce + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._verifier.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._challenge.encode()

    def final(self, message: bytes) -> bytes:
        """The client's proof, and ours."""
        try:
            text = message.decode()
            without_proof, proof_text = text.rsplit(",p=", 1)
            fields = dict(part.split("=", 1) for part in without_proof.split(","))
            proof = base64.b64decode(proof_text, validate=True)
            binding = base64.b64decode(fields["c"], validate=True).decode()
            nonce = fields["r"]
        except (UnicodeDecodeError, ValueError, KeyError, binascii.Error):
            raise AuthenticationFailed("malformed SCRAM message") from None
        signed = f"{self._bare},{self._challenge},{without_proof}".encode()
        signature = _hmac(self._verifier.stored_key, signed)
        key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        right = hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key)
        if not right or nonce != self._nonce or binding != f"{self._flag},,":
            raise AuthenticationFailed("password authentication failed")
        return b"v=" + base64.b64encode(_hmac(self._verifier.server_key, signed))


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")
