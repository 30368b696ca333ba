"""The states of a crawl and of its URLs. Pure."""

from enum import IntEnum, StrEnum


class CrawlState(StrEnum):
    """STARTING: seeds are being taken, nothing is fetched yet. STOPPING: nothing new is fetched,
    requests in flight finish; the state it will end in is stored beside it."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    COMPLETED = "completed"
    LIMIT_REACHED = "limit_reached"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in FINAL_CRAWL_STATES


FINAL_CRAWL_STATES = frozenset(
    {
        CrawlState.COMPLETED,
        CrawlState.LIMIT_REACHED,
        CrawlState.CANCELLED,
        CrawlState.FAILED,
    }
)


class UrlState(IntEnum):
    """Stored as numbers. A URL in one of the first three states is unfinished."""

    QUEUED = 0
    # Taken from the backlog by its shard's owner: about to be fetched, or being fetched.
    CLAIMED = 1
    # Fetched; its parse job is in the broker.
    PARSING = 2
    DONE = 3
    # Fetched, and the answer was a redirect; its target is a separate URL.
    REDIRECTED = 4
    FAILED = 5
    # By robots.txt.
    DISALLOWED = 6
    # By our own rules: an unwanted content type, a blocked domain.
    SKIPPED = 7
    CANCELLED = 8
    # A fetch job that is not fetched because an earlier one of its URL was; `reason` is its jid.
    SAME = 9

    @property
    def is_pending(self) -> bool:
        return self <= UrlState.PARSING
