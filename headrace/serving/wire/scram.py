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
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
        return Verifier(salt, hashlib.sha256(_hmac(salted, b"Client Key")).digest(), _hmac(salted, b"Server Key"))


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
