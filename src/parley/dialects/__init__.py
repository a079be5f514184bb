"""How each release of A2A spells the canonical model.

One module per dialect and encoding; a new release is a new module beside these and a line in `registry`. Dialects know
neither envelopes nor HTTP, and nothing below them knows a dialect's spelling.
"""
