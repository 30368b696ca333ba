"""Crawl the synthetic web with Scrapy, as bench-crawl wants it: robots.txt obeyed, links followed
within the web, each page once. Prints its figures as JSON. With --records each page is an item in a
file of JSON lines, with its main text by trafilatura.

Run as a script by loadtest/bench/crawl/peers.py. The settings are those that Scrapy's own guide to
broad crawls names, and none that would slow it down.
"""

import argparse
import json
import resource
import time
from pathlib import Path
from urllib.parse import urlsplit

import trafilatura
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from twisted.internet import defer
from twisted.internet.interfaces import IResolverSimple
from zope.interface import implementer

# Every host of the web, and none of the others that it links to.
WITHIN = r"^https?://w\d+\.site\d+\.test[:/]"


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@implementer(IResolverSimple)
class KnownAddresses:
    """A resolver that knows the addresses by heart, which spares Scrapy the DNS."""

    def __init__(self, crawler, reactor):
        self._addresses = crawler.settings["ADDRESSES"]
        self._reactor = reactor

    @classmethod
    def from_crawler(cls, crawler, reactor):
        return cls(crawler, reactor)

    def install_on_reactor(self):
        self._reactor.installResolver(self)

    def getHostByName(self, name, timeout=()):  # noqa: ARG002
        return defer.succeed(self._addresses[name])


class WebSpider(Spider):
    name = "web"
    links = LinkExtractor(allow=WITHIN)

    async def start(self):
        for seed in self.settings["SEEDS"]:
            yield Request(seed)

    def parse(self, response):
        self.crawler.stats.inc_value("pages")
        links = [link.url for link in self.links.extract_links(response)]
        if self.settings["FEEDS"]:
            yield {
                "url": response.url,
                "status": response.status,
                "title": response.css("title::text").get(),
                "links": links,
                "text": trafilatura.extract(response.text, include_comments=False),
            }
        for url in links:
            yield Request(url)


def settings(options, seeds, addresses):
    return {
        "SEEDS": seeds,
        "ADDRESSES": addresses,
        "USER_AGENT": options.user_agent,
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": options.concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": options.delay,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
        "TWISTED_DNS_RESOLVER": KnownAddresses,
        "FEEDS": {options.records: {"format": "jsonlines"}} if options.records else {},
        # Scrapy makes so many tasks for every page (100 unless told) for its items; here is one.
        "CONCURRENT_ITEMS": 1,
        "COOKIES_ENABLED": False,
        "REFERER_ENABLED": False,
        "HTTPPROXY_ENABLED": False,
        "RETRY_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_ENABLED": False,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=Path, help="lines: URL of a front page, its address")
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds, for each host")
    parser.add_argument("--user-agent", default="")
    parser.add_argument("--records", default="", help="file for what is found of each page")
    options = parser.parse_args()
    lines = [line.split() for line in options.seeds.read_text().splitlines()]
    addresses = {urlsplit(seed).hostname: address for seed, address in lines}
    process = CrawlerProcess(settings(options, [seed for seed, _ in lines], addresses))
    crawler = process.create_crawler(WebSpider)
    process.crawl(crawler)
    started, cpu_before = time.monotonic(), cpu_s()
    process.start()
    print(
        json.dumps(
            {
                "pages": crawler.stats.get_value("pages", 0),
                "failed": crawler.stats.get_value("downloader/exception_count", 0),
                "seconds": time.monotonic() - started,
                "cpu_s": cpu_s() - cpu_before,
                "max_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
