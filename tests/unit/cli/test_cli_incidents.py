"""`incidents`: what went wrong is found, read, taken along and forgotten, from the store alone."""

import json
import stat
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from cli_world import WORKER, answer, assert_refused

from standfast.model.ids import new_job_id
from standfast.model.incidents import Evidence, Incident, InvolvedJob, Trouble
from standfast.model.job import Failure
from standfast.observe.incidents import list_incidents, read_evidence, write_incident
from standfast.stores.verb import run_procedure

HOUR = timedelta(hours=1)
EVIDENCE = Evidence({"exit": "status 9", "stacks": "Thread 1:\n  in render\n", "log_tail": "last \x1b[31mwords"})
FIELDS = {
    *("id", "trouble", "summary", "at", "last_at", "count", "host", "supervisor", "worker", "pid", "jobs"),
    *("more_jobs", "words"),
}


@pytest.fixture
def happened(world):
    """Let something have gone wrong, an hour ago unless it is said otherwise."""

    def happen(trouble=Trouble.CRASH, *, ago=HOUR, jobs=(), evidence=EVIDENCE, **different):
        at = datetime.now(UTC) - ago
        incident = Incident(
            id=new_job_id(),
            trouble=trouble,
            summary=f"a {trouble} of it",
            at=at,
            last_at=at,
            host="web-01",
            worker=WORKER,
            pid=4242,
            jobs=tuple(InvolvedJob(job_id, 1) for job_id in jobs),
            **different,
        )
        run_procedure(world.do, write_incident(world.verbs, incident, evidence))
        return incident.id

    return happen


@pytest.fixture
def kept(world):
    return lambda: [each.id for each in run_procedure(world.do, list_incidents(world.verbs))]


class TestList:
    def test_none_is_told_in_words(self, standfast, happened):
        assert standfast("incidents", "list").stdout == "No incidents.\n"
        assert answer(standfast("incidents", "list", "--json")) == []
        happened()
        assert standfast("incidents", "list", "--task", "none").stdout == "No incident matches.\n"

    def test_the_last_are_first_with_what_people_ask_for(self, world, standfast, happened):
        job = world.enqueue(task="render")
        old, new = happened(Trouble.OUT_OF_MEMORY, ago=3 * HOUR, jobs=[job], count=1200), happened()
        header, _, *rows = standfast("incidents", "list").stdout.splitlines()
        assert header.split() == ["ID", "LAST", "TROUBLE", "TIMES", "JOBS", "HOST", "WHAT"]
        assert [row.split()[0] for row in rows] == [new, old]
        for words in ("out of memory", "1,200", f"render {job[-8:]}", "web-01", "(3 h ago)"):
            assert words in rows[1]

    def test_several_jobs_are_counted_with_their_tasks(self, world, standfast, happened):
        happened(jobs=[world.enqueue(task="render"), world.enqueue(task="bill"), world.enqueue(task="bill")])
        assert "3 jobs of render, bill" in standfast("incidents", "list").stdout

    def test_json_has_every_field(self, world, standfast, happened):
        job = world.enqueue(task="render")
        happened(jobs=[job])
        [shown] = answer(standfast("incidents", "list", "--json"))
        assert shown.keys() == FIELDS
        involved = {"job": job, "fence": 1, "task": "render", "attempt": 0, "progress": None, "state": "ready"}
        assert shown["jobs"] == [involved]

    def test_filters(self, world, standfast, happened):
        job, other = world.enqueue(task="render"), world.enqueue(task="bill")
        crash, hang = happened(jobs=[job]), happened(Trouble.HANG, ago=30 * HOUR, jobs=[other])
        lost = happened(Trouble.LOST, ago=50 * HOUR)

        def listed(*words):
            return [each["id"] for each in answer(standfast("incidents", "list", "--json", *words))]

        moment = (datetime.now(UTC) - 40 * HOUR).isoformat()
        assert listed() == [crash, hang, lost]
        assert listed("--trouble", "hang", "--trouble", "lost") == [hang, lost]
        memory = happened(Trouble.OUT_OF_MEMORY, ago=60 * HOUR)
        for words in ("out_of_memory", "out of memory", "Out of Memory"):
            assert listed("--trouble", words) == [memory], "as the table shows it"
        standfast("incidents", "forget", memory)
        assert listed("--since", "1d") == [crash]
        assert listed("--since", moment) == [crash, hang]
        assert listed("--job", job) == listed("--job", job[-8:]) == listed("--task", "render") == [crash]
        assert listed("--limit", "2") == [crash, hang]
        assert "The last 2 incidents of 3" in standfast("incidents", "list", "--limit", "2").stdout

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--trouble", "boredom"], "'boredom' is not one of"),
            (["--since", "yesterday"], "12h or 2d"),
            (["--since", "2026-03-01T00:00"], "has no time zone"),
            (["--job", "abc"], "too short"),
            (["--limit", "0"], "0 is not in the range"),
        ],
    )
    def test_a_filter_that_means_nothing_is_refused(self, standfast, words, told):
        assert_refused(standfast("incidents", "list", *words), 2, told)


