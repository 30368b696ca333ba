"""Faktory's commands: a line in, an answer out. No business logic, as in Faktory's own layer.

Error texts are Faktory's where clients match on them.
"""

import asyncio
import codecs
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
import orjson

from manyhands.broker.answers import Answer, Answers
from manyhands.broker.batches import SET_NAMES
from manyhands.broker.clients import STATES, Clients
from manyhands.broker.fetches import Fetches, bulk
from manyhands.broker.jobs import (
    Int64,
    Refused,
    WireJob,
    decode_one,
    parse_time,
    read_many,
    read_one,
    utc_text,
)
from manyhands.broker.manager import Manager
from manyhands.broker.mutations import Mutation, check_pattern, mutate
from manyhands.broker.queues import Queue
from manyhands.shared.logs import get_logger
from manyhands.shared.memory import own_resident_bytes

OK = b"+OK\r\n"
# What we are compatible with; some clients look at it.
FAKTORY_VERSION = "1.10.0"
# What FETCH lines mean is remembered: so many of them, of so many bytes, together so many.
MAX_CACHED_FETCHES = 1024
MAX_CACHED_FETCH_BYTES = 4096
# Only a PUSH and a PUSHB may have the length of a line; what is decoded of a command can be many
# times its length.
MAX_COMMAND_BYTES = 4 * 1024 * 1024
MAX_FETCH_BYTES = 64 * 1024
# Objects in a PUSHB: each can be a job, of some 50 bytes in the line and a kilobyte in memory.
MAX_PUSHED_OBJECTS = 100_000
COUNTED_PUSH_BYTES = 1024 * 1024
# With more queues than this, INFO shows them as they were a second ago.
MANY_QUEUES = 10_000
QUEUES_SHOWN_FOR_S = 1.0
SPARE_STACK = 200
# Characters of a client's line that an error repeats.
MAX_QUOTED = 200
UTF8_PIECE = 256 * 1024


class Fail(msgspec.Struct):
    jid: str | None = None
    errtype: str | None = None
    message: str | None = None
    backtrace: list[str | None] | None = None


class Beat(msgspec.Struct):
    wid: str | None = None
    current_state: str | None = None
    rss_kb: Int64 | None = None


class Held(msgspec.Struct):
    wid: str
    jids: set[str]


# Null is an empty object, and in it an empty value.
_decode_fail = msgspec.json.Decoder(Fail | None).decode
_decode_beat = msgspec.json.Decoder(Beat | None).decode
_decode_held = msgspec.json.Decoder(Held).decode
_decode_ack = msgspec.json.Decoder(dict[str, str | None] | None).decode
_decode_mutation = msgspec.json.Decoder(Mutation | None).decode
# Verbs that are nothing by themselves, and what Faktory says to them. A space behind the verb is
# enough to be told what is missing.
_BARE = dict.fromkeys((b"PUSH", b"PUSHB", b"ACK", b"FAIL", b"BEAT", b"QUEUE"), "internal error") | {
    b"FETCH": "must call fetch with at least one queue",
    b"MUTATE": "invalid format",
}


def error(text: str) -> bytes:
    return b"-ERR " + text.replace("\r", " ").replace("\n", " ").encode() + b"\r\n"


class Caller(Protocol):
    """The connection that a command came on."""

    answers: Answers
    fetches: Fetches

    def close(self) -> None:
        """Close when everything that was asked before has been answered."""


