"""A game told to people: a page, two pictures and a workbook in one folder, fit to be kept and shown."""

from holdfast.bench.game.report.folder import prepare_report, write_report

__all__ = ["prepare_report", "write_report"]
