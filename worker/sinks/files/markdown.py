"""Pages as files of Markdown in a directory, one for each page.

Each file is written beside, synced and then renamed: a process that is killed leaves no half file.
A name says which record it is of, so one that is there is not written again.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from manyhands.shared.crawl.page_fields import RecordKind
from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.places import parse_place
from manyhands.worker.records import PageRecord, Record
from manyhands.worker.sinks.files.manifest import is_permanent
from manyhands.worker.sinks.files.markdown_pages import file_name, file_text
from manyhands.worker.sinks.files.segment_file import make_directory, sync_directory
from manyhands.worker.sinks.rows import rows_of

# A disk syncs several files in about the time of one.
THREADS = 8
# Where files are until they are whole. No draft is younger than this that belongs to a process
# which lives, for it is there for as long as a sync takes.
DRAFTS = ".drafts"
DRAFTS_KEPT_S = 600.0

# Where a page's file goes, and what is in it.
_File = tuple[Path, bytes]


class MarkdownSink:
    """A `Sink`, for `markdown:DIRECTORY`. Of records that are no page there is no file. State: the
    threads that write."""

    kinds: frozenset[type] = frozenset({PageRecord})

    def __init__(self, url: str) -> None:
        place = parse_place(url, {})
        if place.bucket is not None:
            raise ConfigError("SINKS: markdown writes to a directory: markdown:DIRECTORY")
        self.name = place.name
        self._directory = place.path
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sink")

    async def open(self) -> None:
        try:
            await asyncio.to_thread(self._prepare)
        except OSError as error:
            if is_permanent(error):
                raise ConfigError(f"SINKS: {self.name} cannot be written: {error}") from error
            raise

    async def write(self, records: Sequence[Record]) -> None:
        pages = [one for one in records if isinstance(one, PageRecord)]
        await asyncio.to_thread(self._write, [one for one in pages if one.kind == RecordKind.PAGE])

    async def close(self) -> None:
        self._threads.shutdown(wait=False)
        # Not while others use it.
        with suppress(OSError):
            (self._directory / DRAFTS).rmdir()

    def _prepare(self) -> None:
        drafts = self._directory / DRAFTS
        make_directory(drafts)
        for draft in drafts.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - draft.stat().st_mtime > DRAFTS_KEPT_S:
                    draft.unlink()

    def _write(self, pages: Sequence[PageRecord]) -> None:
        files = dict(rows_of(pages, self._file))
        for directory in {self._directory / DRAFTS, *(path.parent for path in files)}:
            make_directory(directory)
        # In one thread each; the first error is raised.
        list(self._threads.map(self._put, files.items()))
        for directory in {path.parent for path in files}:
            sync_directory(directory)

    def _file(self, record: Record) -> _File:
        assert isinstance(record, PageRecord)
        host, name = file_name(record)
        return self._directory / host / name, file_text(record)

    def _put(self, file: _File) -> None:
        path, text = file
        if path.exists():
            return
        draft = self._directory / DRAFTS / secrets.token_hex(8)
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(descriptor, "wb") as target:
                target.write(text)
                target.flush()
                os.fsync(target.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