class Verbs:
    """State: what FETCH lines mean, remembered; how many commands there were."""

    def __init__(self, manager: Manager, clients: Clients) -> None:
        self.commands = 0
        self.connections = 0
        self._started_at = time.monotonic()
        self.manager = manager
        self._clients = clients
        self._log = get_logger("verbs")
        self._fetch_lines: dict[bytes, list[Queue]] = {}
        self._forgotten_queues = 0
        self._queues_shown: dict[str, int] = {}
        self._paused_shown: list[str] = []
        self._queues_shown_until = 0.0
        self._mutations: set[asyncio.Task[None]] = set()

    def run(self, caller: Caller, line: bytes) -> None:
        verb, space, rest = line.partition(b" ")
        action = _ACTIONS.get(verb)
        if action is None:
            caller.answers.reply(error(f"unknown command {_text(verb)[:MAX_QUOTED]}"))
            return
        self.commands += 1
        try:
            if not space and verb in _BARE:
                raise Refused(_BARE[verb])
            if len(rest) > MAX_FETCH_BYTES:
                _check_length(verb, rest)
            action(self, caller, rest)
        except Refused as refusal:
            caller.answers.reply(error(str(refusal)))

    # Jobs

    def _push(self, caller: Caller, rest: bytes) -> None:
        jobs = _decode_pushed(read_one, rest)
        self._store(
            caller,
            jobs,
            "the job was not stored",
            lambda reasons: error(next(iter(reasons.values()))) if reasons else OK,
        )

    def _push_bulk(self, caller: Caller, rest: bytes) -> None:
        if len(rest) > COUNTED_PUSH_BYTES and rest.count(b"{") > MAX_PUSHED_OBJECTS:
            raise Refused(f"more than {MAX_PUSHED_OBJECTS} objects in one PUSHB: send it in parts")
        jobs = _decode_pushed(read_many, rest)
        self._store(caller, jobs, "no job was stored", lambda reasons: bulk(orjson.dumps(reasons)))

    def _store(
        self,
        caller: Caller,
        jobs: list[WireJob],
        complaint: str,
        answer_to: Callable[[dict[str, str]], bytes],
    ) -> None:
        """Answer when they are stored; `answer_to` gets the reasons why some of them are not."""
        answer = caller.answers.reply_later()
        try:
            reasons = self.manager.intake.push(
                jobs, answer.ready, lambda why: answer.give(error(f"{why}: {complaint}"))
            )
        except Refused as refusal:
            answer.give(error(str(refusal)))
            return
        answer.fill(answer_to(reasons))

    def run_fetches(self, caller: Caller, line: bytes, count: int) -> int:
        """So many times the same FETCH. Returns how many of them were run: none if it is not known
        yet what they mean."""
        queues = self._remembered(line[len(b"FETCH ") :])
        if queues is None:
            return 0
        done = caller.fetches.fetch(queues, count)
        self.commands += done
        return done

    def _fetch(self, caller: Caller, rest: bytes) -> None:
        queues = self._remembered(rest)
        caller.fetches.fetch(self._remember(rest) if queues is None else queues, 1)

    def _remembered(self, rest: bytes) -> list[Queue] | None:
        if self._forgotten_queues != self.manager.queues.forgotten:
            self._fetch_lines.clear()
            self._forgotten_queues = self.manager.queues.forgotten
        return self._fetch_lines.get(rest)

    def _remember(self, rest: bytes) -> list[Queue]:
        if len(self._fetch_lines) >= MAX_CACHED_FETCHES:
            self._fetch_lines.clear()
        queues = self.manager.queues.named(_text(rest).split(" "))
        if len(rest) <= MAX_CACHED_FETCH_BYTES:
            self._fetch_lines[rest] = queues
        return queues

    def acknowledge(self, caller: Caller, jids: list[str]) -> None:
        """A run of ACK lines that need no JSON parser: one answer for all of them."""
        self.commands += len(jids)
        self.manager.acknowledge(jids)
        self._ok_when_stored(caller, len(jids))

    def _ack(self, caller: Caller, rest: bytes) -> None:
        fields = _decode(_decode_ack, rest, "invalid ACK ")
        if not fields or "jid" not in fields:
            raise Refused(f"invalid ACK {_text(rest[:MAX_QUOTED])}")
        self.manager.acknowledge([fields["jid"] or ""])
        self._ok_when_stored(caller)

    def _fail(self, caller: Caller, rest: bytes) -> None:
        failure = _decode(_decode_fail, rest, "invalid FAIL ") or Fail()
        if not failure.jid:
            raise Refused("missing JID")
        backtrace = [line or "" for line in failure.backtrace or ()]
        self.manager.fail(failure.jid, failure.errtype or "", failure.message or "", backtrace)
        self._ok_when_stored(caller)

    def _held(self, caller: Caller, rest: bytes) -> None:
        """Ours: the connection of this worker id broke, and its client has these jobs."""
        held = _decode(_decode_held, rest, "invalid HELD ")
        if not held.wid:
            raise Refused("HELD needs a worker id")
        worker = self._clients.workers.get(held.wid)
        for peer in list(worker.peers) if worker else ():
            peer.abort()
        self.manager.keep_held(held.wid, held.jids, caller.fetches.owner)
        self._ok_when_stored(caller)

    # Workers

    def _beat(self, caller: Caller, rest: bytes) -> None:
        beat = _decode(_decode_beat, rest, "invalid BEAT ") or Beat()
        wid = beat.wid or ""
        worker = self._clients.beat(wid, beat.current_state, beat.rss_kb or 0, time.monotonic())
        if worker is None:
            raise Refused(f"unknown worker {wid}")
        state = STATES[worker.state]
        caller.answers.reply(bulk(orjson.dumps({"state": state})) if state else OK)

    def _end(self, caller: Caller, rest: bytes) -> None:
        del rest
        caller.close()

    # The server

    def _info(self, caller: Caller, rest: bytes) -> None:
        del rest
        caller.answers.reply(bulk(orjson.dumps(self.state())))

    def state(self) -> dict[str, Any]:
        """What INFO and /stats say, in Faktory's shape."""
        manager, now = self.manager, time.time()
        self._look_at_queues()
        queues = self._queues_shown
        sets = {name: manager.store.counters[name] for name in SET_NAMES}
        return {
            "now": utc_text(now),
            "server_utc_time": datetime.fromtimestamp(now, UTC).strftime("%H:%M:%S UTC"),
            "faktory": {
                "queues": queues,
                "paused": self._paused_shown,
                "sets": sets | {"working": len(manager.reservations.in_hand)},
                "tasks": {
                    "Busy": {
                        "size": len(manager.reservations.in_hand),
                        "reaped": manager.reservations.expired,
                    },
                    "Workers": {"size": len(self._clients.workers), "reaped": self._clients.reaped},
                    **{
                        name.title(): {
                            "enqueued": scan.moved,
                            "cycles": scan.cycles,
                            "size": sets[name],
                            "wall_time_sec": scan.took_s,
                        }
                        for name, scan in manager.sets.scans.items()
                    },
                },
                "total_enqueued": sum(queues.values()),
                "total_failures": manager.store.counters["failures"],
                "total_processed": manager.store.counters["processed"],
                "total_queues": len(queues),
            },
            "server": self._server()
            | {
                "uptime": int(time.monotonic() - self._started_at),
                "used_memory_mb": own_resident_bytes() // 2**20,
                **self._damage(),
            },
        }

    def health(self) -> dict[str, Any]:
        """What /health says, in Faktory's shape."""
        return {"now": utc_text(time.time()), "server": self._server()}

    def _server(self) -> dict[str, Any]:
        return {
            "description": "Manyhands broker",
            "faktory_version": FAKTORY_VERSION,
            "connections": self.connections,
            "command_count": self.commands,
        }

    def _damage(self) -> dict[str, Any]:
        """Ours, and only when there is some."""
        damage = self.manager.store.damage
        told: dict[str, Any] = {}
        if damage.is_there:
            told |= {"damage": damage.sentence(), "unreadable_jobs": damage.unreadable_jobs}
        return told | ({"lost": damage.lost} if damage.lost is not None else {})

    def _look_at_queues(self) -> None:
        now = time.monotonic()
        if len(self.manager.queues.by_name) <= MANY_QUEUES or now >= self._queues_shown_until:
            queues = list(self.manager.queues.listed())
            self._queues_shown = {queue.name: queue.size for queue in queues}
            self._paused_shown = [queue.name for queue in queues if queue.is_paused]
            self._queues_shown_until = now + QUEUES_SHOWN_FOR_S

    def _flush(self, caller: Caller, rest: bytes) -> None:
        del rest
        self.manager.flush()
        caller.answers.awaited = self._ok_when_stored(caller)

    # QUEUE

    def _queue(self, caller: Caller, rest: bytes) -> None:
        action, *names = _text(rest).split(" ")
        action = action.upper()
        if action == "LATENCY":
            caller.answers.reply(bulk(orjson.dumps(self._latencies(names))))
            return
        if action not in ("PAUSE", "RESUME", "REMOVE"):
            raise Refused(f"no such QUEUE subcommand: {action}")
        if not names:
            raise Refused("internal error")
        manager = self.manager
        if names[0] == "*":
            names = [queue.name for queue in manager.queues.listed()]
        known = manager.queues.by_name
        queues = {name: known[name] for name in names if name in known}
        if action == "REMOVE":
            manager.remove(list(queues.values()))
        else:
            is_paused = action == "PAUSE"
            for queue in queues.values():
                if queue.is_listed and queue.is_paused != is_paused:
                    manager.pause(queue, is_paused=is_paused)
        caller.answers.awaited = self._ok_when_stored(caller)

    def _latencies(self, names: list[str]) -> dict[str, float]:
        if names == ["*"]:
            raise Refused("QUEUE LATENCY does not support wildcards")
        return {name: self.latency_s(name) for name in names}

    def latency_s(self, name: str) -> float:
        """The age of a queue's oldest job."""
        queue = self.manager.queues.by_name.get(name)
        oldest = queue.oldest() if queue else None
        payload = self.manager.payload_of(oldest) if oldest else None
        if payload is None:
            return 0  # as Go writes it
        enqueued_at = decode_one(payload).enqueued_at
        return max(0.0, time.time() - parse_time(enqueued_at or "", "enqueued_at"))

    # MUTATE

    def _mutate(self, caller: Caller, rest: bytes) -> None:
        if b" " in rest:
            raise Refused("invalid format")
        mutation = _decode(_decode_mutation, rest, "") or Mutation()
        if mutation.cmd not in ("clear", "kill", "discard", "requeue"):
            raise Refused("unknown mutate operation")
        if mutation.target not in SET_NAMES:
            raise Refused("invalid target for mutation command")
        if mutation.cmd == "clear" or (mutation.cmd == "discard" and mutation.filter is None):
            self.manager.sets.clear(mutation.target)
            caller.answers.awaited = self._ok_when_stored(caller)
            return
        check_pattern(mutation)
        answer = caller.answers.reply_later()
        caller.answers.awaited = answer
        task = asyncio.get_running_loop().create_task(mutate(self.manager, mutation))
        self._mutations.add(task)
        task.add_done_callback(self._mutations.discard)
        task.add_done_callback(lambda _: self._end_mutation(task, answer))

    def _end_mutation(self, task: asyncio.Task[None], answer: Answer) -> None:
        if task.cancelled():
            return
        if (problem := task.exception()) is not None:
            self._log.error("MUTATE failed", reason=str(problem), kind=type(problem).__name__)
            answer.fill(error(f"MUTATE failed, perhaps half-way: {problem}"))
        else:
            answer.fill(OK)
        self.manager.store.batch.when_stored.append(answer.ready)

    def _ok_when_stored(self, caller: Caller, times: int = 1) -> Answer:
        answer = caller.answers.reply_later(OK * times)
        self.manager.store.batch.when_stored.append(answer.ready)
        return answer

    def _track(self, caller: Caller, rest: bytes) -> None:
        del caller, rest
        raise _only_paid("tracking")

    def _batch(self, caller: Caller, rest: bytes) -> None:
        del caller, rest
        raise _only_paid("batch")


