"""Where settings come from, and what they may be."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.conftest import Opener
from twofold import Memory, settings
from twofold.errors import InvalidInput


def test_a_fresh_start_shows_the_defaults(memory: Memory) -> None:
    values = memory.settings()
    assert values == {name: spec.default for name, spec in settings.SPECS.items() if not spec.secret}
    assert (values["semanticWeight"], values["keywordWeight"], values["weights"]) == (1.0, 0.0, "auto")


def test_a_change_acts_at_once_and_survives(open_memory: Opener) -> None:
    memory = open_memory()
    other = open_memory()
    memory.settings({"semantic_limit": 3})
    for number in range(5):
        memory.add(f"apple {number}")
    assert len(other.recall("apple")) == 3
    memory.close()
    assert open_memory().settings()["semanticLimit"] == 3


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("keywordWeight", 5.1, "keywordWeight is 5.1; give a number from 0 to 5"),
        ("keywordWeight", -0.1, "keywordWeight is -0.1"),
        ("keywordWeight", math.nan, "keywordWeight is nan"),
        ("keywordWeight", True, "keywordWeight is True"),
        ("window", 10**400, "window is 1000"),
        ("keywordWeight", "1", "keywordWeight is '1'"),
        ("semanticLimit", 2.5, "semanticLimit is 2.5; give a whole number from 1 to 200"),
        ("weights", "both", "weights is 'both'; give one of auto, fixed"),
        ("method", None, "method is None"),
        ("k", 60, "there is no setting 'k'; the settings are semanticWeight"),
    ],
)
def test_a_bad_change_is_refused_whole(memory: Memory, name: str, value: object, says: str) -> None:
    before = memory.settings()
    with pytest.raises(InvalidInput, match=says):
        memory.settings({"window": 20, name: value})
    assert memory.settings() == before


def test_a_weight_fixes_the_weights_unless_told_otherwise(memory: Memory) -> None:
    assert memory.settings({"semanticWeight": 2})["weights"] == "fixed"
    assert memory.settings({"semanticWeight": 2, "weights": "auto"})["weights"] == "auto"


def test_toml_is_under_the_environment_and_both_under_what_is_stored(
    open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = settings.platformdirs.user_config_path("twofold") / "settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text("window = 30\nsemanticLimit = 4\nmethod = 'rsf'\n")
    monkeypatch.setenv("TWOFOLD_SEMANTIC_LIMIT", "5")
    monkeypatch.setenv("TWOFOLD_METHOD", "dbsf")
    memory = open_memory()
    memory.settings({"method": "rrf"})
    values = memory.settings()
    assert (values["window"], values["semanticLimit"], values["method"]) == (30, 5, "rrf")


@pytest.mark.parametrize("text", ["window = ", "window = 'wide'", "wndow = 3", "[x]\ny = 1"])
def test_a_settings_file_that_cannot_be_taken_is_named(open_memory: Opener, text: str) -> None:
    file = settings.platformdirs.user_config_path("twofold") / "settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(InvalidInput, match=r"settings\.toml"):
        open_memory()


def test_a_bad_environment_variable_is_named_with_what_it_may_be(
    open_memory: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWOFOLD_WINDOW", "wide")
    with pytest.raises(InvalidInput, match="window is 'wide'; give a whole number from 10 to 1000"):
        open_memory()


def test_the_database_is_the_one_that_is_named_else_the_users_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert settings.database() == tmp_path / "data" / "twofold" / "memories.db"
    with Memory.open(embedder=None) as memory:
        memory.add("apple")
    assert settings.database().exists()
    monkeypatch.setenv("TWOFOLD_DB", str(tmp_path / "named.db"))
    assert settings.database() == tmp_path / "named.db"
