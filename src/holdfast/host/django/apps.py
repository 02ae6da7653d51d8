"""The Django app: checks the settings, and lets the processes that serve requests run jobs where they say so."""

from django.apps import AppConfig  # type: ignore[import-untyped]
from django.core.checks import register  # type: ignore[import-untyped]


class HoldfastConfig(AppConfig):  # type: ignore[misc]
    """Holdfast as one of INSTALLED_APPS."""

    name = "holdfast.host.django"
    label = "holdfast"
    verbose_name = "Holdfast"

    def ready(self) -> None:
        """Register the checks, and start the embedded worker if the settings want one and this process serves."""
        from holdfast.host.django.checks import check_settings  # noqa: PLC0415 - it needs the settings
        from holdfast.host.django.embedded import start_embedded  # noqa: PLC0415

        register(check_settings)
        start_embedded()
