"""RSA signatures as RS256 wants them: PKCS #1 v1.5 with SHA-256 (RFC 8017, section 8.2).

For the tokens of a server that has no secrets to keep: nothing here takes the same time for every key.
"""

from __future__ import annotations

import hmac
import math
import secrets
from dataclasses import dataclass
from hashlib import sha256

BITS = 2048
EXPONENT = 65537
_SMALL_PRIMES = math.prod(n for n in range(3, 2000, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2)))
# What stands before the digest (section 9.2): the name of SHA-256, in DER.
_DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")


@dataclass(frozen=True, slots=True)
class Key:
    """A key pair. modulus: what is public, beside EXPONENT; the primes are what is not."""

    modulus: int
    primes: tuple[int, int]

    def sign(self, message: bytes) -> bytes:
        """By the Chinese remainder theorem, modulo each prime: four times as fast as modulo both."""
        p, q = self.primes
        padded = _padded(message)
        of_p, of_q = (pow(padded, pow(EXPONENT, -1, prime - 1), prime) for prime in (p, q))
        return (of_q + q * ((of_p - of_q) * pow(q, -1, p) % p)).to_bytes(BITS // 8)

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Whether this key has signed a message."""
        opened = pow(int.from_bytes(signature), EXPONENT, self.modulus)
        return hmac.compare_digest(opened.to_bytes(BITS // 8), _padded(message).to_bytes(BITS // 8))


def generate() -> Key:
    """A key of its own; takes some tenths of a second."""
    p, q = _prime(), _prime()
    return Key(p * q, (p, q))


def _prime() -> int:
    """With both of its first bits set, so that the product of two has all of its bits."""
    while True:
        number = secrets.randbits(BITS // 2) | 3 << (BITS // 2 - 2) | 1
        # Random numbers of this size that pass Fermat's test are prime, but for chances that are none.
        if math.gcd(number, _SMALL_PRIMES) == 1 and pow(2, number - 1, number) == 1 and (number - 1) % EXPONENT:
            return number


def _padded(message: bytes) -> int:
    info = _DIGEST_INFO + sha256(message).digest()
    return int.from_bytes(b"\x00\x01" + b"\xff" * (BITS // 8 - len(info) - 3) + b"\x00" + info)
