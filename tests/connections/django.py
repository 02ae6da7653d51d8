"""Django's connection."""

import django
from django.conf import settings

from connections.faces import Sync, for_libpq


def set_up_django(url):
    """Tell Django of the database. A process has one set of settings, whose database may be another each time."""
    said = for_libpq(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    database = {name: said.pop(theirs, "") for name, theirs in names.items()} | {"OPTIONS": said}
    if settings.configured:
        from django.db import connections  # noqa: PLC0415 - it needs the settings

        connections.settings["default"].update(database)
        return
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql", **database},
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        USE_TZ=True,
    )
    django.setup()


class Django(Sync):
    """Inside `with transaction.atomic()`."""

    def __init__(self, url):
        set_up_django(url)
        from django.db import connection, transaction  # noqa: PLC0415 - it needs the settings

        self.tx = connection
        self._transaction = transaction
        self._block = None

    def begin(self):
        self._block = self._transaction.atomic()
        self._block.__enter__()

    def do(self, sql):
        with self.tx.cursor() as cursor:
            cursor.execute(sql)

    def commit(self):
        block, self._block = self._block, None
        block.__exit__(None, None, None)

    def rollback(self):
        self._transaction.set_rollback(True)
        self.commit()

    def close(self):
        if self._block is not None:
            self.rollback()
        super().close()
