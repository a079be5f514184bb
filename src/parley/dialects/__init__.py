"""How each release of A2A writes the canonical model.

One module per dialect and encoding; a new release is a new module beside these and a line in `registry`. Dialects do
not depend on envelopes or HTTP, and no layer below them depends on a dialect.
"""
