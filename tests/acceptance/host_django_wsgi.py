"""The Django project of hosts in tests, for servers of WSGI and ASGI."""

import os

from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "host_django"
web = get_wsgi_application()
asgi = get_asgi_application()
