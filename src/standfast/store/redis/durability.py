"""What the settings of a server mean for the promise that no accepted job is lost. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from standfast.store.examination import Finding, sized

_NEARLY_FULL = 0.9
_FULL_SOON = 0.75
_HEEDS_SCRIPTS = 7
_KEEP = "`CONFIG SET appendonly yes` and `CONFIG SET appendfsync always`, then `CONFIG REWRITE`"
_ALWAYS = "where that is too much: `CONFIG SET appendfsync always`, then `CONFIG REWRITE`; writes then take longer"


@dataclass(frozen=True, slots=True)
class Said:
    """What a server says of itself. Settings are empty where this user may not read them."""

    info: Mapping[str, str]
    settings: Mapping[str, str]

    @property
    def is_replica(self) -> bool:
        """Whether it follows another server."""
        return self.info.get("role") == "slave"


def judge_server(said: Said) -> Iterator[Finding]:
    """Yield what is to be said about how well this server keeps jobs."""
    yield _durability(said)
    yield from _failed_writes(said)
    yield _eviction(said)
    yield _memory(said)
    yield _replicas(said)


def _durability(said: Said) -> Finding:
    if not _has_log(said):
        return _without_log(said)
    sync = said.settings.get("appendfsync")
    if sync is None:
        return Finding.warning(
            "durability",
            "the append-only file is on, but this user may not read how often it reaches the disk",
            "let an administrator look: `CONFIG GET appendfsync` should say always",
        )
    if sync == "everysec":
        says = (
            "appendfsync everysec: a crash of the machine may cost about the last second of accepted jobs; one of"
            " the server alone costs none, unless its disk falls behind just then"
        )
        return Finding.warning("durability", says, _ALWAYS)
    if sync != "always":
        says = (
            f"appendfsync {sync}: a crash of the machine may cost the accepted jobs of the last half minute or more"
        )
        return Finding.warning("durability", says, _ALWAYS)
    if said.settings.get("no-appendfsync-on-rewrite") == "yes":
        return Finding.warning(
            "durability",
            "appendfsync always, but not while the file is rewritten (no-appendfsync-on-rewrite): a crash of the"
            " machine just then costs accepted jobs",
            "`CONFIG SET no-appendfsync-on-rewrite no`, then `CONFIG REWRITE`",
        )
    return Finding.ok(
        "durability",
        "appendfsync always: an accepted job survives a crash and, as far as the disk keeps its word, a power loss",
    )


def _without_log(said: Said) -> Finding:
    points = said.settings.get("save")
    if points == "":
        return Finding.problem(
            "durability", "nothing is written to disk: a restart of the server loses every accepted job", _KEEP
        )
    when = "" if points is None else f" ({_save_points(points)})"
    return Finding.problem(
        "durability",
        f"no append-only file, at most snapshots{when}: a crash loses every job accepted since the last one",
        _KEEP,
    )


def _save_points(points: str) -> str:
    numbers = points.split()
    pairs = zip(numbers[::2], numbers[1::2], strict=False)
    return ", ".join(f"{seconds} s after {changes} changes" for seconds, changes in pairs)


def _has_log(said: Said) -> bool:
    return said.settings.get("appendonly") == "yes" or said.info.get("aof_enabled") == "1"


def _failed_writes(said: Said) -> Iterator[Finding]:
    if _has_log(said) and said.info.get("aof_last_write_status", "ok") != "ok":
        yield Finding.problem(
            "disk",
            "the last write to the append-only file failed: no job is accepted",
            "make room or mend the disk; the server's log says more",
        )
    if said.info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Finding.warning(
            "disk",
            "the last snapshot failed: while snapshots are on, the server may refuse every write",
            "make room or mend the disk, then `BGSAVE`; the server's log says more",
        )


def _eviction(said: Said) -> Finding:
    policy = said.settings.get("maxmemory-policy") or said.info.get("maxmemory_policy", "noeviction")
    remedy = "`CONFIG SET maxmemory-policy noeviction`, then `CONFIG REWRITE`; give caches a server of their own"
    if policy == "noeviction":
        return Finding.ok("eviction", "noeviction: a full server refuses new jobs and deletes none")
    if _limit(said) == 0:
        says = f"{policy}, without effect while maxmemory is 0; with a limit the server would delete jobs"
        return Finding.warning("eviction", says, remedy)
    if policy.startswith("allkeys"):
        says = f"{policy}: when memory is short the server deletes any key, accepted jobs among them"
        return Finding.problem("eviction", says, remedy)
    says = (
        f"{policy}: when memory is short the server forgets what has an expiry, such as keys kept after a job's end"
    )
    return Finding.warning("eviction", says, remedy)


def _memory(said: Said) -> Finding:
    used, limit = int(said.info.get("used_memory", 0)), _limit(said)
    whose = "maxmemory" if limit else "the machine's memory"
    limit = limit or int(said.info.get("total_system_memory", 0))
    if limit == 0:
        return Finding.ok("memory", f"{sized(used)} used")
    says = f"{sized(used)} used, {used / limit:.0%} of {whose} ({sized(limit)})"
    remedy = "raise `maxmemory`, add memory, or keep finished jobs for less time"
    if used > limit * _NEARLY_FULL:
        return Finding.problem("memory", f"{says}: soon no job is accepted", remedy)
    if used > limit * _FULL_SOON:
        return Finding.warning("memory", says, remedy)
    return Finding.ok("memory", says)


def _limit(said: Said) -> int:
    return int(said.info.get("maxmemory") or said.settings.get("maxmemory") or 0)


def _replicas(said: Said) -> Finding:
    if said.is_replica:
        return Finding.problem(
            "replicas", "this server is a replica, which takes no writes", "name the master in the URL"
        )
    count = int(said.info.get("connected_slaves", 0))
    if count == 0:
        return Finding.ok("replicas", "none: while this server is away, everybody waits for it")
    says = (
        f"{count} connected, and no write waits for one: a failover may lose what was accepted just before it,"
        " against the promise that an accepted job is kept, and run again what had just ended"
    )
    if not _heeds_scripts(said):
        remedy = (
            "upgrade to Redis 7 or newer, where min-replicas-to-write bounds that; here it does not heed scripts"
        )
        return Finding.warning("replicas", says, remedy)
    if said.settings.get("min-replicas-to-write", "0") == "0":
        remedy = "`CONFIG SET min-replicas-to-write 1`, then `CONFIG REWRITE`, bounds that to min-replicas-max-lag"
        return Finding.warning("replicas", says, remedy)
    lag = said.settings.get("min-replicas-max-lag", "10")
    return Finding.warning(
        "replicas",
        f"{count} connected; writes stop when they lag by {lag} s: a failover may lose jobs accepted within about"
        " that time before it",
        "where not even that may be lost, use PostgreSQL with synchronous replicas",
    )


def _heeds_scripts(said: Said) -> bool:
    """Tell whether min-replicas-to-write holds for writes of scripts too, as ours are."""
    major = said.info.get("redis_version", "").split(".")[0]
    return not major.isdigit() or int(major) >= _HEEDS_SCRIPTS
