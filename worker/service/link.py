"""The messages between a worker process and its supervisor, over a pipe. Pure: structs and bytes.

The child sends from its event loop, so silence means that the loop does not turn.
"""

import msgspec

TURN_S = 1.0
# One interval for all figures, so that those of several processes fit together.
FIGURES_S = 5.0


class StageReport(msgspec.Struct, frozen=True):
    """A stage as the child resolved it: `queues` are the real names, shards included."""

    name: str
    queues: list[str]
    weight: int
    cap: int
    feeds: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The child has a lane up and takes jobs from now on. `store` is the tag of its store of
    crawls, empty when it has none or no stage that needs it; `left_out` are the stages that it
    cannot run without."""

    stages: list[StageReport]
    store: str = ""
    left_out: list[str] = []


class StagePulse(msgspec.Struct, frozen=True):
    """Of one stage, now: jobs running, FETCHes outstanding, FETCHes it would like to have."""

    name: str
    running: int
    outstanding: int
    window: int


class Pushed(msgspec.Struct, frozen=True):
    """What a child has pushed to one queue so far: the ratio is the mean size of a job."""

    jobs: int = 0
    bytes: int = 0


class SlowSink(msgspec.Struct, frozen=True):
    """How long the oldest record has waited for it."""

    name: str
    wait_s: float


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """Every second, and at once when the worker ids change.

    `fetch_silence_s` is how long a FETCH has been waiting since the last answer of any lane; 0
    when none is outstanding or no lane is up (then nobody could answer).
    """

    wids: list[str]
    is_connected: bool
    is_draining: bool
    in_hand: int
    unanswered: int
    fetch_silence_s: float
    loop_lag_s: float
    stages: list[StagePulse]
    # By queue, for the queues that its stages feed.
    pushed: dict[str, Pushed] = {}
    # It can open no more files or connections: the limit is reached.
    is_out_of_files: bool = False
    # What is away that its stages cannot go on without; empty: nothing.
    waits_for: str = ""
    # The slowest of its sinks, if any is slow.
    slow_sink: SlowSink | None = None


class Sample(msgspec.Struct, frozen=True):
    """One line of a metric: its labels' values, and a number, or a histogram's buckets."""

    labels: list[str]
    value: float = 0.0
    # Upper bounds are those of the family; counts are per bucket, not cumulated, +Inf last.
    buckets: list[int] = []


class Family(msgspec.Struct, frozen=True):
    """One metric of a child. `kind`: counter, gauge or histogram (`value` is then the sum)."""

    name: str
    kind: str
    help: str
    label_names: list[str]
    samples: list[Sample]
    bounds: list[float] = []


class Figures(msgspec.Struct, frozen=True, tag=True):
    """Every five seconds, and once more at the end."""

    families: list[Family]


class Backlog(msgspec.Struct, frozen=True, tag=True):
    """From the supervisor, every second: jobs waiting by queue, and by stage how much of its cap
    it may use (1 is all, 0 is none), because what it feeds is full. `fetch_queues` are those that
    have jobs, of whatever number of shards; `slow_sink` is the slowest of all children's."""

    queues: dict[str, int]
    paces: dict[str, float]
    fetch_queues: list[str] = []
    slow_sink: SlowSink | None = None


FromChild = Ready | Pulse | Figures
_encoder = msgspec.json.Encoder()
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_from_parent: msgspec.json.Decoder[Backlog] = msgspec.json.Decoder(Backlog)


def encode(message: FromChild | Backlog) -> bytes:
    return _encoder.encode(message)


def decode_from_child(data: bytes) -> FromChild:
    return _from_child.decode(data)


def decode_from_parent(data: bytes) -> Backlog:
    return _from_parent.decode(data)
