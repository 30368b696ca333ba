"""Carries out what `shared/crawl/claim.py` decides, over the supervisor's connection, and says what
follows from it for the stages that take jobs from `fetch.NN`."""

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Sequence

from manyhands.shared.crawl.claim import (
    FetchClaim,
    Step,
    are_fetch_queues,
    mark_job,
    mark_queue,
)
from manyhands.shared.errors import FaktoryError
from manyhands.shared.logs import get_logger
from manyhands.worker.service.link import StageReport
from manyhands.worker.service.stages import CRAWL_STAGE
from manyhands.worker.supervision.server_view import ServerView

# What a claim does at once, one after the other: push, look.
MOST_STEPS = 4


class FetchQueues:
    """State: the claim, as soon as a child that needs it has said what store it has; the stages
    that are left out for want of a store; what people were told, and why the service must end."""

    def __init__(
        self, server: ServerView, say: Callable[[str, str], None], *, is_named: bool
    ) -> None:
        """`is_named`: the settings name the stages or queues of this service, so that it must not
        leave one out. `say` gets a text for people and how much it matters."""
        self._server = server
        self._say = say
        self._is_named = is_named
        self._claim: FetchClaim | None = None
        self._has_fetched = False
        self._left_out: frozenset[str] = frozenset()
        self._told = ""
        self.refusal = ""
        self._log = get_logger("supervisor")

    def child_is_ready(
        self, stages: Collection[StageReport], store: str, left_out: Sequence[str]
    ) -> None:
        self._left_out |= frozenset(left_out)
        if self._claim is None and any(are_fetch_queues(stage.queues) for stage in stages):
            self._claim = FetchClaim(store)

    def may_run(self, stage: StageReport) -> bool:
        if not are_fetch_queues(stage.queues):
            return True
        return self._claim is not None and self._claim.may_fetch

    async def looked(self, names: Collection[str]) -> None:
        """After the server was asked how long these queues are, and whose marks are there."""
        claim = self._claim
        if claim is not None:
            try:
                await self._carry_out(claim, names)
            except FaktoryError as error:
                self._log.debug("the claim to fetch.NN was not answered", reason=str(error))
            self._has_fetched |= claim.may_fetch
            if claim.is_anothers(self._now()):
                self._is_anothers(claim)
                return
        if claim is None or claim.may_fetch:
            self._is_ours()

    async def _carry_out(self, claim: FetchClaim, names: Collection[str]) -> None:
        for _ in range(MOST_STEPS):
            step = claim.looked(self._server.marks, self._now())
            if step is Step.REST:
                return
            if step is Step.TAKE_BACK:
                await self._server.remove_queue(mark_queue(claim.tag))
                return
            if step is Step.CLEAR:
                await self._clear(claim.others)
                return
            if step is Step.PUSH:
                who = f"{socket.gethostname()}.{os.getpid()}"
                await self._server.push(mark_job(claim.tag, who))
                claim.pushed()
            if not await self._server.look_at_sizes(names):
                return

    async def _clear(self, stores: Collection[str]) -> None:
        for store in sorted(stores):
            await self._server.remove_queue(mark_queue(store))
            self._log.info(
                "removed the mark of a store that died as it asked for fetch.NN", store=store
            )

    def _is_anothers(self, claim: FetchClaim) -> None:
        stores = ", ".join(sorted(claim.others))
        ours = f"has the store {claim.tag}" if claim.tag else "has no store (CRAWL_STATE)"
        whose = (
            f"the queues fetch.NN of {self._server.address} belong to the store {stores}, and this "
            f"worker {ours}"
        )
        if_gone = (
            "to share the work set CRAWL_STATE to the store of the others, a PostgreSQL database "
            "where they are on another machine; if that store is gone, `manyhands state adopt` "
            "takes them over"
        )
        if self._is_named and not self._has_fetched:
            self.refusal = f"{whose}: run it without the stage fetch; {if_gone}"
            return
        what = "fetch" if claim.tag else f"fetch and {CRAWL_STAGE}"
        self._tell(f"{whose}: it runs everything but {what}; {if_gone}", "warning")

    def _is_ours(self) -> None:
        if self._left_out:
            names = ", ".join(sorted(self._left_out))
            self._tell(f"this worker has no store (CRAWL_STATE): it runs everything but {names}")
        elif self._told:
            self._tell("the queues fetch.NN belong to no other store any more: fetch runs")
            self._told = ""

    def _tell(self, text: str, level: str = "info") -> None:
        """Once, until something else is to be told."""
        if text != self._told:
            self._told = text
            self._say(text, level)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
