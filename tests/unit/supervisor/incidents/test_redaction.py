"""No secret gets into evidence: not by its name, not by its look, and none that is known anywhere."""

from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

import pytest

from standfast.model.redaction import (
    LONGEST_VALUE,
    is_secret_name,
    looks_random,
    redact_environment,
    redact_text,
    redact_values,
    scrub_of,
)
from standfast.model.secrets import MASK

SECRET = "hunter2-Ünï/+'q"


@pytest.mark.parametrize(
    "name",
    [
        "API_KEY",
        "apikey",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "MYSQL_PWD",
        "passphrase",
        "GITHUB_TOKEN",
        "SENTRY_DSN",
        "credentials",
        "Authorization",
        "authToken",
        "Set-Cookie",
        "private_pem",
        "db_pw",
        "user.pin",
        "sessionid",
    ],
)
def test_names_of_secrets(name):
    """Whatever is called like a secret is one."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["author", "keyword", "keyboard", "KeyError", "compass", "passenger", "PATH", "spin"]
)
def test_names_that_only_look_like_it(name):
    """Words of every day stay readable."""
    assert not is_secret_name(name)


TEXTS = {
    "postgresql://shop:s3cr%40t@db/shop": f"postgresql://shop:{MASK}@db/shop",
    "redis://:s3cr3t@localhost:6379/0": f"redis://:{MASK}@localhost:6379/0",
    "amqp://u:pa/ss@w@host/v": f"amqp://u:{MASK}@host/v",
    "https://ghp0123456789abcdef@example.com/x.git": f"https://{MASK}@example.com/x.git",
    "Authorization: Bearer abc.def-ghi": f"Authorization: {MASK}",
    "{'Authorization': 'Basic dTpw', 'Accept': '*/*'}": f"{{'Authorization': '{MASK}', 'Accept': '*/*'}}",
    'curl -H "X-Api-Key: k-123" -v': f'curl -H "X-Api-Key: {MASK}" -v',
    "Cookie: a=1; sid=2\nHost: b": f"Cookie: {MASK}\nHost: b",
    "sent Bearer abcdefgh to it": f"sent Bearer {MASK} to it",
    "password=abc, user=ada": f"password={MASK}, user=ada",
    "login(user='ada', password='a b\\'c')": f"login(user='ada', password={MASK})",
    '{"client_secret": "a\\"b", "n": 1}': f'{{"client_secret": {MASK}, "n": 1}}',
    "?a=1&api_key=xyz&b=2": f"?a=1&api_key={MASK}&b=2",
    "token: expired-0": f"token: {MASK}",
    "jwt eyJhbGciOi.eyJzdWIi.c2ln here": f"jwt {MASK} here",
    "jwt session-eyJhbGciOi.eyJzdWIi.c2ln here": f"jwt session-{MASK} here",
    "jwt eyJ-eyJhbGciOi.eyJzdWIi here": f"jwt {MASK} here",
    "no.jwt eyJhbGciOi eyJ.x here": "no.jwt eyJhbGciOi eyJ.x here",
    "id AKIAIOSFODNN7EXAMPLE.": f"id {MASK}.",
    "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb": f"a\n{MASK}\nb",
    "-----BEGIN PRIVATE KEY-----\nMIIE": MASK,
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text):
    """What gives a secret away in a log line or traceback is masked, and the rest stays; twice changes nothing."""
    assert redact_text(text) == TEXTS[text]
    assert redact_text(TEXTS[text]) == TEXTS[text]


@pytest.mark.parametrize(
    "text",
    [
        'File "jobs.py", line 12, in send\n    raise KeyError("x")\nKeyError: \'x\'',
        "http://localhost:8080/users/a@b.example?x=1",
        "token=None password='' secret=true",
        "a basic understanding of token passing",
        "mail to ada@example.com: sent at 12:30:01",
        "job 0197b1c2-7d1e-7c3a-9f60-5a4b3c2d1e0f in queue mail",
    ],
)
def test_texts_without_secrets_stay_as_they_are(text):
    """Evidence that is masked for nothing is no evidence."""
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "form",
    [
        str,
        repr,
        quote,
        lambda secret: f"x{secret}y",
        lambda secret: b64encode(secret.encode()).decode(),
        lambda secret: repr(secret.encode()),
    ],
)
def test_known_secrets_go_wherever_they_stand(form):
    """Escaped, quoted, in base64 or inside another word."""
    written = form(SECRET)
    cleaned = redact_text(f"before {written} after", scrub_of([SECRET]))
    assert MASK in cleaned
    assert "hunter2" not in cleaned
    assert b64encode(SECRET.encode()).decode().rstrip("=") not in cleaned


def test_environment():
    """Only harmless names are shown with their values; of the others, how long they are."""
    shown = redact_environment(
        {
            "PATH": "/usr/bin:/bin",
            "PWD": "/srv/shop",
            "LANG": "C.UTF-8",
            "LC_ALL": "C",
            "PYTHONPATH": "/srv",
            "STANDFAST_URL": "postgresql://shop:p@ss w/rd@db/shop",
            "STANDFAST_LEASE": "30s",
            "STANDFAST_API_TOKEN": "x",
            "PGPASSWORD": "0123456789",
            "COMPANY_PLAN": "a value of an unknown name",
            "HOSTNAME": "kJ8#",
            "TERM": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA",
        }
    )
    assert shown == {
        "COMPANY_PLAN": "(hidden, 26 characters)",
        "STANDFAST_API_TOKEN": "(hidden, 1 characters)",
        "STANDFAST_LEASE": "30s",
        "STANDFAST_URL": f"postgresql://{MASK}@db/shop",
        "HOSTNAME": "kJ8#",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "PATH": "/usr/bin:/bin",
        "PGPASSWORD": "(hidden, 10 characters)",
        "PWD": "/srv/shop",
        "PYTHONPATH": "/srv",
        "TERM": "(hidden, 30 characters)",
    }


def test_known_secrets_in_the_environment():
    """Also the value of a harmless name may hold one."""
    assert redact_environment({"HOME": "/home/hunter2"}, scrub_of(["hunter2"])) == {"HOME": f"/home/{MASK}"}


@dataclass
class Login:
    """An object whose own words give its secret away."""

    password: str


class Broken:
    """An object that fails to say what it is."""

    def __repr__(self):
        raise RuntimeError("no")


def test_values():
    """Arguments and locals are told as data; secret names, random values and objects are not."""
    shown = redact_values(
        {
            "order": 42,
            "path": Path("/tmp/x"),
            "job": UUID(int=7),
            "names": ["ada", "bob"],
            "password": SECRET,
            "url": f"https://x/?q={SECRET}",
            "config": {"host": "db", "api_key": "abc", "deep": [{"token": b"t"}]},
            "login": Login(SECRET),
            "broken": Broken(),
            "blob": "Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA",
            "text": "password=abc",
            "long": "ab " * 10_000,
        }
    )
    assert shown["order"] == "42"
    assert shown["path"] == "PosixPath('/tmp/x')"
    assert shown["names"] == "['ada', 'bob']"
    assert shown["password"] == "(hidden, 15 characters)"
    assert shown["url"] == f'"https://x/?q={MASK}"'
    assert "abc" not in shown["config"]
    assert "'host': 'db'" in shown["config"]
    assert "b't'" not in shown["config"]
    assert shown["login"].endswith("Login>")
    assert shown["broken"].endswith("Broken>")
    assert shown["blob"] == "(hidden, 30 characters)"
    assert shown["text"] == f"'password={MASK}'" or shown["text"] == f"'password={MASK}"
    assert len(shown["long"]) == LONGEST_VALUE
    assert "hunter2" not in str(shown)


def test_a_secret_at_the_end_of_what_is_shown_is_not_cut_in_half():
    """It is found before the text is cut."""
    text = "x" * (LONGEST_VALUE - 8) + " " + SECRET
    assert "hunter" not in redact_values({"text": text}, scrub_of([SECRET]))["text"]


def test_many_things_inside_are_counted():
    """A list of a million is not evidence."""
    assert redact_values({"all": list(range(1000))})["all"].endswith("… 980 more]")


@pytest.mark.parametrize(
    ("text", "random"),
    [
        ("Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA", True),
        ("5f4dcc3b5aa765d61d8327deb882cf99", True),
        ("/usr/local/lib/python3.11/site-packages", False),
        ("a-name-of-twenty-letters", False),
        ("short1", False),
        ("1111111111111111111111a", False),
    ],
)
def test_random_looks(text, random):
    """Long words with letters and digits in no order are taken for keys."""
    assert looks_random(text) is random


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "piece",
    [
        "a://b:",
        "password='",
        "x-key",
        "eyJabcdefgh.",
        "eyJ-",
        "eyJabcdefgh-",
        "-eyJ",
        "bearer ",
        "Cookie: \\",
        "aa-",
    ],
)
def test_no_text_takes_long(piece):
    """What a handler logs cannot hold up a supervisor: the work grows with the text, and not with its square."""
    redact_text(piece * (1_000_000 // len(piece)))
