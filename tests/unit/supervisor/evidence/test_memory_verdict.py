"""Whether a process ran out of memory: certain where the kernel says so, likely by its size, else honestly unknown.

The texts are what kernels really say.
"""

import signal
from pathlib import Path

import pytest

from standfast.supervisor.child import Exit
from standfast.supervisor.incidents.death import (
    Certainty,
    KernelLog,
    MemoryGroup,
    MemoryWatch,
    Seen,
    judge,
    kills_in,
    limit_in,
    lines_about,
    memory_group,
    names_victim,
    sizes_in,
)

GIGABYTE = 1 << 30
KILLED = Exit(-signal.SIGKILL, peak_rss=400 << 20, cpu=1.0)

GLOBAL_KILL = (
    "Out of memory: Killed process 10655 (python) total-vm:24805800kB, anon-rss:23993708kB, file-rss:72kB,"
    " shmem-rss:0kB, UID:0 pgtables:47048kB oom_score_adj:0"
)
CGROUP_KILL = (
    "Memory cgroup out of memory: Killed process 4177 (python3) total-vm:615872kB, anon-rss:523204kB,"
    " file-rss:9472kB, shmem-rss:0kB, UID:1000 pgtables:1160kB oom_score_adj:0"
)
KILL_LINE = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/system.slice/jobs.service,"
    "task_memcg=/system.slice/jobs.service,task=python3,pid=4177,uid=1000"
)
SEGFAULT = (
    "python[22704]: segfault at 8 ip 00007f3a5c1ef826 sp 00007ffef6772950 error 4 in"
    " libpython3.11.so.1.0[1ef826,7f3a5c0f5000+23c000] likely on CPU 1 (core 1, socket 0)"
)
EVENTS_V2 = "low 0\nhigh 0\nmax 218\noom 3\noom_kill 2\noom_group_kill 0\n"
OOM_CONTROL_V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"
MEMINFO = (
    "MemTotal:       16384000 kB\nMemFree:         1024000 kB\nMemAvailable:    2048000 kB\n"
    "HugePages_Total:       0\n"
)

V2 = "0::/system.slice/jobs.service\n"
HYBRID = "9:name=systemd:/\n4:memory:/jobs\n3:cpuset:/\n0::/\n"
V1_JOINED = "5:cpu,cpuacct:/docker/ab12\n4:hugetlb,memory:/docker/ab12\n"


class TestReading:
    """What kernels write is read as it is meant."""

    @pytest.mark.parametrize(
        ("text", "group"),
        [
            (V2, MemoryGroup(2, "/system.slice/jobs.service")),
            (HYBRID, MemoryGroup(1, "/jobs")),
            (V1_JOINED, MemoryGroup(1, "/docker/ab12")),
            ("0::/\n", MemoryGroup(2, "/")),
            ("", None),
            ("nonsense", None),
        ],
    )
    def test_the_cgroup_that_counts_memory(self, text: str, group: MemoryGroup | None) -> None:
        """Version 1 counts where its memory controller is in use, also beside version 2."""
        assert memory_group(text) == group

    @pytest.mark.parametrize(
        ("text", "kills"), [(EVENTS_V2, 2), (OOM_CONTROL_V1, 5), ("oom_kill_disable 0\n", None), ("", None)]
    )
    def test_the_count_of_kills(self, text: str, kills: int | None) -> None:
        """`oom` is how often memory ran out, `oom_kill` who died of it; old kernels do not count that."""
        assert kills_in(text) == kills

    @pytest.mark.parametrize(
        ("text", "limit"),
        [("max\n", None), ("536870912\n", 512 << 20), ("9223372036854771712\n", None), ("", None)],
    )
    def test_limits(self, text: str, limit: int | None) -> None:
        """Both versions have a way to say that there is none."""
        assert limit_in(text) == limit

    def test_what_the_machine_has(self) -> None:
        """Sizes are bytes; counts are left out."""
        assert sizes_in(MEMINFO) == {
            "MemTotal": 16384000 * 1024,
            "MemFree": 1024000 * 1024,
            "MemAvailable": 2048000 * 1024,
        }

    def test_the_victim_of_a_line(self) -> None:
        """The whole number counts, and who only segfaulted was not killed for memory."""
        assert names_victim(GLOBAL_KILL, 10655)
        assert names_victim(CGROUP_KILL, 4177)
        assert names_victim(KILL_LINE, 4177)
        assert not names_victim(GLOBAL_KILL, 1065)
        assert not names_victim(KILL_LINE, 1000)
        assert not names_victim(SEGFAULT, 22704)

    def test_lines_about_a_process(self) -> None:
        """A segmentation fault is told by the kernel, too."""
        lines = [GLOBAL_KILL, SEGFAULT, KILL_LINE]
        assert lines_about(22704, lines) == [SEGFAULT]
        assert lines_about(10655, lines) == [GLOBAL_KILL]
        assert lines_about(4177, lines) == [KILL_LINE]
        assert lines_about(7, lines) == []


