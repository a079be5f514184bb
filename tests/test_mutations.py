"""The list of mistakes that `make mutations` tries stays true: each of them can still be made."""

from scripts.mutations import ROOT, mistakes


def test_every_mistake_fits_the_sources_and_names_tests_that_exist() -> None:
    found = mistakes()
    assert len(found) >= 61
    assert [mistake.name for mistake in found if not mistake.fits()] == []
    assert [test for mistake in found for test in mistake.tests if not (ROOT / test).exists()] == []
