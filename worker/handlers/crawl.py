"""`parsed` and `links`: messages to the owner of a shard. Import it to own shards."""

from manyhands.shared.crawl.messages import ALL_CRAWL_QUEUES, LINKS, PARSED
from manyhands.worker.handlers.owning import links, offer_owner, parsed
from manyhands.worker.jobs.registry import job, setup

job(PARSED, queue=ALL_CRAWL_QUEUES)(parsed)
job(LINKS, queue=ALL_CRAWL_QUEUES)(links)
setup(offer_owner)
