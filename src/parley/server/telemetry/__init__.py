"""What operators see of a server: traces, metrics, log lines and the audit log."""
