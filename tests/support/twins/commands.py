"""Sequences of commands, made up from a seed: every verb, and every field absent, null, empty, of
the wrong type, or unknown. Pure: the same number gives the same sequence."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

PAST, FUTURE = "2020-01-02T03:04:05Z", "2099-01-02T03:04:05.678Z"
# Stands for a jid that is in somebody's hands when the line is sent.
HELD = "@held@"
ABSENT: Any = object()

WRONG: tuple[Any, ...] = (None, "", "text", 5, -1, 1.5, 2**63, True, [], {}, [1], {"a": 1})
TEXTS: tuple[Any, ...] = (ABSENT, None, "", "some text", "Grüße <b>&\u2028 🐈", "x" * 300)
NUMBERS: tuple[Any, ...] = (ABSENT, None, 0, 1, -1, 3, 2**31, 2**63 - 1, -(2**63), 2**63, 10**30)
TIMES: tuple[Any, ...] = (ABSENT, None, "", PAST, FUTURE, "2020-01-02T03:04:05.123456789+05:30")
ODD_TIMES = (
    "tomorrow",
    "2020-01-02",
    "2099-01-02 03:04:05Z",
    "2099-01-02T03:04:05",
    "2099-01-02t03:04:05z",
    "2099-13-02T03:04:05Z",
    "2099-01-02T03:04:60Z",
    "2099-01-02T24:00:00Z",
    "20990102T030405Z",
    "2099-01-02T03:04:05,5Z",
    "0001-01-01T00:00:00Z",
)
ARGS: tuple[Any, ...] = (
    [],
    [1],
    [None, True, 0.1, 1e300, "Grüße <b>&\u2028 🐈", {"a": [{"b": []}]}],
    [[[[]]]],
    [""],
    [2**53, -(2**53)],
)
CUSTOMS: tuple[Any, ...] = (
    ABSENT,
    None,
    {},
    {"a": 1},
    {"ä": {"b": [None, "", {}]}, "expires_at": FUTURE},
    {"mh": {"id": "some", "deliveries": 2}},
)
FAILURES: tuple[Any, ...] = (
    ABSENT,
    None,
    {},
    {"retry_count": 2, "remaining": 23, "failed_at": PAST, "next_at": PAST, "message": "m"},
    {"retry_count": 30, "remaining": 0, "failed_at": PAST, "errtype": "E", "backtrace": ["a", ""]},
    {"retry_count": None, "remaining": None, "failed_at": None, "next_at": None, "backtrace": None},
    {"failed_at": "", "next_at": "", "message": "", "errtype": "", "backtrace": []},
    {"retry_count": "1"},
    {"backtrace": [None, "x"]},
    {"backtrace": "x"},
    {"unknown": 1},
)
BODIES = (
    *("", " ", "null", "[]", "{}", "[null]", "5", "-", '"text"', "true", "{", "[{}", "nonsense"),
    *('{"a":1,}', "{} {}", "{}x", '{"jid":"\\ud83d\\ude00-emoji"}', "[[]]", "{'a':1}", '{"a" 1}'),
    *('{"wid":5}', '{"jid":5}', '{"jid":null}', "01", "1e5", "[1,2]", '{"jid":"a\tb"}'),
)
JSON_VERBS = ("PUSH", "PUSHB", "ACK", "FAIL", "BEAT", "MUTATE")
HELLOS = (
    "HELLO {}",
    'HELLO {"v":2}',
    "HELLO",
    "HELLO ",
    "HELLO null",
    "HELLO []",
    "HELLO {",
    "HELLO  {}",
    "hello {}",
    "PUSH {}",
    "",
    "GET / HTTP/1.1",
    'HELLO {"v":2} x',
    'HELLO {"v":2,"unknown":[1]}',
)
HELLO_FIELDS = ("hostname", "wid", "pid", "labels", "username", "pwdhash", "v", "rss_kb")


@dataclass(slots=True)
class Sequence:
    """What one connection says, after its HELLO, to two servers that were emptied."""

    number: int
    hello: str
    lines: list[str] = field(default_factory=list)
    # Faktory takes the `retry` of a PUSH as default of later jobs; it is put right after each PUSH,
    # but not in these.
    is_default_left: bool = False


class Maker:
    """State: the dice, and what has been named in this sequence."""

    def __init__(self, seed: int, number: int) -> None:
        self._dice = random.Random(f"{seed} {number}")
        self._number = number
        self._jids: list[str] = []
        self.queues = [f"q{number}-{letter}" for letter in "abc"]
        self.wid = f"w{number}"

    def sequence(self, length: int) -> Sequence:
        dice = self._dice
        made = Sequence(self._number, self._hello(), is_default_left=dice.random() < 0.05)
        verbs: dict[Callable[[], str], int] = {
            self._push: 26,
            self._push_bulk: 10,
            self._fetch: 22,
            self._ack: 8,
            self._fail: 14,
            self._beat: 4,
            self._queue: 9,
            self._mutate: 12,
            self._odd_body: 8,
            self._other: 4,
        }
        if dice.random() < 0.5:
            made.lines.extend(self._stock())
        while len(made.lines) < length:
            (make,) = dice.choices(list(verbs), list(verbs.values()))
            made.lines.append(make())
        return made

    def _stock(self) -> list[str]:
        """So that there is something in the sets."""
        dice, queue = self._dice, self.queues[0]
        jobs = [
            {
                "jid": f"stock-{self._number}-{n}",
                "jobtype": dice.choice(("one", "two")),
                "args": [n],
                "queue": queue,
                "retry": retry,
            }
            | ({"at": FUTURE} if retry == 7 else {})
            for n, retry in enumerate(dice.choices((7, 25, -1), k=6))
        ]
        self._jids.extend(str(job["jid"]) for job in jobs)
        failed = [job for job in jobs if job["retry"] != 7]
        return [
            "PUSHB " + self._json(jobs),
            *(line for _ in failed for line in (f"FETCH {queue}", self._fail_held())),
        ]

    def _fail_held(self) -> str:
        return "FAIL " + self._json({"jid": HELD, "message": "on purpose"})

    # Jobs

    def _push(self) -> str:
        return "PUSH " + self._json(self._job())

    def _push_bulk(self) -> str:
        return "PUSHB " + self._json([self._job() for _ in range(self._dice.randrange(4))])

    def _job(self) -> dict[str, Any]:
        dice = self._dice
        jid = f"jid-{self._number}-{len(self._jids)}"
        self._jids.append(jid)
        job: dict[str, Any] = {
            "jid": jid,
            "jobtype": dice.choice(("one", "two", "a b")),
            "args": dice.choice(ARGS),
            "queue": dice.choice(self.queues),
            "retry": dice.choice((ABSENT, 25, 3, 1, 0, -1)),
            "at": FUTURE if dice.random() < 0.2 else ABSENT,
        }
        for _ in range(dice.choice((0, 0, 0, 1, 1, 2))):
            job |= self._change()
        return {name: value for name, value in job.items() if value is not ABSENT}

    def _change(self) -> dict[str, Any]:
        dice = self._dice
        rare = dice.random()
        if rare < 0.2:
            fields = ("jid", "jobtype", "args", "queue", "retry", "reserve_for", "at", "custom")
            more = ("failure", "backtrace", "created_at", "enqueued_at", "unknown", "Retry")
            return {dice.choice((*fields, *more)): dice.choice(WRONG)}
        if rare < 0.3:
            return self._on_purpose()
        values: dict[str, tuple[Any, ...]] = {
            "jid": (ABSENT, None, "", "short", "ääää", "with space", "a", 'quote"d-jid'),
            "jobtype": TEXTS,
            "args": (*ARGS, ABSENT, None),
            "queue": (ABSENT, None, "", "default", "a.b_C-9", "two words", "a/b", "*", "ä", 'q"'),
            "retry": NUMBERS,
            "reserve_for": (*NUMBERS, 60, 86_400, 86_401, -5),
            "at": (*TIMES, *ODD_TIMES),
            "custom": CUSTOMS,
            "failure": FAILURES,
            "backtrace": NUMBERS,
            "created_at": (*TIMES, "whenever"),
            "enqueued_at": (*TIMES, "whenever"),
            "priority": (5, None),
        }
        name = dice.choice(list(values))
        return {name: dice.choice(values[name])}

    def _on_purpose(self) -> dict[str, Any]:
        """What the broker answers otherwise, and means it."""
        dice = self._dice
        again = dice.choice(self._jids)
        return dice.choice(
            (
                {"args": [2**60 + 1]},
                {"custom": {"n": -(2**70)}},
                {"custom": {"expires_at": PAST}},
                {"custom": {"expires_at": 1.5}},
                {"jid": again},
                {"at": FUTURE, "queue": "two words"},
                {"JobType": "in other letters"},
                {"args": ["\ud800"]},
            )
        )

    # Workers

    def _fetch(self) -> str:
        dice = self._dice
        names = dice.sample(self.queues, dice.choice((1, 3, 3, 3)))
        if dice.random() < 0.1:
            names.insert(dice.randrange(len(names) + 1), dice.choice(("", "", names[0], "default")))
        elif dice.random() < 0.02:
            names.insert(0, dice.choice(("a/b", "ä")))
        return "FETCH " + " ".join(names)

    def _ack(self) -> str:
        return "ACK " + self._json(self._with_odd({"jid": self._named()}, ("jid", "more")))

    def _fail(self) -> str:
        dice = self._dice
        fields = {
            "jid": self._named(),
            "errtype": dice.choice((*TEXTS, " padded ")),
            "message": dice.choice((*TEXTS, "m" * 2000, "mä" * 999)),
            "backtrace": dice.choice((ABSENT, None, [], ["a", "ü"], [None], ["l"] * 60)),
        }
        present = {name: value for name, value in fields.items() if value is not ABSENT}
        return "FAIL " + self._json(self._with_odd(present, tuple(fields)))

    def _named(self) -> str:
        known = self._jids or ["nobody-has-it"]
        return self._dice.choices((HELD, self._dice.choice(known), "nobody-has-it"), (8, 1, 1))[0]

    def _beat(self) -> str:
        dice = self._dice
        fields = {
            "wid": dice.choices((self.wid, "nobody", ABSENT, None), (6, 1, 1, 1))[0],
            "current_state": dice.choices(
                (ABSENT, None, "", "running", "odd", "quiet", "terminate"), (4, 1, 1, 1, 1, 1, 1)
            )[0],
            "rss_kb": dice.choice((ABSENT, None, 0, 54176, -1)),
        }
        present = {name: value for name, value in fields.items() if value is not ABSENT}
        return "BEAT " + self._json(self._with_odd(present, tuple(fields)))

    def _with_odd(self, fields: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        if self._dice.random() < 0.15:
            return fields | {self._dice.choice(names): self._dice.choice(WRONG)}
        return fields

    # The server

    def _queue(self) -> str:
        dice = self._dice
        verbs = ("PAUSE", "RESUME", "RESUME", "REMOVE", "LATENCY", "LATENCY", "pause", "EAT", "")
        names = dice.sample(self.queues, dice.choice((0, 1, 1, 2)))
        if dice.random() < 0.25:
            names.insert(0, dice.choice(("*", "*", "", "nobody", "a/b")))
        return " ".join(("QUEUE", dice.choice(verbs), *names))

    def _mutate(self) -> str:
        dice = self._dice
        command: dict[str, Any] = {
            "cmd": dice.choices(
                ("clear", "kill", "discard", "requeue", "eat", ABSENT, None, 5),
                (2, 6, 4, 12, 1, 1, 1, 1),
            )[0],
            "target": dice.choices(
                ("retries", "scheduled", "dead", "working", "", ABSENT, None, 5),
                (8, 8, 8, 1, 1, 1, 1, 1),
            )[0],
            "filter": dice.choice((ABSENT, None, {}, self._filter(), self._filter(), [], "x")),
        }
        present = {name: value for name, value in command.items() if value is not ABSENT}
        separators = (",", ":") if dice.random() < 0.95 else (", ", ": ")
        text = json.dumps(present, separators=separators, ensure_ascii=False)
        return "MUTATE " + text.replace("a b", "a\\u0020b")

    def _filter(self) -> dict[str, Any]:
        dice = self._dice
        jids = dice.sample(self._jids, min(2, len(self._jids)))
        return dice.choice(
            (
                {"jids": jids},
                {"jids": jids[:1], "jobtype": "nobody", "unknown": 1},
                {"jids": [], "jobtype": "one"},
                {"jids": [None]},
                {"jids": "x"},
                {"jobtype": "a b"},
                {"jobtype": "two"},
                {"jobtype": "o*"},
                {"jobtype": None, "regexp": None, "jids": None},
                {"jobtype": "", "regexp": ""},
                {"regexp": "*"},
                {"regexp": "*one*"},
                {"regexp": '*"jobtype":"one"*', "jobtype": "one"},
                {"regexp": '{"retry":*'},
                {"regexp": 5},
            )
        )

    def _other(self) -> str:
        return self._dice.choice(
            (
                *("INFO", "INFO", "INFO", "INFO {}", "TRACK GET x", "TRACK", "BATCH NEW {}"),
                *("FLUSH", "FLUSH x", "END", "END x", "NOPE", "nope {}", "push {}", "", " ", "{}"),
                *("HELLO {}", "PUSH\t{}", "N" * 300, 'HELD {"wid":"nobody","jids":[]}', "ÄÖ x"),
            )
        )

    def _odd_body(self) -> str:
        dice = self._dice
        verb = dice.choice((*JSON_VERBS, "QUEUE", "FETCH"))
        if verb in JSON_VERBS and dice.random() < 0.8:
            return f"{verb} {dice.choice(BODIES)}"
        return verb

    def _hello(self) -> str:
        dice = self._dice
        fields: dict[str, Any] = {"v": 2, "wid": self.wid, "hostname": "h", "pid": 1, "labels": []}
        chance = dice.random()
        if chance < 0.06:
            return dice.choice(HELLOS)
        if chance < 0.12:
            odd = (*WRONG, [None], ["a"], 255, 256)
            fields[dice.choice(HELLO_FIELDS)] = dice.choice(odd)
        return "HELLO " + json.dumps(fields)

    def _json(self, value: Any) -> str:
        """As clients of all languages write it."""
        spaces, is_ascii = self._dice.choice(((None, True), ((",", ":"), False)))
        text = json.dumps(value, separators=spaces, ensure_ascii=is_ascii)
        # No UTF-8 has it: it can only be written as an escape.
        return text.replace("\ud800", "\\ud800")
