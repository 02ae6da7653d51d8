"""Attack: what the document of the API allows, and what it does not. No answer is an error of ours, or unknown."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fleet import PROVE
from poison import POISON, poison
from siege import TOKEN, besieged, told

from dashboard_stage import WORKER

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
EXAMPLES = 200 if PROVE else 2
PHASES = "coverage,fuzzing" if PROVE else "fuzzing"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.timeout(3600 if PROVE else 120)
@pytest.mark.parametrize("named", ["what is there", pytest.param("anything", marks=pytest.mark.full_size)])
def test_every_answer_is_one_that_the_document_names(tmp_path, named):
    """Asked by an admin, so that nothing is kept back; of what comes too often, 429 is the answer that is named."""
    ids = poison(tmp_path)
    if named == "what is there":
        (tmp_path / "schemathesis.toml").write_text(_asking_for(ids))
    with besieged(tmp_path) as siege:
        command = [SCHEMATHESIS, "run", f"{siege.url}/api/v1/openapi.json", "-H", f"Authorization: Bearer {TOKEN}"]
        command += ["--max-examples", str(EXAMPLES), "--seed", "7", "--checks", CHECKS, "--phases", PHASES]
        command += ["--rate-limit", "18/s", "--suppress-health-check", "filter_too_much"] if PROVE else []
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=3500)
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert "Traceback" not in told(tmp_path)


def _asking_for(ids: dict[str, str]) -> str:
    """Return settings of schemathesis by which paths name what is in the store, but for those that take it away."""
    there = {
        r"/jobs/\{id\}": ids["dead"],
        r"/incidents/\{id\}(?!/forget)": ids["incident"],
        r"/workers/\{id\}": WORKER,
        r"/locks/\{name\}": POISON["lock"],
    }
    return "\n".join(
        f"[[operations]]\ninclude-path-regex = {json.dumps(path)}\n"
        f"parameters = {{ {json.dumps(name)} = {json.dumps(value)} }}\n"
        for path, value in there.items()
        for name in (["path.id"] if "{id" in path else ["path.name"])
    )