class TestJudging:
    """The verdict says how sure it is, and of what."""

    def test_the_kernel_names_it(self) -> None:
        """Nothing is surer than that."""
        verdict = judge(10655, KILLED, Seen(kernel=(SEGFAULT, GLOBAL_KILL)))
        assert verdict.certainty is Certainty.CERTAIN
        assert "Killed process 10655" in str(verdict)

    def test_the_count_of_its_cgroup_grew(self) -> None:
        """Somebody was killed for memory in this moment, and it was killed."""
        verdict = judge(1, KILLED, Seen(kills_before=2, kills=3))
        assert str(verdict) == "certain: the kernel's count of kills for memory in its cgroup grew from 2 to 3"

    def test_it_was_about_to_have_all_there_is(self) -> None:
        """In a container that tells nothing, its size is all there is to go by."""
        verdict = judge(1, KILLED, Seen(kills_before=2, kills=2, limit=420 << 20, total=64 * GIGABYTE))
        assert str(verdict) == "likely: it was ended by SIGKILL and had had 400.0 MB of 420.0 MB"
        assert judge(1, KILLED, Seen(total=420 << 20)).certainty is Certainty.LIKELY

    @pytest.mark.parametrize(
        "seen",
        [
            Seen(),
            Seen(kills_before=2, kills=2, limit=GIGABYTE, total=16 * GIGABYTE, kernel=(GLOBAL_KILL,)),
            Seen(kills_before=None, kills=3),
            Seen(kills_before=3, kills=None),
        ],
    )
    def test_nothing_is_known(self, seen: Seen) -> None:
        """Somebody sent the signal, and that is all: what could not be read is said."""
        verdict = judge(1, KILLED, seen)
        assert verdict.certainty is Certainty.UNKNOWN
        assert not verdict.holds
        assert ("the kernel log cannot be read" in verdict.why) == (seen.kernel is None)

    @pytest.mark.parametrize("code", [9, 0, -signal.SIGSEGV, -signal.SIGABRT])
    def test_another_end_is_not_blamed_on_memory(self, code: int) -> None:
        """Not even beside a neighbour who was killed for it."""
        assert not judge(1, Exit(code, peak_rss=GIGABYTE), Seen(kills_before=1, kills=2, limit=GIGABYTE)).holds


class TestWatching:
    """The files are read where they are, on systems of either version; only what is new counts."""

    @staticmethod
    def folder(root: Path, version: int) -> Path:
        """Return the cgroup's folder with a limit above it."""
        top = root if version > 1 else root / "memory"
        own = top / "slice" / "jobs"
        own.mkdir(parents=True)
        name = "memory.max" if version > 1 else "memory.limit_in_bytes"
        (own / name).write_text("max\n" if version > 1 else "9223372036854771712\n")
        (own.parent / name).write_text("1000000\n")
        return own

    @pytest.mark.parametrize(("version", "line"), [(2, "0::/slice/jobs\n"), (1, "4:memory:/slice/jobs\n0::/\n")])
    def test_a_count_that_grows(self, tmp_path: Path, version: int, line: str) -> None:
        """What was counted before the last look is no reason; the least limit above it is its limit."""
        own = self.folder(tmp_path, version)
        counter = own / ("memory.events" if version > 1 else "memory.oom_control")
        counter.write_text("oom_kill 4\n")
        watch = MemoryWatch(tmp_path, tmp_path / "kmsg", line)
        assert (watch.seen(line).kills_before, watch.seen(line).kills) == (4, 4)
        counter.write_text("oom_kill 5\n")
        seen = watch.seen(line)
        assert (seen.kills_before, seen.kills, seen.limit, seen.kernel) == (4, 5, 1000000, None)
        watch.look()
        assert watch.seen("").kills_before == 5

    def test_a_container_that_sees_its_own_group_as_the_root(self, tmp_path: Path) -> None:
        """The path is that of the host, and there is no such folder inside."""
        (tmp_path / "memory.events").write_text("oom_kill 1\n")
        (tmp_path / "memory.max").write_text("500\n")
        watch = MemoryWatch(tmp_path, tmp_path / "kmsg", "0::/docker/ab12\n")
        assert (watch.seen().kills, watch.seen().limit) == (1, 500)

    def test_no_cgroups_at_all(self, tmp_path: Path) -> None:
        """Then nothing is known, and nothing fails."""
        seen = MemoryWatch(tmp_path, tmp_path / "kmsg", "").seen()
        assert (seen.kills_before, seen.kills, seen.limit, seen.kernel) == (None, None, None, None)

    def test_this_machine(self) -> None:
        """Whatever it has can be read."""
        seen = MemoryWatch().seen(Path("/proc/self/cgroup").read_text())
        assert seen.total is None or seen.total > 1 << 20

    def test_the_kernel_log(self, tmp_path: Path) -> None:
        """Only what is new and tells of a death is kept, as the record says it."""
        file = tmp_path / "kmsg"
        file.write_text(f"4,1,1,-;{GLOBAL_KILL.replace('10655', '1')}\n")
        log = KernelLog(file)
        assert log.read() == ()
        with file.open("a") as more:
            more.write(f"4,2,2,-;{GLOBAL_KILL}\n SUBSYSTEM=memory\n")
        assert log.read() == (GLOBAL_KILL,)
