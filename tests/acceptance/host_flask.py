"""A Flask app of hosts in tests."""

from flask import Flask, request
from host_app import app, order

from standfast.hosts.wsgi import bind

web = Flask("host_flask")
bind(web, app)


@web.get("/")
def answer():
    return "here"


@web.post("/<task>")
def enqueue(task):
    return order(task, request.args)
