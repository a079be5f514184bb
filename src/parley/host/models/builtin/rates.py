"""Reference rates of currencies, for examples and offline use. They are fixed: nothing ever updates them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

RATES_DATE = "2026-11-02"
"""The day whose rates these are."""

UNITS_PER_DOLLAR: Mapping[str, Fraction] = {
    code: Fraction(rate)
    for code, rate in {
        "AED": "3.6725",
        "AUD": "1.5204",
        "BRL": "5.7830",
        "CAD": "1.3921",
        "CHF": "0.8644",
        "CNY": "7.1185",
        "CZK": "23.41",
        "DKK": "6.8920",
        "EUR": "0.9241",
        "GBP": "0.7712",
        "HKD": "7.7743",
        "HUF": "377.20",
        "IDR": "15745",
        "ILS": "3.7410",
        "INR": "84.07",
        "ISK": "137.10",
        "JPY": "152.35",
        "KRW": "1378.5",
        "MXN": "20.13",
        "MYR": "4.3780",
        "NOK": "10.98",
        "NZD": "1.6690",
        "PHP": "58.26",
        "PLN": "4.0190",
        "RON": "4.5970",
        "SAR": "3.7500",
        "SEK": "10.62",
        "SGD": "1.3217",
        "THB": "33.72",
        "TRY": "34.28",
        "UAH": "41.28",
        "USD": "1",
        "VND": "25310",
        "ZAR": "17.61",
    }.items()
}
"""How many units of a currency one US dollar is."""

WITHOUT_CENTS = frozenset({"HUF", "IDR", "ISK", "JPY", "KRW", "VND"})
"""Currencies whose amounts are written without decimals."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "AED": ("dirham", "dirhams"),
    "AUD": ("australian dollar", "australian dollars"),
    "CAD": ("canadian dollar", "canadian dollars"),
    "CHF": ("franc", "francs", "swiss franc", "swiss francs"),
    "CNY": ("yuan", "renminbi"),
    "DKK": ("danish krone", "danish kroner"),
    "EUR": ("€", "euro", "euros"),
    "GBP": ("£", "pound", "pounds", "british pound", "british pounds", "pound sterling", "pounds sterling"),
    "ILS": ("shekel", "shekels"),
    "INR": ("₹", "rupee", "rupees"),
    "JPY": ("¥", "yen"),
    "KRW": ("₩", "korean won"),
    "MXN": ("peso", "pesos"),
    "NOK": ("norwegian krone", "norwegian kroner"),
    "NZD": ("new zealand dollar", "new zealand dollars"),
    "PLN": ("zloty", "zlotys"),
    "SEK": ("swedish krona", "swedish kronor"),
    "THB": ("baht",),
    "TRY": ("lira", "turkish lira"),
    "USD": ("$", "dollar", "dollars", "us dollar", "us dollars", "buck", "bucks"),
    "ZAR": ("rand",),
}

CODES: Mapping[str, str] = {code.lower(): code for code in UNITS_PER_DOLLAR} | {
    name: code for code, names in _NAMES.items() for name in names
}
"""The code of a currency by its code, name or sign, in lower case."""
