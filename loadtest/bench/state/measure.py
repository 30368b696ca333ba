"""The measurements of `bench-state`: each gives the numbers of one run by their names."""

import contextlib
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil

from loadtest.bench.state.places import GENERATION, Place
from loadtest.bench.state.urls import PAGE_KEY_BYTES, Links, host_key
from loadtest.lib.stats import percentile
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.errors import StateBusy
from manyhands.shared.crawl.store.model import KEY_BYTES, ClaimedUrl, NewUrl, Settled
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ShardStore, Store

CRAWL = 1
BATCH = 256
HOSTS = 200
EPOCH = 1
SHARDS = 64
# Of known keys, so many of each shard are looked for again.
SAMPLES = 5000
CLAIMS = 20
SMALL_BATCH = 16
SETTLED_AT_ONCE = 64

Values = dict[str, float]


# Writers at one time


def measure_writers(place: Place, writers: int, is_shared: bool, seconds: float) -> Values:
    """So many processes admit links without a pause, to one shard or each to its own."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(writers)
    results: SimpleQueue[Written] = context.SimpleQueue()
    with opened_store(place) as store:
        for shard in range(1 if is_shared else writers):
            store.open_shard(GENERATION, shard, EPOCH, time.time()).close()
    server_s = place.server_cpu_s()
    processes = [
        context.Process(
            target=_write,
            args=(place.state, 0 if is_shared else number, number, seconds, ready, results),
        )
        for number in range(writers)
    ]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    waits = [wait for one in found for wait in one.waits]
    links = sum(one.links for one in found)
    return {
        "links_per_s": links / seconds,
        "client_us": sum(one.cpu_s for one in found) * 1e6 / links,
        "server_us": (place.server_cpu_s() - server_s) * 1e6 / links,
        "slowest_links_per_s": min(one.links for one in found) / seconds,
        "wait_p50_ms": percentile(waits, 50) * 1000,
        "wait_p99_ms": percentile(waits, 99) * 1000,
        "wait_max_ms": max(waits) * 1000,
    }


class Written(NamedTuple):
    """Links that a process has admitted, the CPU time that this took it, s, without the making of
    the links, and how long each transaction was waited for, s."""

    links: int
    cpu_s: float
    waits: list[float]


@contextlib.contextmanager
def opened_store(place: Place) -> Iterator[Store]:
    with contextlib.closing(store_at((place.state,))) as store:
        yield store


def _write(
    state: str,
    shard: int,
    seed: int,
    seconds: float,
    ready: Barrier,
    results: "SimpleQueue[Written]",
) -> None:
    links = Links(seed, HOSTS, seed)
    waits: list[float] = []
    done, cpu_s = 0, 0.0
    with (
        contextlib.closing(store_at((state,))) as opened,
        contextlib.closing(opened.open_shard(GENERATION, shard, EPOCH, time.time())) as store,
    ):
        ready.wait()
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            [batch] = links.batches(1, BATCH)
            asked_at, before_s = time.monotonic(), time.thread_time()
            try:
                with store.transaction():
                    waits.append(time.monotonic() - asked_at)
                    store.admit(CRAWL, batch, time.time())
                    done += len(batch)
            except StateBusy:
                waits.append(time.monotonic() - asked_at)
            cpu_s += time.thread_time() - before_s
    results.put(Written(done, cpu_s, waits))


# What a URL costs


def measure_costs(place: Place, urls: int) -> Values:
    """One process takes URLs through their life, a step at a time; CPU time of each step."""
    with opened_store(place) as opened:
        store = opened.open_shard(GENERATION, 0, EPOCH, time.time())
        with contextlib.closing(store):
            links = Links(0, HOSTS, 0)
            batches = list(links.batches(urls // BATCH, BATCH))
            small = list(links.batches(urls // 10 // SMALL_BATCH, SMALL_BATCH))
            values = {
                "admit_us": _cpu_us(batches, lambda batch: _admit(store, batch)),
                "admit_small_us": _cpu_us(small, lambda batch: _admit(store, batch)),
            }
            claimed: list[ClaimedUrl] = []
            cpu_us = _cpu_us_of_all(range(CLAIMS), lambda _: claimed.extend(_claim(store)))
            values["claim_us"] = cpu_us / len(claimed)
            parts = [
                claimed[at : at + SETTLED_AT_ONCE] for at in range(0, len(claimed), SETTLED_AT_ONCE)
            ]
            values["settle_us"] = _cpu_us(parts, lambda part: _settle(store, part))
            values["parsed_us"] = _cpu_us(parts, lambda part: _parsed(store, part))
            values["takeover_ms"] = _takeover_ms(opened)
            size = place.bytes_of_shards(1)
            values["url_bytes"] = size / store.counters(CRAWL)["admitted"]
    return values


def _cpu_us(parts: Sequence[list[Any]], step: Callable[..., None]) -> float:
    return _cpu_us_of_all(parts, step) / sum(map(len, parts))


def _cpu_us_of_all(parts: Sequence[Any], step: Callable[..., None]) -> float:
    before_s = time.thread_time()
    for part in parts:
        step(part)
    return (time.thread_time() - before_s) * 1e6


def _admit(store: ShardStore, batch: list[NewUrl]) -> None:
    with store.transaction():
        store.admit(CRAWL, batch, time.time())


def _claim(store: ShardStore) -> list[ClaimedUrl]:
    """A few URLs of each of some hosts, as an owner does it."""
    claimed = []
    now = time.time()
    with store.transaction():
        for domain in store.take_domains(now, 50):
            for origin in domain.origins:
                claimed += store.claim(origin.id, CRAWL, now, 8)
            store.put_domain(domain.id, now, 1.0)
    return claimed


def _settle(store: ShardStore, part: list[ClaimedUrl]) -> None:
    with store.transaction():
        store.settle([Settled(one.id, UrlState.PARSING, 200, size=20_000) for one in part], 1.0)


def _parsed(store: ShardStore, part: list[ClaimedUrl]) -> None:
    with store.transaction():
        store.parsed(CRAWL, [one.key for one in part], 1.0)


def _takeover_ms(store: Store) -> float:
    before_s = time.perf_counter()
    store.open_shard(GENERATION, 0, EPOCH + 1, time.time()).close()
    return (time.perf_counter() - before_s) * 1000


# Many seen


class SeenState:
    """State: a place with so many seen keys. Some keys of each shard are kept in a directory."""

    def __init__(self, place: Place, samples: Path, seen: int) -> None:
        self._place = place
        self._samples = samples
        before_s = time.perf_counter()
        with opened_store(place) as store:
            for shard in range(SHARDS):
                store.open_shard(GENERATION, shard, EPOCH, time.time()).close()
                _preload(place, samples, shard, seen // SHARDS)
        self._preload_s = time.perf_counter() - before_s
        self._key_bytes = place.bytes_of_shards(SHARDS) / seen

    def measure(self, number: int, batches: int) -> Values:
        """In a process of its own, so that its memory is known."""
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            values = process.submit(
                _admit_to_all, self._place.state, self._samples, number, batches
            ).result()
        return values | {"key_bytes": self._key_bytes, "preload_s": self._preload_s}


@contextlib.contextmanager
def seen_state(place: Place, seen: int) -> Iterator[SeenState]:
    with TemporaryDirectory() as samples:
        yield SeenState(place, Path(samples), seen)


def _admit_to_all(state: str, samples: Path, number: int, batches: int) -> Values:
    """So many batches for each shard, shard after shard."""
    made = [
        list(Links(shard, HOSTS, number, _samples(samples, shard)).batches(batches, BATCH))
        for shard in range(SHARDS)
    ]
    rss_bytes = psutil.Process().memory_info().rss
    with contextlib.ExitStack() as opened:
        store = opened.enter_context(contextlib.closing(store_at((state,))))
        stores = [
            opened.enter_context(
                contextlib.closing(store.open_shard(GENERATION, shard, EPOCH, time.time()))
            )
            for shard in range(SHARDS)
        ]
        duplicates = _duplicates(stores)
        times = []
        cpu_s, began_s = time.thread_time(), time.perf_counter()
        for place in range(batches):
            for one, of_shard in zip(stores, made, strict=True):
                before_s = time.perf_counter()
                _admit(one, of_shard[place])
                times.append(time.perf_counter() - before_s)
        took_s = time.perf_counter() - began_s
        links = batches * BATCH * SHARDS
        return {
            "links_per_s": links / took_s,
            "admit_us": (time.thread_time() - cpu_s) * 1e6 / links,
            "batch_p99_ms": percentile(times, 99) * 1000,
            "duplicates_share": (_duplicates(stores) - duplicates) / links,
            "rss_bytes": float(psutil.Process().memory_info().rss - rss_bytes),
        }


def _duplicates(stores: Sequence[ShardStore]) -> int:
    return sum(store.counters(CRAWL)["duplicates"] for store in stores)


def _preload(place: Place, samples_directory: Path, shard: int, number: int) -> None:
    """Fill the table of the seen keys in its order, which takes a fraction of the time."""
    dice = random.Random(shard)
    hosts = [host_key(host) for host in range(shard * HOSTS, (shard + 1) * HOSTS)]
    keys = sorted(hosts[page % HOSTS] + dice.randbytes(PAGE_KEY_BYTES) for page in range(number))
    place.fill_seen(shard, CRAWL, keys)
    samples = keys[:: max(1, len(keys) // SAMPLES)]
    _sample_file(samples_directory, shard).write_bytes(b"".join(samples))


def _samples(directory: Path, shard: int) -> list[bytes]:
    together = _sample_file(directory, shard).read_bytes()
    return [together[at : at + KEY_BYTES] for at in range(0, len(together), KEY_BYTES)]


def _sample_file(directory: Path, shard: int) -> Path:
    return directory / f"samples-{shard}"