class TestShow:
    def test_a_page_has_all_of_it(self, world, standfast, happened):
        job, gone = world.dead(task="render"), new_job_id()
        incident = happened(jobs=[job, gone], count=3, folder="/var/lib/x")
        told = standfast("incidents", "show", incident).stdout
        for words in (
            "crash",
            incident,
            "a crash of it",
            "web-01",
            "4242",
            WORKER,
            "/var/lib/x (on web-01)",
            "times",
        ):
            assert words in told
        rows = {row.split()[0]: row for row in told.splitlines() if row.split()}
        assert "render" in rows[job]
        assert "dead" in rows[job]
        assert "forgotten" in rows[gone]
        assert "\nStacks\n  Thread 1:\n    in render\n" in told
        assert "\nLog tail\n  last �[31mwords\n" in told, "what it holds must not repaint a terminal"

    def test_the_end_of_an_id_will_do(self, standfast, happened):
        incident = happened()
        assert incident in standfast("incidents", "show", incident[-8:].upper()).stdout

    def test_json_has_the_states_of_the_jobs_and_the_evidence(self, world, standfast, happened):
        job, gone = world.dead(task="render"), new_job_id()
        shown = answer(standfast("incidents", "show", happened(jobs=[job, gone]), "--json"))
        assert shown.keys() == FIELDS | {"now", "folder", "evidence"}
        assert [(each["task"], each["state"]) for each in shown["jobs"]] == [("render", "dead"), ("", None)]
        assert {name: each["text"] for name, each in shown["evidence"].items()} == EVIDENCE.parts

    def test_one_part_alone(self, standfast, happened):
        incident = happened()
        assert standfast("incidents", "show", incident, "--part", "stacks").stdout == "Thread 1:\n  in render\n"
        one = answer(standfast("incidents", "show", incident, "--part", "exit", "--json"))
        assert one["evidence"] == {"exit": {"text": "status 9", "size": 8, "cut": False}}
        told = standfast("incidents", "show", incident, "--part", "memory")
        assert_refused(told, 1, "has no part 'memory'; it has exit, stacks, log_tail")

    def test_one_that_is_not_there_is_explained(self, world, standfast, happened):
        happened()
        for words in (["show", "3c2d1e0f"], ["export", "3c2d1e0f", "--to", "x.zip"], ["forget", "3c2d1e0f"]):
            assert_refused(standfast("incidents", *words), 1, "`standfast incidents list` shows the ids")
        job = world.enqueue()
        assert_refused(standfast("incidents", "show", job), 1, "is a job, not an incident")

    def test_an_incident_is_no_job(self, standfast, happened):
        incident = happened()
        assert_refused(standfast("jobs", "show", incident), 1, f"`standfast incidents show {incident}` tells of it")

    def test_an_end_that_means_several_is_refused(self, world, standfast):
        at = datetime.now(UTC)
        for begin in ("a", "b"):
            made = Incident(id=f"{begin}-0123456789", trouble=Trouble.CRASH, summary="", at=at, last_at=at)
            run_procedure(world.do, write_incident(world.verbs, made))
        assert_refused(standfast("incidents", "show", "456789"), 1, "is the end of 2 ids")


