"""Recording what was sent and received, and reporting it without secrets."""
