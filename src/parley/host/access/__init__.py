"""Who may do what on a host: scopes, roles, and the principal behind a request."""