class TestExport:
    def test_an_archive_has_the_files_and_is_private(self, standfast, happened, tmp_path):
        incident, other = happened(), happened(Trouble.HANG)
        told = standfast("incidents", "export", incident[-8:], other, "--to", "out.zip")
        assert told.stdout == "2 incidents exported to out.zip.\n"
        assert stat.S_IMODE((tmp_path / "out.zip").stat().st_mode) == 0o600
        with zipfile.ZipFile(tmp_path / "out.zip") as archive:
            assert archive.testzip() is None
            assert set(archive.namelist()) == {
                f"{each}/{name}"
                for each in (incident, other)
                for name in ("incident.json", "exit.txt", "stacks.txt", "log_tail.txt")
            }
            assert archive.read(f"{incident}/stacks.txt").decode() == EVIDENCE.parts["stacks"]
            assert json.loads(archive.read(f"{other}/incident.json"))["trouble"] == "hang"

    def test_a_folder_has_the_same_files(self, standfast, happened, tmp_path):
        incident = happened()
        shown = answer(standfast("incidents", "export", "--all", "--to", "out", "--json"))
        assert shown == {"exported": [incident], "to": "out"}
        made = tmp_path / "out" / incident
        assert {file.name for file in made.iterdir()} == {"exit.txt", "incident.json", "log_tail.txt", "stacks.txt"}
        assert {stat.S_IMODE(file.stat().st_mode) for file in made.iterdir()} == {0o600}

    @pytest.mark.parametrize("target", ["out.zip", "out"])
    def test_nothing_is_overwritten_unasked(self, standfast, happened, tmp_path, target):
        incident = happened()
        standfast("incidents", "export", incident, "--to", target)
        before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("out*/**/*")}
        again = standfast("incidents", "export", incident, "--to", target, input="n\n")
        assert (again.exit_code, again.stdout) == (1, "")
        assert "Overwrite" in again.stderr
        assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("out*/**/*")} == before
        nobody = standfast("incidents", "export", incident, "--to", target)
        assert nobody.exit_code == 2
        assert "nobody is there to confirm" in nobody.stderr
        assert standfast("incidents", "export", incident, "--to", target, "--yes").exit_code == 0

    def test_what_cannot_be_is_refused(self, standfast, happened, tmp_path):
        incident = happened()
        (tmp_path / "file").write_text("")
        (tmp_path / "folder.zip").mkdir()
        assert_refused(standfast("incidents", "export", "--to", "x.zip"), 2, "give the ids of incidents, or --all")
        assert_refused(standfast("incidents", "export", incident, "--all", "--to", "x"), 2, "and not both")
        assert_refused(standfast("incidents", "export", incident, "--to", "file"), 2, "file is a file")
        assert_refused(standfast("incidents", "export", incident, "--to", "folder.zip"), 2, "is a folder")
        assert_refused(standfast("incidents", "export", incident, "--to", "none/x.zip"), 1, "No such file")
        assert_refused(standfast("incidents", "export", incident), 2, "Missing option '--to'")

    def test_no_name_in_the_store_leads_out_of_the_export(self, world, standfast, tmp_path):
        at = datetime.now(UTC)
        made = Incident(id="../../up", trouble=Trouble.CRASH, summary="", at=at, last_at=at)
        run_procedure(world.do, write_incident(world.verbs, made, Evidence({"../x": "1"})))
        assert standfast("incidents", "export", "--all", "--to", "out").exit_code == 0
        files = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("out/**/*")}
        assert files == {"out/up", "out/up/incident.json", "out/up/x.txt"}


class TestForget:
    def test_those_named_are_forgotten_with_their_evidence(self, world, standfast, happened, kept):
        one, two = happened(), happened()
        assert standfast("incidents", "forget", one[-8:]).stdout == "1 incident forgotten.\n"
        assert kept() == [two]
        assert run_procedure(world.do, read_evidence(world.verbs, one)).parts == {}

    def test_before_and_all_ask_first(self, standfast, happened, kept):
        old, new = happened(ago=50 * HOUR), happened()
        assert "Forget 1 incident?" in standfast("incidents", "forget", "--before", "2d", input="n\n").stderr
        assert kept() == [new, old]
        standfast("incidents", "forget", "--before", "2d", input="y\n")
        assert kept() == [new]
        assert answer(standfast("incidents", "forget", "--all", "--yes", "--json")) == {"forgotten": [new]}
        assert standfast("incidents", "forget", "--all", "--yes").stdout == "No incident matches.\n"

    @pytest.mark.parametrize("words", [[], ["3c2d1e0f", "--all"], ["--all", "--before", "1d"]])
    def test_one_way_to_say_which(self, standfast, words):
        assert_refused(standfast("incidents", "forget", *words), 2, "only one of these")


