"""The handlers of `warc` jobs with chunks so small that a short file has many. Loaded by a worker
of a test."""

import manyhands.worker.warc.chunks

manyhands.worker.warc.chunks.CHUNK_BYTES = 60_000

from manyhands.worker.handlers import warc  # noqa: E402, F401
