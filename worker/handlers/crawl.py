"""`parsed` and `links`: messages to the owner of a shard. Import it to own shards."""

from manyhands.shared.crawl.messages import ALL_CRAWL_QUEUES
from manyhands.worker.handlers.owning import MESSAGES, offer_owner
from manyhands.worker.jobs.registry import job, setup

for jobtype, handler, version in MESSAGES:
    job(jobtype, queue=ALL_CRAWL_QUEUES, version=version)(handler)
setup(offer_owner)
