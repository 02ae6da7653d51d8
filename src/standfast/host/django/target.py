"""What worker processes of a Django project import: MODULE:APP is `standfast.host.django.target:app`.

Whoever imports it has a Django that is set up, by DJANGO_SETTINGS_MODULE, and the app that its settings name.
"""

import django  # type: ignore[import-untyped]

django.setup()

from standfast.host.django.configured import app_of, configured  # noqa: E402 - they need the settings
from standfast.host.django.declared import declare_backends  # noqa: E402

app = app_of(configured().target)
declare_backends(app)