class TestLinks:
    def test_a_job_names_its_incidents(self, world, standfast, happened):
        job, innocent = world.dead(task="render"), world.enqueue()
        first, last = happened(ago=2 * HOUR, jobs=[job]), happened(Trouble.HANG, jobs=[job])
        assert answer(standfast("jobs", "show", job, "--json"))["incidents"] == [last, first]
        assert answer(standfast("jobs", "show", innocent, "--json"))["incidents"] == []
        told = standfast("jobs", "show", job).stdout
        assert f"{last[-8:]} hang (1 h ago), {first[-8:]} crash (2 h ago)" in told
        assert "incidents" not in standfast("jobs", "show", innocent).stdout

    def test_the_list_of_dead_jobs_names_them(self, world, standfast, happened):
        job, other = world.dead(), world.dead()
        happened(ago=2 * HOUR, jobs=[job])
        listed = {each["id"]: each["incidents"] for each in answer(standfast("dead", "list", "--json"))}
        assert (len(listed[job]), listed[other]) == (1, [])
        last = happened(jobs=[job])
        rows = {row.split()[0]: row for row in standfast("dead", "list").stdout.splitlines()}
        assert f"{last[-8:]} +1" in rows[job]
        assert last[-8:] not in rows[other]

    def test_a_job_that_its_incident_does_not_name_any_more_leads_to_it(self, world, standfast, happened):
        """One that happened often names the last jobs only, and says how many more there were."""
        last = world.dead(task="render")
        incident = happened(jobs=[last], count=61, more_jobs=60)
        early, other = (
            world.dead(task="render", failure=Failure("Crash", f"it died (incident {incident[-8:]})")),
            world.dead(),
        )
        assert answer(standfast("jobs", "show", early, "--json"))["incidents"] == [incident]
        listed = {each["id"]: each["incidents"] for each in answer(standfast("dead", "list", "--json"))}
        assert listed == {last: [incident], early: [incident], other: []}
        for job, found in ((early, [incident]), (early[-8:], [incident]), (other, []), (new_job_id(), [])):
            shown = answer(standfast("incidents", "list", "--json", "--job", job))
            assert [each["id"] for each in shown] == found
        assert "more than 1 job of render" in standfast("incidents", "list").stdout
        assert "and 60 runs more before these" in standfast("incidents", "show", incident).stdout

    def test_an_incident_that_is_forgotten_is_told_to_be(self, world, standfast, happened):
        incident = happened()
        job = world.dead(failure=Failure("Crash", f"it died (incident {incident[-8:]})"))
        assert answer(standfast("jobs", "show", job, "--json"))["forgotten_incidents"] == []
        standfast("incidents", "forget", incident)
        shown = answer(standfast("jobs", "show", job, "--json"))
        assert (shown["incidents"], shown["forgotten_incidents"]) == ([], [incident[-8:]])
        told = standfast("jobs", "show", job).stdout
        assert f"{incident[-8:]} was forgotten, with the evidence" in told
        assert "incidents show" not in told

    def test_a_narrow_terminal_has_room_for_the_incident_of_a_dead_job(
        self, world, standfast, happened, monkeypatch
    ):
        monkeypatch.setenv("COLUMNS", "80")
        job = world.dead(task="render_all_the_pages", failure=Failure("Crash", "a long story " * 20))
        incident = happened(jobs=[job])
        header, _, row = standfast("dead", "list").stdout.splitlines()
        assert {"ID", "ERROR", "INCIDENT"} <= set(header.split())
        assert row.split()[0] == job[-8:]
        assert row.rstrip().endswith(incident[-8:])
        assert "a long" in row

    def test_doctor_tells_of_the_last_day(self, standfast, happened):
        def found():
            checks = answer(standfast("doctor", "--json"))["checks"]
            return next((each["level"], each["says"]) for each in checks if each["check"] == "incidents")

        assert found() == ("ok", "none in the last day")
        happened(ago=30 * HOUR)
        happened(Trouble.SNAPSHOT)
        assert found() == ("ok", "none in the last day; 1 earlier")
        happened(count=5)
        happened()
        happened(Trouble.OUT_OF_MEMORY)
        assert found() == ("warning", "3 incidents in the last day, 7 times: 2 crash, 1 out of memory")
