"""Spans of OpenTelemetry for jobs: from whoever enqueues one, over its attempts and steps, to those it enqueues."""
