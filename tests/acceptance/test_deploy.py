"""The manifests under deploy/ are well formed, agree with each other and with the command line, and are safe."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from first_example import run_first_example
from fleet import PROVE

from standfast.cli.main import cli
from standfast.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DEPLOYMENT, BUDGET = yaml.safe_load_all((DEPLOY / "kubernetes" / "workers.yaml").read_text())
POD = DEPLOYMENT["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
WEB = yaml.safe_load((DEPLOY / "kubernetes" / "web.yaml").read_text())["spec"]["template"]["spec"]
KEEPALIVE = DEPLOY / "systemd" / "standfast-keepalive.service"


def instructions():
    """Return the instructions of the Dockerfile, each with what follows it, continued lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def last(name):
    return [rest for instruction, rest in instructions() if instruction == name][-1]


def entrypoint():
    """Return the words of the command line that the image begins with."""
    words = yaml.safe_load(last("ENTRYPOINT"))
    assert words[:3] == ["tini", "--", "standfast"]
    return words[3:]


def read_by_the_command_line(words):
    """Let the command line read its words; it refuses what it does not know."""
    name, *rest = words
    return cli.commands[name].make_context(name, rest).params


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(lambda: yaml.safe_load(last("CMD")), id="image"),
        pytest.param(lambda: COMPOSE["services"]["workers"]["command"], id="compose"),
        pytest.param(lambda: CONTAINER["args"], id="kubernetes"),
    ],
)
def test_the_command_line_takes_what_they_say(arguments):
    given = read_by_the_command_line([*entrypoint(), *arguments()])
    assert given["target"] in {"jobs:app", "shop:app"}
    assert str(given["alive_file"]) == "/tmp/standfast/alive"


def test_the_image_runs_as_nobody_special_with_pinned_parts():
    froms = [rest.split()[0] for instruction, rest in instructions() if instruction == "FROM"]
    assert all(re.search(r":\d", image) for image in froms)
    assert last("USER") not in ("root", "0")
    assert last("STOPSIGNAL") == "SIGTERM"
    assert instructions()[-2][0] == "ENTRYPOINT"


