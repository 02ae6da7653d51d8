"""Real servers for the tests: private ones, each with a port, a folder and a password of its own.

A server that an environment variable names is used where any server will do (conftest.py); those that a test kills,
stops or fills are always started here.
"""

from servers.cluster import RedisCluster
from servers.pgbouncer import PgBouncer
from servers.postgres import PostgresServer
from servers.process import MissingPartError, Server
from servers.redis import RedisServer, ValkeyServer
from servers.schema import Schema, fresh_schema
from servers.sentinel import RedisSentinel
from servers.tls import Authority, Certificate, TlsFront

__all__ = [
    "Authority",
    "Certificate",
    "MissingPartError",
    "PgBouncer",
    "PostgresServer",
    "RedisCluster",
    "RedisSentinel",
    "RedisServer",
    "Schema",
    "Server",
    "TlsFront",
    "ValkeyServer",
    "fresh_schema",
]
