"""Why somebody is not let in, in a form that pages and API tell in their own way."""

import math
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

BEARER = ("WWW-Authenticate", 'Bearer realm="standfast"')


class Code(StrEnum):
    """Why; texts for people are found by it."""

    NETWORK = "network"
    """Not from this address."""
    HOST = "host"
    """The name by which they came is not one of ours."""
    TOO_MANY = "too_many"
    """Too many requests, or too many guesses: later."""
    SIGN_IN = "sign_in"
    """Nobody is signed in, or not any more."""
    WRONG = "wrong"
    """Name, password, token or link are not right."""
    ORIGIN = "origin"
    """It comes from another site."""
    CSRF = "csrf"
    """The token of the form is missing, or is of another session."""
    TOO_LARGE = "too_large"
    BODY = "body"
    """What was sent cannot be read."""
    AUTH = "auth"
    """Whoever was to say who it is did not."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status, the code and the headers of an answer to somebody who is not let in, and words for programs."""

    status: HTTPStatus
    code: Code
    says: str
    headers: tuple[tuple[str, str], ...] = ()


class RefusedError(Exception):
    """Somebody is not let in, or what they sent is not read."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.says)
        self.refusal = refusal


def later(seconds: float) -> Refusal:
    """Return the refusal of somebody who comes too often."""
    headers = (("Retry-After", str(max(1, math.ceil(seconds)))),)
    return Refusal(HTTPStatus.TOO_MANY_REQUESTS, Code.TOO_MANY, "too many requests: try again later", headers)
