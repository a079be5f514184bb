"""Which worker holds a task: leases, claims, and how workers reach each other."""
