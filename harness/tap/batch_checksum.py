"""The checksum of a batch, renewed from what has changed, so that a long batch need not be read again."""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78  # of CRC-32C, its highest power last


def crc_of_changes(changes: bytes, following: int) -> int:
    """What changed bits do to a checksum when so many unchanged bytes follow: the checksum is linear in them.

    Kafka-python computes checksums in Python: a whole batch takes milliseconds, its header does not.
    """
    crc = 0
    for byte in changes:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
    power = 0x00800000  # eight bits further
    while following:
        if following & 1:
            crc = _product(crc, power)
        power = _product(power, power)
        following >>= 1
    return crc


def _product(a: int, b: int) -> int:
    """Of two polynomials, modulo that of CRC-32C."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
