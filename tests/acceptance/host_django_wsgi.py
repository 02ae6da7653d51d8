"""The Django project of hosts in tests, for WSGI servers."""

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "host_django"
web = get_wsgi_application()
