"""Metrics of the tasks, each an `evaluate.Metric`."""
