"""The worker inside the processes that serve requests, where the settings want one."""

import sys

from holdfast.host.django.configured import TARGET, app_of, configured
from holdfast.host.django.declared import declare_backends


def start_embedded() -> None:
    """Start it, unless this process is none that serves: a management command, a shell, a reloader's parent."""
    said = configured()
    if not said.embedded or _works_for_a_supervisor():
        return
    from holdfast.host.serving import start_in_this_process  # noqa: PLC0415 - only who wants one loads a worker

    app = app_of(said.target)
    declare_backends(app)
    start_in_this_process(app, target=TARGET, **said.options)


def _works_for_a_supervisor() -> bool:
    """Tell whether this is a worker process, which must not begin to work for itself as well."""
    return TARGET.partition(":")[0] in sys.modules