@pytest.mark.timeout(600)
def test_the_lines_of_the_dockerfile_make_an_environment_with_an_app(tmp_path):
    """Its build stage installs this clone's wheel, which runs README's first example; compose names an app there."""
    build = COMPOSE["services"]["workers"]["build"]
    contexts = {"": DEPLOY / build["context"], "standfast": DEPLOY / build["additional_contexts"]["standfast"]}
    root = tmp_path / "root"
    (root / "srv").mkdir(parents=True)
    folder = root
    environment = {**os.environ, "EXTRAS": "postgres,redis" if PROVE else ""}

    def inside(text):
        return re.sub(r"(?<![\w.])/(?=opt/|srv/)", f"{root}/", text)

    for instruction, rest in instructions()[: [name for name, _ in instructions()].index("FROM", 1)]:
        if instruction == "RUN":
            run = inside(rest).replace("python -m venv", f"{sys.executable} -m venv")
            done = subprocess.run(
                ["sh", "-ec", run], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        elif instruction == "ENV":
            name, _, value = inside(rest).partition("=")
            environment[name] = value.replace("$PATH", environment["PATH"])
        elif instruction == "WORKDIR":
            folder = Path(inside(rest))
            folder.mkdir(parents=True, exist_ok=True)
        elif instruction == "COPY":
            words = shlex.split(inside(rest))
            of = "standfast" if words[0] == "--from=standfast" else ""
            *sources, target = words[bool(of) :]
            for source in (contexts[of] / source for source in sources):
                if source.is_dir():
                    shutil.copytree(source, folder / target, dirs_exist_ok=True)
                else:
                    (folder / target).mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, folder / target)
    target = COMPOSE["services"]["workers"]["command"][0]
    look = f"import {target.partition(':')[0]}, standfast; print(standfast.__file__)"
    done = subprocess.run(
        ["python", "-c", look], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(root / "opt" / "venv")
    run_first_example(root / "opt" / "venv", tmp_path / "shop")


def probes():
    yield yaml.safe_load(last("HEALTHCHECK").split("CMD", 1)[1])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        yield CONTAINER[probe]["exec"]["command"]


def test_every_probe_looks_at_the_file_that_the_supervisor_touches():
    found = list(probes())
    assert len(found) == 4
    for shell, flag, script in found:
        assert (shell, flag) == ("sh", "-c")
        words = shlex.split(script.partition("|")[0])
        assert words[:2] == ["find", "/tmp/standfast/alive"]


@pytest.mark.parametrize("age", [0, 120])
def test_a_probe_tells_a_young_file_from_an_old_one(age, tmp_path):
    file = tmp_path / "alive"
    file.touch()
    touched_at = time.time() - age
    os.utime(file, (touched_at, touched_at))
    for shell, flag, script in probes():
        looked = subprocess.run([shell, flag, script.replace("/tmp/standfast/alive", str(file))], check=False)
        assert (looked.returncode == 0) == (age == 0)


def test_stops_have_more_time_than_running_jobs():
    grace = read_by_the_command_line([*entrypoint(), *CONTAINER["args"]])["grace"]
    assert POD["terminationGracePeriodSeconds"] >= grace + 15
    workers = COMPOSE["services"]["workers"]
    assert int(workers["stop_grace_period"].removesuffix("s")) >= Settings().grace + 15


COUNTS_SIGTERM = """
import signal
numbers = {signal.SIGTERM, signal.SIGRTMIN}
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
count = 0
while signal.sigwait(numbers) == signal.SIGTERM:
    count += 1
print(count, flush=True)
"""


def test_the_pre_stop_hook_of_a_pod_leaves_sigterm_to_the_kubelet():
    """The kubelet runs the hook and then sends SIGTERM: a hook that sends one too makes that the second,
    which skips the grace."""
    hook = CONTAINER.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["true"])
    with subprocess.Popen([sys.executable, "-c", COUNTS_SIGTERM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        subprocess.run([re.sub(r"(kill -\w+) 1\b", rf"\1 {process.pid}", word) for word in hook], check=True)
        process.send_signal(signal.SIGRTMIN)
        assert process.stdout.readline() == "0\n"


def test_a_web_app_with_a_worker_has_time_to_stop_and_probes_that_health_answers():
    [container] = WEB["containers"]
    words, hook = container["command"], container["lifecycle"]["preStop"]["exec"]["command"]
    waits = int(hook[1]) + int(words[words.index("--timeout-graceful-shutdown") + 1])
    assert hook[0] == "sleep"
    assert WEB["terminationGracePeriodSeconds"] >= waits + Settings().grace + 15, "requests first, then jobs"
    probes = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert {name: path.removeprefix("/ops") for name, path in probes.items()} == {
        "startupProbe": "/readyz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert WEB["securityContext"] == POD["securityContext"]
    assert container["securityContext"] == CONTAINER["securityContext"]


def test_the_command_line_takes_what_the_keep_alive_unit_says():
    [command] = re.findall(r"^ExecStart=(.*)$", KEEPALIVE.read_text(), re.MULTILINE)
    program, *words = shlex.split(command)
    assert Path(program).name == "standfast"
    [target] = read_by_the_command_line(words)["targets"]
    assert target.url.geturl() == "https://shop.example/ops/livez"
    timer = KEEPALIVE.with_suffix(".timer").read_text()
    assert "OnUnitActiveSec=5min" in timer


def test_kubernetes_names_agree_and_nothing_runs_with_more_rights_than_it_needs():
    labels = DEPLOYMENT["spec"]["selector"]["matchLabels"]
    assert DEPLOYMENT["spec"]["template"]["metadata"]["labels"] == labels
    assert BUDGET["spec"]["selector"]["matchLabels"] == labels
    assert (DEPLOYMENT["apiVersion"], BUDGET["apiVersion"]) == ("apps/v1", "policy/v1")
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert CONTAINER["securityContext"]["allowPrivilegeEscalation"] is False
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounted = {mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert mounted == {volume["name"] for volume in POD["volumes"]}


def test_no_secret_is_written_in_them():
    for file in (path for path in DEPLOY.rglob("*") if path.is_file()):
        assert not re.search(r"://[^\s/@]+:[^\s/@]+@", file.read_text()), file
    assert CONTAINER["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "standfast"
    secrets = {name: each["file"] for name, each in COMPOSE["secrets"].items()}
    ignored = (DEPLOY.parent / ".dockerignore").read_text()
    assert all(f"deploy/{Path(file).name}" in ignored for file in secrets.values())
