"""The bridge: an ASGI app behind a WSGI server gets what was sent, and every request gets an answer."""

import asyncio
import io
import os
import signal
import threading

import pytest

from standfast.dashboard.serving.wsgi_bridge import LONGEST_BODY, STREAMS, WsgiBridge


class Recorder:
    """An ASGI app that keeps what it is asked, and answers as told."""

    def __init__(self, status=200, headers=(), parts=(b"fine",), fails=False):
        self.status, self.headers, self.parts, self.fails = status, list(headers), parts, fails
        self.scope, self.body, self.loops = None, b"", set()

    async def __call__(self, scope, receive, send):
        self.scope = scope
        self.loops.add(id(asyncio.get_running_loop()))
        asked = await receive()
        self.body = asked["body"]
        assert (await receive())["type"] == "http.disconnect"
        if self.fails is True:
            raise RuntimeError("of the test")
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        for number, part in enumerate(self.parts, 1):
            more = bool(self.fails) or number < len(self.parts)
            await send({"type": "http.response.body", "body": part, "more_body": more})
        if self.fails:
            raise RuntimeError("of the test")


def ask(bridge, path="/", body=b"", **environ):
    """Send a request as a WSGI server does; return status, headers and body."""
    began = []
    given = {
        "REQUEST_METHOD": "POST" if body else "GET",
        "PATH_INFO": path,
        "SERVER_NAME": "shop.example",
        "SERVER_PORT": "8000",
        "wsgi.input": io.BytesIO(body),
        "wsgi.url_scheme": "http",
        **({"CONTENT_LENGTH": str(len(body))} if body else {}),
        **environ,
    }
    parts = bridge(given, lambda status, headers: began.append((status, headers)))
    ((status, headers),) = began
    return status, headers, b"".join(parts)


def test_a_request_comes_across_whole():
    app = Recorder(status=201, headers=[(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")], parts=(b"yes", b"!"))
    status, headers, body = ask(
        WsgiBridge(app, ("standfast.user",)),
        "/j\xc3\xb6bs",  # as WSGI has it: each byte a letter
        b"x=1",
        SCRIPT_NAME="/deep",
        QUERY_STRING="a=%20",
        CONTENT_TYPE="text/plain",
        REMOTE_ADDR="10.0.0.7",
        HTTP_X_CSRF_TOKEN="t",
        **{"standfast.user": "ada", "wsgi.url_scheme": "https", "other": "not for the app"},
    )
    assert (status, body) == ("201 Created", b"yes!")
    assert headers == [("set-cookie", "a=1"), ("set-cookie", "b=2")]
    assert app.body == b"x=1"
    scope = app.scope
    assert (scope["method"], scope["scheme"], scope["client"]) == ("POST", "https", ("10.0.0.7", 0))
    assert (scope["root_path"], scope["path"], scope["query_string"]) == ("/deep", "/deep/jöbs", b"a=%20")
    assert dict(scope["headers"]) == {
        b"x-csrf-token": b"t",
        b"content-type": b"text/plain",
        b"content-length": b"3",
    }
    assert (scope["standfast.user"], scope[STREAMS], "other" in scope) == ("ada", False, False)


@pytest.mark.parametrize(
    ("length", "status"),
    [("abc", 400), ("-1", 400), ("1e3", 400), ("9" * 30, 400), ("²", 400), (str(LONGEST_BODY + 1), 413)],
)
def test_a_length_that_makes_no_sense_is_refused_without_reading(length, status):
    app = Recorder()
    told, _, _ = ask(WsgiBridge(app), body=b"x", CONTENT_LENGTH=length)
    assert told.startswith(f"{status} ")
    assert app.scope is None


def test_no_more_is_read_than_was_announced():
    app = Recorder()
    assert ask(WsgiBridge(app), body=b"one and more", CONTENT_LENGTH="3")[0] == "200 OK"
    assert app.body == b"one"


@pytest.mark.parametrize(("status", "told"), [(204, "204 No Content"), (499, "499 Unnamed")])
def test_every_status_has_words(status, told):
    """WSGI wants them, also where nobody has agreed on any."""
    assert ask(WsgiBridge(Recorder(status)))[0] == told


def test_an_app_that_fails_is_answered_for(caplog):
    """What it had begun to say is not taken for all of it; what went wrong is in the log."""
    status, _, body = ask(WsgiBridge(Recorder(fails=True)))
    assert (status, body) == ("500 Internal Server Error", b"Internal Server Error\n")
    with pytest.raises(ConnectionAbortedError, match="broke off"):
        ask(WsgiBridge(Recorder(fails="at the end")))
    assert caplog.text.count("RuntimeError: of the test") == 2


async def _says_nothing(scope, receive, send):
    pass


def test_an_app_that_says_nothing_is_answered_for():
    assert ask(WsgiBridge(_says_nothing))[0] == "500 Internal Server Error"


def test_what_is_for_the_server_to_say_is_left_to_it():
    app = Recorder(headers=[(b"connection", b"close"), (b"x", b"y")])
    assert ask(WsgiBridge(app))[1] == [("x", "y")]


@pytest.mark.parametrize("app", [Recorder(headers=[(b"content-length", b"4")]), Recorder(fails=True)])
def test_the_answer_to_head_has_no_body(app):
    """Some servers send what they are given: it would be taken for the next answer."""
    status, headers, body = ask(WsgiBridge(app), REQUEST_METHOD="HEAD")
    assert (status[:3], body) == ("500" if app.fails else "200", b"")
    assert app.fails or headers == [("content-length", "4")]
    assert ask(WsgiBridge(app), REQUEST_METHOD="HEAD", CONTENT_LENGTH="x")[2] == b""


def test_all_threads_share_one_loop():
    app = Recorder()
    bridge = WsgiBridge(app)
    threads = [threading.Thread(target=ask, args=(bridge,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(app.loops) == 1


def test_a_forked_process_has_a_loop_of_its_own():
    """The thread of the parent's loop is not there: who waited for it would wait for ever."""
    bridge = WsgiBridge(Recorder())
    assert ask(bridge)[0] == "200 OK"
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(0 if ask(bridge)[0] == "200 OK" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_who_closes_an_answer_ends_its_making():
    """Else what nobody takes any more would wait for ever."""
    ended = threading.Event()

    async def endless(_scope, _receive, send):
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        finally:
            ended.set()

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/"}
    answer = WsgiBridge(endless)(environ, lambda *_: None)
    assert next(iter(answer)) == b"x"
    assert not ended.is_set()
    answer.close()
    assert ended.wait(10)
