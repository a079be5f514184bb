"""All built-in models, by their names."""

from __future__ import annotations

from collections.abc import Mapping

from parley.host.models.builtin import arithmetic, currency, dates, drafts, router, text, units
from parley.host.models.builtin.replies import BuiltinModel
from parley.host.models.model import Model

BUILTIN_MODELS: Mapping[str, Model] = {
    "parley/router": BuiltinModel(router.reply),
    "parley/arithmetic": BuiltinModel(arithmetic.reply),
    "parley/currency": BuiltinModel(currency.reply),
    "parley/units": BuiltinModel(units.reply),
    "parley/dates": BuiltinModel(dates.reply),
    "parley/text": BuiltinModel(text.reply),
    "parley/drafts": BuiltinModel(drafts.reply),
}
"""The models that need neither a key nor a network."""
