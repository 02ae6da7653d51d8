"""Keeps secrets out of evidence: environments, texts, arguments and locals. Pure, and used before anything is kept.

What is known to be secret goes wherever it stands. The rest is judged by its name and by its look, and in doubt it
is hidden: evidence is copied, mailed and pasted.
"""

import math
import re
from base64 import b64encode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import PurePath
from urllib.parse import parse_qsl, unquote
from uuid import UUID

from standfast.model.secrets import MASK, NO_SECRETS, Scrub

LONGEST_VALUE = 300
"""Characters of one argument or local that are shown."""

MOST_INSIDE = 20
"""Entries of a list or mapping that are shown, and as deep as `DEEPEST`."""

DEEPEST = 4

_LONGEST_READ = 20 * LONGEST_VALUE
"""Characters of a text that are looked at: far more than are shown, so that no secret is cut before it is found."""

_SHORTEST_NUMBER = 6
"""Digits of a number that may be a secret anywhere; shorter ones are most likely something else."""

_FOLDERS = ("PWD", "OLDPWD")
"""Variables that have nothing to do with passwords."""
_SECRET_NAME = re.compile(
    r"key(?!board|word|error)|token|secret|(?<!com)(?<!by)pass(?!ed\b|es\b|eng|ive)|pwd|cred|auth(?!or(?!i))|cookie|dsn"
    r"|private|signature|bearer|session_?id|(?<![a-z])(pw|pin|otp)(?![a-z])",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(
    r"PATH|HOME|PWD|OLDPWD|USER|LOGNAME|SHELL|SHLVL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|HOSTNAME|COLUMNS|LINES|CI|DEBUG"
    r"|NO_COLOR|FORCE_COLOR|EDITOR|PAGER|container|VIRTUAL_ENV|CONDA_PREFIX|INVOCATION_ID|JOURNAL_STREAM|NOTIFY_SOCKET"
    r"|PYTHON\w*|STANDFAST_\w+|XDG_\w+|LD_LIBRARY_PATH|LD_PRELOAD|MALLOC_\w+|(OMP|MKL|OPENBLAS)_NUM_THREADS"
    r"|DJANGO_SETTINGS_MODULE|FLASK_(APP|ENV|DEBUG)|WEB_CONCURRENCY|UVLOOP\w*"
    r"|(POD|NODE|CONTAINER)_(NAME|NAMESPACE|IP)|KUBERNETES_SERVICE_(HOST|PORT)"
)
_NOTHING_TO_HIDE = {"", "none", "null", "true", "false", "...", MASK}

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_URL_PASSWORD = re.compile(r"(\w://[^\s/?#@:'\"<>]{0,200}:)(?!\d{1,5}(?:[/?#\s]|$))[^\s'\"<>]{1,1000}@")
_URL_TOKEN = re.compile(r"(\w://)[^\s/?#@:'\"<>]{16,1000}@")
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,40}(?:key|token|secret|auth)[\w-]{0,40})(['\"]?\s*[:=,]\s*b?)"
    r"(?:(['\"])(?:\\.|(?!\3)[^\r\n])*|[^\r\n'\"]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|(?:basic|token|digest)(?= +\S*[\d=]))( +)[\w.~+/=-]{8,}", re.IGNORECASE)
# Looked for once in each run of such characters, and only in one that ends in a dot: to try again wherever `eyJ`
# stands in a run without a dot would take time by the square of its length.
_WEB_TOKEN = re.compile(r"(?<![\w-])(?=[\w-]++\.[\w-])([\w-]*?)\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?")
_WELL_KNOWN = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}"
    r"|\bglpat-[\w-]{16,}|\bxox[abeprs]-[\w-]{10,}|\b[sr]k[-_](?:live|test|proj|ant)?[-_]?[\w-]{16,}|\bAIza[\w-]{30,}"
)
_PAIR = re.compile(
    r"(?P<name>(?<![\w.-])[\w.-]{2,200})(?P<between>['\"]?\s{0,3}(?:=>|:=|[=:])\s{0,3})"
    r"(?P<value>[bruf]{0,2}\"(?:\\.|[^\"\\\n])*\"?|[bruf]{0,2}'(?:\\.|[^'\\\n])*'?|[^\s,;&)\]}\"']+)"
)
_QUOTES = re.compile(r"^[bruf]{0,2}['\"]|['\"]$")
_RANDOM = re.compile(r"[\w+/=.~-]{20,}", re.ASCII)
_PLAIN = {bool, int, float, complex, type(None), datetime, date, time, timedelta, Decimal, UUID}
_BITS_PER_CHARACTER = 3.4


def scrub_of(secrets: Iterable[str]) -> Scrub:
    """Return what removes these very texts, also quoted, escaped and in base64."""
    forms = [form for secret in secrets if secret for form in (secret, *_in_base64(secret))]
    return Scrub(forms) if forms else NO_SECRETS


def secrets_in_url(url: str) -> list[str]:
    """Return the password in a URL and whatever else is secret in it, as written and as meant."""
    _, credentials, _ = _around_credentials(url)
    _, _, password = credentials.partition(":")
    _, _, query = url.partition("?")
    found = [password, *(value for name, value in parse_qsl(query) if is_secret_name(name))]
    return [form for each in found if each for form in dict.fromkeys((each, unquote(each)))]


