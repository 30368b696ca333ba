"""A checksum for each job that is stored: SQLite has none for its pages, and would hand out what a
damaged one holds. Pure.

CRC-32 finds every damage of up to 32 bits in a row and misses one in four billion of the others. It
begins with the key, so that a job that turns up under another key is found too.
"""

from zlib import crc32

_LOW_BITS = 0xFFFF_FFFF


def of_job(key: int, payload: bytes) -> int:
    return crc32(payload, key & _LOW_BITS)


def of_set_row(kind: str, jid: str, jobtype: str, payload: bytes) -> int:
    """The id is SQLite's to choose, and the time is in the payload as well."""
    return crc32(payload, crc32(f"{kind} {jid} {jobtype}".encode()))
