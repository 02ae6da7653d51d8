"""The dashboard: what people see of an app in a browser, and what they do about it.

    browser ─► serving ─► access: who is it? ─► web: pages ─┐
    program ─► serving ─► access: who is it? ─► api: JSON ──┴─► desk ─► operations (reading, acting) ─► store

An operation is a function with a name, a path and a role. Pages, JSON API and live updates call the same ones; the
desk shares reads among all who look, and asks, does and writes down what somebody does.
"""
