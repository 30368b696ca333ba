"""The process that `bench-warc` measures: decodes or exports one file, by us or by others, and
tells what it took. `python -m loadtest.bench.warc.handlers ORDER`."""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from fastwarc.warc import ArchiveIterator as FastIterator
from fastwarc.warc import response
from warcio.archiveiterator import ArchiveIterator

from loadtest.bench.warc.cells import BARE, CHECKED, DECODE, EXPORT, OURS, PLAIN, WarcOrder
from manyhands.worker.warc.digests import Digest
from manyhands.worker.warc.exporting import export_archive
from manyhands.worker.warc.outputs import LocalOutput
from manyhands.worker.warc.reading import ArchivedRecord, Position, read_archive
from manyhands.worker.warc.sources import LocalStream

TABLE = "bench.parquet"
MAX_BODY_BYTES = 1024 * 1024

# Pages, and the bytes of their bodies.
Found = tuple[int, int]


class WrongResult(Exception):
    """Not what is in the file."""


def decode_bare(order: WarcOrder) -> Found:
    pages = size = 0
    with Path(order.path).open("rb") as file:
        for record in FastIterator(file, parse_http=True):
            body = record.reader.read()
            if record.record_type == response:
                pages += 1
                size += len(body)
    return pages, size


def decode_ours(order: WarcOrder) -> Found:
    return _decoded(order, checks_digests=False)


def decode_checked(order: WarcOrder) -> Found:
    return _decoded(order, checks_digests=True)


def _decoded(order: WarcOrder, *, checks_digests: bool) -> Found:
    wanted = Digest.OK if checks_digests else Digest.NONE
    pages = size = 0
    stream = LocalStream(Path(order.path))
    for item in read_archive(stream, Position(), MAX_BODY_BYTES, checks_digests=checks_digests):
        if not isinstance(item, ArchivedRecord) or item.digest_state is not wanted:
            raise WrongResult(f"not a good record: {item}")
        pages += 1
        size += len(item.body)
    stream.close()
    return pages, size


def export_plain(order: WarcOrder) -> Found:
    """As anybody would write it who has a file and wants a table."""
    rows = []
    with Path(order.path).open("rb") as file:
        archive = ArchiveIterator(file)
        for record in archive:
            if record.rec_type != "response":
                continue
            headers, http = record.rec_headers, record.http_headers
            body = record.content_stream().read()
            rows.append(
                {
                    "url": headers.get_header("WARC-Target-URI"),
                    "date": headers.get_header("WARC-Date"),
                    "status": int(http.get_statuscode()),
                    "content_type": http.get_header("Content-Type"),
                    "digest": headers.get_header("WARC-Payload-Digest"),
                    "payload_length": len(body),
                    "ip": headers.get_header("WARC-IP-Address"),
                    "headers": http.to_ascii_bytes(),
                    "body": body,
                    "is_truncated": headers.get_header("WARC-Truncated") is not None,
                    "warc_offset": archive.get_record_offset(),
                }
            )
    pq.write_table(pa.Table.from_pylist(rows), Path(order.directory) / TABLE, compression="zstd")
    return len(rows), sum(row["payload_length"] for row in rows)


def export_ours(order: WarcOrder) -> Found:
    output = LocalOutput(Path(order.directory), TABLE)
    exported = export_archive(LocalStream(Path(order.path)), output, lambda _: None)
    return exported.rows, order.payload_bytes


WORK: dict[tuple[str, str], Callable[[WarcOrder], Found]] = {
    (DECODE, BARE): decode_bare,
    (DECODE, OURS): decode_ours,
    (DECODE, CHECKED): decode_checked,
    (EXPORT, PLAIN): export_plain,
    (EXPORT, OURS): export_ours,
}


def run(order: WarcOrder) -> dict[str, float]:
    started, cpu = time.perf_counter(), time.process_time()
    found = WORK[order.work, order.side](order)
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    # In KiB, as Linux tells it; before the table is read again.
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if found != (order.pages, order.payload_bytes):
        raise WrongResult(f"{found} instead of {(order.pages, order.payload_bytes)}")
    values = {
        "mb_per_s": order.payload_bytes / seconds / 1e6,
        "pages": order.pages,
        "pages_per_s": order.pages / seconds,
        "cpu_us": cpu_s / order.pages * 1e6,
        "peak_mb": peak_mb,
    }
    if order.work == EXPORT:
        values |= _checked_table(order)
    return values


def _checked_table(order: WarcOrder) -> dict[str, float]:
    """Read back as a whole: every length, by the bodies themselves."""
    path = Path(order.directory) / TABLE
    pages = size = 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=500, columns=["payload_length", "body"]):
            lengths = [len(body.as_py()) for body in batch["body"]]
            if lengths != batch["payload_length"].to_pylist():
                raise WrongResult("a body of the table has another length")
            pages += len(lengths)
            size += sum(lengths)
        groups = file.num_row_groups
    if (pages, size) != (order.pages, order.payload_bytes):
        raise WrongResult(f"the table has {pages} rows with {size} bytes")
    table_mb = path.stat().st_size / 1e6
    path.unlink()
    return {"table_mb": table_mb, "row_groups": groups}


if __name__ == "__main__":
    print(json.dumps(run(WarcOrder(**json.loads(sys.argv[1])))))
