"""Which addresses are public, and connections that go to checked addresses only: for webhooks and for foreign cards."""
