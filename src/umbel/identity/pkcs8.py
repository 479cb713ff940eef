"""An encrypted private key as a standard PKCS#8 file, with a key derivation worth its name.

The library's own choice, PBKDF2 with 2,048 rounds, lets a stolen file be tried thousands of times
a second. This writes PBES2 with scrypt and AES-256-CBC; the library and OpenSSL read it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import textwrap

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

BEGIN = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_END = b"-----END ENCRYPTED PRIVATE KEY-----"

_N, _R, _P = 16_384, 8, 5  # 16 MiB, within OpenSSL's limit of 32; about 0.2 s

_INTEGER, _OCTETS, _OID, _SEQUENCE = 0x02, 0x04, 0x06, 0x30
_PBES2 = bytes.fromhex("2a864886f70d01050d")  # 1.2.840.113549.1.5.13
_SCRYPT = bytes.fromhex("2b06010401da47040b")  # 1.3.6.1.4.1.11591.4.11
_AES_256_CBC = bytes.fromhex("60864801650304012a")  # 2.16.840.1.101.3.4.1.42


def encrypt(key_der: bytes, secret: bytes) -> bytes:
    """Give the PKCS#8 key (DER) encrypted, as PEM."""
    salt, iv = secrets.token_bytes(16), secrets.token_bytes(16)
    key = hashlib.scrypt(secret, salt=salt, n=_N, r=_R, p=_P, dklen=32)
    padder = PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES256(key), modes.CBC(iv)).encryptor()
    closed = encryptor.update(padder.update(key_der) + padder.finalize()) + encryptor.finalize()
    return _pem(_tlv(_SEQUENCE, _scheme(salt, iv), _tlv(_OCTETS, closed)))


def _scheme(salt: bytes, iv: bytes) -> bytes:
    costs = (_integer(number) for number in (_N, _R, _P))
    derivation = _tlv(_SEQUENCE, _tlv(_OID, _SCRYPT), _tlv(_SEQUENCE, _tlv(_OCTETS, salt), *costs))
    cipher = _tlv(_SEQUENCE, _tlv(_OID, _AES_256_CBC), _tlv(_OCTETS, iv))
    return _tlv(_SEQUENCE, _tlv(_OID, _PBES2), _tlv(_SEQUENCE, derivation, cipher))


def _tlv(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    if size < 0x80:  # noqa: PLR2004  # DER: short lengths are one byte
        return bytes((tag, size)) + body
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + body


def _integer(number: int) -> bytes:
    return _tlv(_INTEGER, number.to_bytes(number.bit_length() // 8 + 1))


def _pem(der: bytes) -> bytes:
    lines = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return b"\n".join((BEGIN, *(line.encode() for line in lines), _END, b""))
