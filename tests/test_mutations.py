"""The list of mistakes that `make mutations` tries stays true: each of them can still be made."""

from scripts.mutations import ROOT, mistakes


def test_every_mistake_fits_the_sources_and_names_tests_that_exist() -> None:
    found = mistakes()
    assert len(found) >= 61
    assert [mistake.name for mistake in found if not mistake.fits()] == []
    files = {test.partition("::")[0] for mistake in found for test in mistake.tests}
    assert [file for file in files if not (ROOT / file).exists()] == []
