"""RQ's own worker: a forked process per refinement, so one refinement per worker at a time.

If a worker dies, the steps of its refinement are lost.
"""

import argparse
import http.client
import json
import os
import sys
import time
from urllib.parse import urlsplit

from redis import Redis
from rq import Queue, Worker
from rq.serializers import JSONSerializer

from benchmarks.loop import refinement
from benchmarks.peers.telling import say
from benchmarks.processes import peak_mb

QUEUE = "peer"
DONE = "peer:done"


def refine(model_url: str, redis_url: str) -> None:
    """Run one refinement; RQ calls this in a forked process."""
    began_at = time.time()
    split = urlsplit(model_url)
    connection = http.client.HTTPConnection("127.0.0.1", split.port)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer key"}
    talk = refinement()
    body = next(talk)
    try:
        while True:
            connection.request("POST", f"{split.path}/chat/completions", body, headers)
            body = talk.send(connection.getresponse().read())
    except StopIteration:
        connection.close()
    with Redis.from_url(redis_url) as redis:
        redis.rpush(DONE, json.dumps([began_at, time.time(), peak_mb(os.getpid())]))


def work(redis_url: str) -> None:
    """Run one worker."""
    with Redis.from_url(redis_url) as redis:
        worker = Worker(
            [Queue(QUEUE, connection=redis, serializer=JSONSerializer)],
            connection=redis,
            serializer=JSONSerializer,
        )
        say()
        worker.work(logging_level="ERROR")


def submit(redis_url: str, model_url: str, count: int) -> None:
    """Enqueue the refinements and wait for the last."""
    with Redis.from_url(redis_url, socket_timeout=None) as redis:
        queue = Queue(QUEUE, connection=redis, serializer=JSONSerializer)
        say()
        sys.stdin.readline()
        started_at = time.time()
        for _ in range(count):
            queue.enqueue(f"{__spec__.name}.{refine.__name__}", model_url, redis_url, result_ttl=0)
        done = [json.loads(redis.blpop([DONE])[1]) for _ in range(count)]
        say(
            started_at=started_at,
            ended_at=max(ended for _, ended, _ in done),
            seconds=[ended - began for began, ended, _ in done],
            fork_mb=max(held for _, _, held in done),
        )
        sys.stdin.readline()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["work", "submit"])
    parser.add_argument("--redis", required=True)
    parser.add_argument("--model")
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    if arguments.role == "work":
        work(arguments.redis)
    else:
        submit(arguments.redis, arguments.model, arguments.count)
