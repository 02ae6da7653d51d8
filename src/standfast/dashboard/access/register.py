"""Who is known, and by what: the token, the password, or the link by which they came."""

import logging
from dataclasses import dataclass
from http import HTTPStatus

from standfast.dashboard.access.passwords import LONGEST_PASSWORD, Passwords
from standfast.dashboard.access.private_file import Line
from standfast.dashboard.access.refusal import Code, Refusal, RefusedError
from standfast.dashboard.access.sessions import How, Session, Signer
from standfast.dashboard.access.tokens import Tokens
from standfast.dashboard.access.user import User
from standfast.dashboard.access.user_file import UserFile
from standfast.errors import ConfigurationError

_log = logging.getLogger(__name__)

NOT_SAID = Refusal(HTTPStatus.FORBIDDEN, Code.AUTH, "it could not be told who this is; the server's log says why")


@dataclass(frozen=True, slots=True)
class Known:
    """Somebody, and a mark of what they are known by: it is another when their password or token is."""

    user: User
    mark: str


class Register:
    """Finds who somebody is. Roles are as they are now, not as they were when somebody signed in."""

    def __init__(self, signer: Signer, tokens: Tokens, users: UserFile | None, link_user: User | None) -> None:
        self._signer = signer
        self._tokens = tokens
        self._users = users
        self._passwords = Passwords()
        self._link_user = link_user

    @property
    def ways(self) -> frozenset[How]:
        """By what people can sign in."""
        found = {How.LINK: self._link_user is not None, How.TOKEN: bool(self._tokens)}
        return frozenset(
            how for how, is_there in {**found, How.PASSWORD: self._users is not None}.items() if is_there
        )

    def by_link(self) -> Known | None:
        """Return who comes by a link."""
        return None if self._link_user is None else Known(self._link_user, "")

    def by_token(self, given: str) -> Known | None:
        """Return whom a token stands for."""
        found = self._tokens.find(given)
        return None if found is None else Known(found[0], self._signer.mark(found[1]))

    async def by_password(self, name: str, password: str) -> Known | None:
        """Return who has this name and password. It takes as long where nobody has the name."""
        line = self._line(name)
        if len(password) > LONGEST_PASSWORD:
            return None
        is_right = await self._passwords.compare(password, None if line is None else line.secret)
        return Known(line.user, self._signer.mark(line.secret)) if line is not None and is_right else None

    def by_session(self, session: Session) -> User | None:
        """Return whose session it is, if they are still known by what they came with."""
        known = self._of_session(session)
        return known.user if known is not None and known.mark == session.mark else None

    def _of_session(self, session: Session) -> Known | None:
        if session.how is How.LINK:
            return self.by_link()
        if session.how is How.PASSWORD:
            line = self._line(session.name)
            return None if line is None else Known(line.user, self._signer.mark(line.secret))
        marked = ((user, self._signer.mark(digest)) for digest, user in self._tokens.all())
        return next((Known(user, mark) for user, mark in marked if mark == session.mark), None)

    def _line(self, name: str) -> Line | None:
        try:
            return None if self._users is None else self._users.find(name)
        except ConfigurationError as error:
            _log.error("the user file cannot be used: %s", error)
            raise RefusedError(NOT_SAID) from error

    def close(self) -> None:
        """Let go of what hashes passwords."""
        self._passwords.close()
