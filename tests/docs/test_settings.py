"""The page of the settings holds every one of them, and what it says works."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from docs import options
from outlast import Outlast
from outlast.assembly.settings import Settings
from outlast.errors import SettingsError

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
OPTIONS = list(options.rows())


def test_every_keyword_of_the_object_is_on_the_page() -> None:
    keywords = set(inspect.signature(Outlast).parameters)
    told = {option.keyword.split("=")[0] for option in OPTIONS}
    by_hand = {keyword for keyword in keywords - told if f"| `{keyword}` |" in PAGE}
    assert keywords - told - by_hand == set(), "settings.md says nothing about these"
    assert told <= keywords


def test_every_setting_has_a_row_with_a_reason() -> None:
    assert {each.name for each in fields(Settings)} == {
        *(option.keyword.split("=")[0] for option in OPTIONS if option.keyword not in options.LEASE_NAMES),
        "lease",
    }
    assert all(option.reason.endswith(".") for option in OPTIONS)
    assert [option.variable for option in OPTIONS if f"`{option.variable}`" not in PAGE] == []


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.variable)
def test_a_variable_set_to_its_default_changes_nothing_and_is_read(option: options.Option) -> None:
    assert Settings.resolve({}, {option.variable: options.written(option.default)}) == Settings()
    if option.unit not in {"text", "names"}:
        with pytest.raises(SettingsError, match=option.variable):
            Settings.resolve({}, {option.variable: "a lot"})


# ---- this check can fail ----


def test_a_default_without_a_reason_is_found() -> None:
    module = inspect.getmodule(Settings)
    with pytest.raises(options.ReasonMissing, match="nowhere"):
        options._reason(module, "MISSING")
    with pytest.raises(options.ReasonMissing, match="does not say why"):
        options._reason(module, "_FORMS")
