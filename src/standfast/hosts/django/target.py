"""What worker processes of a Django project import: MODULE:APP is `standfast.hosts.django.target:app`.

Whoever imports it has a Django that is set up, by DJANGO_SETTINGS_MODULE, and the app that its settings name.
"""

import django  # type: ignore[import-untyped]

from standfast.hosts.django.configuration import app_of, configured, declare_backends

django.setup()


app = app_of(configured().target)
declare_backends(app)
