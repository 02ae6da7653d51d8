"""The floor: what bare redis-py does with the same batches, and nothing of what makes jobs safe.

A sorted set of ids and a hash for each job, moved by three Lua scripts; one connection, one process; claims and
finishes take turns. No fences that anybody checks, no leases, no history, no wake-ups.
"""

import time
from typing import Any
from uuid import uuid4

import redis
from measured import TALLY, URL

INSERT_BATCH = 1000
CLAIM_BATCH = 500

_PAYLOAD = '{"v":1,"args":{"n":12345}}'
_INSERT = """
for place = 1, #ARGV, 2 do
    redis.call('HSET', '{floor}:job:' .. ARGV[place], 'task', 'noop', 'args', ARGV[place + 1], 'fence', 0)
    redis.call('ZADD', '{floor}:ready', 0, ARGV[place])
end
"""
_CLAIM = """
local ids, answer = redis.call('ZPOPMIN', '{floor}:ready', ARGV[1]), {}
for place = 1, #ids, 2 do
    local key = '{floor}:job:' .. ids[place]
    local fence = redis.call('HINCRBY', key, 'fence', 1)
    redis.call('HSET', '{floor}:lease', ids[place], fence)
    local job = redis.call('HMGET', key, 'task', 'args')
    local size = #answer
    answer[size + 1], answer[size + 2], answer[size + 3], answer[size + 4] = ids[place], fence, job[1], job[2]
end
return answer
"""
_FINISH = """
for place = 2, #ARGV do
    if redis.call('HDEL', '{floor}:lease', ARGV[place]) == 1 then
        redis.call('HSET', '{floor}:job:' .. ARGV[place], 'state', 'completed', 'at', ARGV[1])
        redis.call('ZADD', '{floor}:done', ARGV[1], ARGV[place])
    end
end
"""


def one_by_one(count: int) -> float:
    """Return jobs per second, each by a call of its own."""
    server, began = redis.Redis.from_url(URL), time.perf_counter()
    _insert(server, count, 1)
    return count / (time.perf_counter() - began)


def in_bulk(count: int) -> float:
    """Return jobs per second, a thousand in each call."""
    server, began = redis.Redis.from_url(URL), time.perf_counter()
    _insert(server, count, INSERT_BATCH)
    return count / (time.perf_counter() - began)


def drain(count: int) -> float:
    """Return jobs per second, claimed by one call and finished by another, five hundred in each."""
    server: Any = redis.Redis.from_url(URL)
    _insert(server, count, INSERT_BATCH)
    claim, finish = server.register_script(_CLAIM), server.register_script(_FINISH)
    began, done = time.perf_counter(), 0
    while done < count:
        answer = claim(args=[CLAIM_BATCH])
        ids = answer[::4]
        for _ in ids:
            TALLY.tick()
        finish(args=[time.time(), *ids])
        done += len(ids)
    return count / (time.perf_counter() - began)


def _insert(server: Any, count: int, batch: int) -> None:
    insert = server.register_script(_INSERT)
    for start in range(0, count, batch):
        jobs = [(uuid4().hex, _PAYLOAD) for _ in range(min(batch, count - start))]
        insert(args=[word for job in jobs for word in job])
