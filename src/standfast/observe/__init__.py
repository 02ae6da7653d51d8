"""What can be seen of jobs and workers: logs, reasons, metrics, traces, health, alerts, reports."""
