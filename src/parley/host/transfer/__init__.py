"""Moving a tenant between hosts: everything that it has as one file, without secrets, and back."""
