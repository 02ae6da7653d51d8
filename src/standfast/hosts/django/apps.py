"""The Django app: checks the settings, and lets the processes that serve requests run jobs where they say so."""

from django.apps import AppConfig  # type: ignore[import-untyped]
from django.core.checks import register  # type: ignore[import-untyped]


class StandfastConfig(AppConfig):  # type: ignore[misc]
    """Standfast as one of INSTALLED_APPS."""

    name = "standfast.hosts.django"
    label = "standfast"
    verbose_name = "Standfast"

    def ready(self) -> None:
        """Register the checks, and start the embedded worker if the settings want one and this process serves."""
        from standfast.hosts.django.configuration import check_settings  # noqa: PLC0415 - it needs the settings
        from standfast.hosts.django.embedded import start_embedded  # noqa: PLC0415

        register(check_settings)
        start_embedded()
