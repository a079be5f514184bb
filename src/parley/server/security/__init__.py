"""Who is calling, and what that caller may do: credentials, security schemes, requirements and rate limits."""