def is_secret_name(name: str) -> bool:
    """Tell whether what bears this name should not be shown."""
    return _SECRET_NAME.search(name) is not None and name not in _FOLDERS


def looks_random(text: str) -> bool:
    """Tell whether a value is one long word that nobody would think of: most likely a key."""
    if not _RANDOM.fullmatch(text) or text.startswith(("/", "./", "~")):
        return False
    has_digits, has_letters = any(map(str.isdigit, text)), any(map(str.isalpha, text))
    return has_digits and has_letters and _entropy(text) > _BITS_PER_CHARACTER


def redact_text(text: str, scrub: Scrub = NO_SECRETS) -> str:
    """Return a text without known secrets, passwords in URLs, credentials in headers, values of secret names."""
    text = scrub.text(text)
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _URL_PASSWORD.sub(rf"\1{MASK}@", text)
    text = _URL_TOKEN.sub(rf"\1{MASK}@", text)
    text = _HEADER.sub(rf"\1\2\3{MASK}", text)
    text = _SCHEME.sub(rf"\1\2{MASK}", text)
    text = _WEB_TOKEN.sub(rf"\1{MASK}", text)
    text = _WELL_KNOWN.sub(MASK, text)
    return _PAIR.sub(_without_value, text)


def redact_environment(environment: Mapping[str, str], scrub: Scrub = NO_SECRETS) -> dict[str, str]:
    """Return all variables by name; values only of those that are known to be harmless, without what is secret."""
    return {name: _variable(name, environment[name], scrub) for name in sorted(environment)}


def redact_values(values: Mapping[str, object], scrub: Scrub = NO_SECRETS) -> dict[str, str]:
    """Return arguments or locals as texts. What a secret one holds is hidden in the others too.

    Of objects that are more than data only the class is told: their own words may hold anything, or fail.
    """
    secrets = [text for name, value in values.items() if is_secret_name(name) for text in texts_in(value)]
    both = scrub_of(secrets)
    shown = {}
    for name, value in values.items():
        words = hidden(value) if is_secret_name(name) else _shown(value, 0)
        shown[name] = _cut(redact_text(both.text(scrub.text(words)), NO_SECRETS))
    return shown


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts in a value that is secret, and its long numbers."""
    if isinstance(value, str | bytes):
        yield _decoded(value)
    elif isinstance(value, int) and len(str(value)) >= _SHORTEST_NUMBER:
        yield str(value)
    elif type(value) in {list, tuple, set, frozenset, dict}:
        assert isinstance(value, dict | list | tuple | set | frozenset)
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


def hidden(value: object) -> str:
    """Return what stands in the place of a value that is not shown."""
    size = f", {len(value)} characters" if isinstance(value, str | bytes) else ""
    return f"(hidden{size})"


def _variable(name: str, value: str, scrub: Scrub) -> str:
    if not _HARMLESS_NAME.fullmatch(name):
        return hidden(value)
    if is_secret_name(name):
        return hidden(value)
    before, credentials, after = _around_credentials(value)
    if credentials:
        return scrub.text(f"{before}{MASK}@{redact_text(after)}")
    return hidden(value) if looks_random(value) else redact_text(value, scrub)


def _around_credentials(value: str) -> tuple[str, str, str]:
    """Split a URL around its user and password, whatever characters they have."""
    scheme, slashes, rest = value.partition("://")
    credentials, at, after = rest.rpartition("@")
    return (scheme + slashes, credentials, after) if slashes and at else (value, "", "")


def _without_value(pair: re.Match[str]) -> str:
    name, value = pair["name"], pair["value"]
    if _QUOTES.sub("", value).lower() in _NOTHING_TO_HIDE or not is_secret_name(name):
        return pair[0]
    return f"{name}{pair['between']}{MASK}"


def _shown(value: object, depth: int) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, str | bytes):
        return hidden(value) if looks_random(_decoded(value)) else repr(value[:_LONGEST_READ])
    if type(value) in _PLAIN or isinstance(value, PurePath):
        return repr(value)
    if type(value) in {dict, list, tuple, set, frozenset} and depth < DEEPEST:
        return _shown_inside(value, depth + 1)
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def _shown_inside(value: object, depth: int) -> str:
    assert isinstance(value, dict | list | tuple | set | frozenset)
    if isinstance(value, dict):
        inside = [_entry(name, each, depth) for name, each in islice(value.items(), MOST_INSIDE)]
    else:
        inside = [_shown(each, depth) for each in islice(value, MOST_INSIDE)]
    more = len(value) - len(inside)
    listed = ", ".join([*inside, *([f"… {more:,} more"] if more else [])])
    return f"{{{listed}}}" if isinstance(value, dict | set | frozenset) else f"[{listed}]"


def _entry(name: object, value: object, depth: int) -> str:
    is_secret = isinstance(name, str) and is_secret_name(name)
    return f"{_shown(name, depth)}: {hidden(value) if is_secret else _shown(value, depth)}"


def _decoded(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")


def _in_base64(secret: str) -> Iterator[str]:
    raw = secret.encode(errors="replace")
    for encode in (b64encode, urlsafe_b64encode):
        yield encode(raw).decode().rstrip("=")


def _entropy(text: str) -> float:
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
