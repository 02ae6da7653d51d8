"""What a handler said, as text that every store can hold."""

from standfast.codec.secrets import NO_SECRETS, Scrub

MESSAGE_LIMIT = 10_000
"""Characters kept of a message: its beginning says most."""


def text_of(words: object, scrub: Scrub = NO_SECRETS) -> str:
    """Return what a handler said: no secret, never too long or unreadable, also where saying it fails."""
    try:
        text = scrub.text(str(words))
    except BaseException:  # noqa: BLE001 - the handler's own class decides what it raises
        return "it cannot say what it is: its __str__ raises"
    return legible(text if len(text) <= MESSAGE_LIMIT else f"{text[:MESSAGE_LIMIT]}…")


def legible(text: str) -> str:
    """Escape what some store cannot hold: lone surrogates, as in undecodable file names, and zero bytes."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
