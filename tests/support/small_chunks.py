"""The handlers of `warc` jobs with chunks so small that a short file has many. Loaded by a worker
of a test."""

import worker.warc.chunks

worker.warc.chunks.CHUNK_BYTES = 60_000

from worker.handlers import warc  # noqa: E402, F401
