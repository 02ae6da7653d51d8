"""Reports: what is wrong now, and what ran in a span of time, failed, was slow or late; text, a page or a workbook.

present.py, gathering.py ─► a Report ─► tables.py ─► text.py, page.py, workbook.py
                                            └─► brief.py (text.py, mail.py) ─► sending.py: now or each morning
"""

from standfast.report.gathering import gather_report, make_report
from standfast.report.model import Report
from standfast.report.sending import schedule_report

__all__ = ["Report", "gather_report", "make_report", "schedule_report"]
