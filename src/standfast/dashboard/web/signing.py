"""The page on which people sign in. What they send is read by the entrance."""

from standfast.dashboard.texts import Texts
from standfast.dashboard.web.render import environment


def sign_in_page(
    texts: Texts,
    prefix: str = "",
    *,
    users: bool = True,
    token: bool = False,
    link: bool = False,
    printed: bool = False,
    next: str = "/",  # noqa: A002 - the name of the field
    name: str = "",
    problem: str | None = None,
) -> str:
    """Return the page, with the ways in that there are: name and password, a token, a link that can be printed."""
    return (
        environment()
        .get_template("sign-in.html")
        .render(
            t=texts.say,
            language=texts.language,
            prefix=prefix,
            users=users,
            token=token,
            link=link,
            printed=printed,
            next=next,
            name=name,
            problem=problem,
        )
    )
