"""A game told to people: a page, two pictures and a workbook in one folder, fit to be kept and shown."""

from holdfast.bench.game.report.folder import require_tools, write_report

__all__ = ["require_tools", "write_report"]