_ACTIONS: dict[bytes, Callable[[Verbs, Caller, bytes], None]] = {
    b"PUSH": Verbs._push,
    b"PUSHB": Verbs._push_bulk,
    b"FETCH": Verbs._fetch,
    b"ACK": Verbs._ack,
    b"FAIL": Verbs._fail,
    b"BEAT": Verbs._beat,
    b"INFO": Verbs._info,
    b"FLUSH": Verbs._flush,
    b"QUEUE": Verbs._queue,
    b"MUTATE": Verbs._mutate,
    b"HELD": Verbs._held,
    b"END": Verbs._end,
    b"TRACK": Verbs._track,
    b"BATCH": Verbs._batch,
}


def _only_paid(what: str) -> Refused:
    return Refused(f"{what} subsystem is only available in Faktory Enterprise")


def _check_length(verb: bytes, rest: bytes) -> None:
    if verb in (b"PUSH", b"PUSHB"):
        return
    limit = MAX_FETCH_BYTES if verb == b"FETCH" else MAX_COMMAND_BYTES
    if len(rest) > limit:
        raise Refused(f"a {verb.decode()} of more than {limit} bytes")


def _decode(decoder: Callable[[bytes], Any], data: bytes, complaint: str) -> Any:
    try:
        _check_utf8(data)  # what is kept as it came would not be checked otherwise
        return decoder(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        said = str(problem) if complaint in ("", "invalid JSON: ") else _text(data)[:MAX_QUOTED]
        raise Refused(complaint + said) from None


def _check_utf8(data: bytes) -> None:
    """Raises UnicodeDecodeError. In pieces: decoded, a long line could be four times as long."""
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(data), UTF8_PIECE):
        decoder.decode(data[start : start + UTF8_PIECE])
    decoder.decode(b"", final=True)


def _decode_pushed(decoder: Callable[[bytes], Any], data: bytes) -> Any:
    """With less stack than there is later: what is read here can be read again anywhere."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(usual - SPARE_STACK)
    try:
        return _decode(decoder, data, "invalid JSON: ")
    finally:
        sys.setrecursionlimit(usual)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
