"""The one stream of a page, and the channels on it; `table` names the kinds of channels."""
