"""A game told to people: a page, two pictures and a workbook in one folder, fit to be kept and shown."""

from game.report.folder import prepare_board, prepare_report, write_board, write_report

__all__ = ["prepare_board", "prepare_report", "write_board", "write_report"]
