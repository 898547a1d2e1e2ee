"""Repeatable dice: the same roll in Python and in Spark, on every machine and in every partitioning."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

_MASK = (1 << 64) - 1
_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME_4, _PRIME_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SPARK_SEED = 42


@dataclass(frozen=True)
class Dice:
    """Rolls that depend only on the seed, a purpose and two numbers (usually a day and a row number).

    >>> Dice(7).roll("amount", 6, 20_568, 1) == Dice(7).roll("amount", 6, 20_568, 1)
    True
    """

    seed: int

    def roll(self, purpose: str, sides: int, day: int, number: int) -> int:
        """Return a number from 0 to `sides - 1`."""
        digest = _SPARK_SEED
        for part in (self.seed, _salt(purpose), day, number):
            digest = _hash_long(part, digest)
        signed = digest - (1 << 64) if digest >> 63 else digest
        return signed % sides

    def column(self, purpose: str, sides: int, day: Column, number: Column) -> Column:
        """Return the same number as `roll`, as a Spark column over two bigint columns."""
        fixed = [F.lit(part).cast("bigint") for part in (self.seed, _salt(purpose))]
        return F.pmod(F.xxhash64(*fixed, day, number), F.lit(sides).cast("bigint"))


def _salt(purpose: str) -> int:
    return zlib.crc32(purpose.encode())


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _hash_long(value: int, seed: int) -> int:
    """XXH64 of one 8-byte integer, which is what Spark's `xxhash64` does to each bigint in turn."""
    digest = (seed + _PRIME_5 + 8) & _MASK
    digest ^= (_rotate((value * _PRIME_2) & _MASK, 31) * _PRIME_1) & _MASK
    digest = (_rotate(digest, 27) * _PRIME_1 + _PRIME_4) & _MASK
    digest = ((digest ^ (digest >> 33)) * _PRIME_2) & _MASK
    digest = ((digest ^ (digest >> 29)) * _PRIME_3) & _MASK
    return digest ^ (digest >> 32)
