"""Calls to webhooks: which URLs are allowed, how their hosts are looked up, and how they are called."""
