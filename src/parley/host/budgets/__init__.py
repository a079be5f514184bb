"""Budgets: what model calls may cost, and what stops them before they cost more."""
