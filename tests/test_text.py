"""Terms: what is found by which query, in every script, and that no text breaks the pipeline.

A query finds a text when they share a term. A text that holds a compound's own term beside its parts ranks
before one that holds only the parts, since it shares more.
"""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.text import LONGEST_TERM, MOST_PARTS, STOP_WORDS, index_terms, query_terms, query_words


def found(query: str, text: str) -> bool:
    return bool(set(query_terms(query)) & set(index_terms(text)))


def shared(query: str, text: str) -> int:
    """How many of a query's terms a text holds."""
    return len(set(query_terms(query)) & set(index_terms(text)))


# ---------------------------------------------------------------- identifiers and other compounds


@pytest.mark.parametrize(
    ("identifier", "whole", "parts"),
    [
        ("getUserById", "getuserbyid", ["get", "user", "id"]),
        ("HTTPServer", "httpserver", ["http", "server"]),
        ("XMLHttpRequest2", "xmlhttprequest2", ["xml", "http", "request"]),
        ("user_id", "user_id", ["user", "id"]),
        ("STRIPE_KEY", "stripe_key", ["stripe", "key"]),
        ("v1.2.3", "v1_2_3", ["v1"]),
        ("POL-358", "pol_358", ["pol", "358"]),
        ("2026-03-14", "2026_03_14", ["2026", "03", "14"]),
        ("grammar::fa", "grammar_fa", ["grammar", "fa"]),
        ("a/b", "a_b", ["b"]),
        ("20.04", "20_04", ["20", "04"]),
        ("user@example.org", "user_example_org", ["user", "example", "org"]),
        ("self->next", "self_next", ["self", "next"]),
        ("x=42", "x_42", ["42"]),
        ("logs\\temp", "logs_temp", ["logs", "temp"]),
        ("größe_max", "grosse_max", ["größe", "max"]),
        ("maxGröße", "maxgross", ["max", "größe"]),
    ],
)
def test_an_identifier_is_found_whole_and_by_part_and_the_whole_ranks_first(
    identifier: str, whole: str, parts: list[str]
) -> None:
    text = f"please call {identifier}, then wait"

    assert whole in index_terms(text)
    assert whole in query_terms(identifier)
    for part in parts:
        assert found(part, text), part
        assert found(identifier, f"only {part} here"), part
    assert shared(identifier, text) > shared(identifier, f"only {' and '.join(parts)} here")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("getuserbyid", "call getUserById()"),
        ("GETUSERBYID", "call getUserById()"),
        ("user-id", "the user_id column"),
        ("USER_ID", "the user_id column"),
        ("user", "user.name and user.id"),
        ("#general", "posted in general"),
        ("general", "posted in #general"),
        ("50%", "half is 50 percent"),
        ("a=b", "set a=b first"),
        ('"unterminated', "an unterminated quote"),
        ('a"bc', "bc"),
        ("(bc", "bc"),
        ("NEAR(bc)", "near"),
        ("title:x", "the title"),
        ("-bc", "bc"),
        ("{bc}", "bc"),
        ("^bc", "bc"),
        ("don't", "I don't know"),
        ("don’t", "I don't know"),
        ("don´t", "I don't know"),
        ("dont_know", "I dont know"),
    ],
)
def test_signs_around_and_between_words_do_not_hide_them(query: str, text: str) -> None:
    assert found(query, text)


def test_a_contraction_is_its_parts_and_no_compound() -> None:
    assert index_terms("don't") == ["don", "t"]
    assert query_terms("don't") == ["don"]


@pytest.mark.parametrize("language", ["C++", "C#"])
def test_c_plus_plus_and_c_sharp_have_terms_of_their_own_beside_c(language: str) -> None:
    own = language.lower()
    others = [name for name in ("C++", "C#", "C") if name != language]

    assert index_terms(f"I write {language}.")[-2:] == ["c", own]
    assert query_terms(language) == ["c", own]
    assert all(shared(language, language) > shared(language, other) for other in others)
    assert query_terms(f"{language} compiler")[0] == own, "the bare letter is dropped beside a word, its compound not"


def test_a_sharp_before_a_word_is_no_tail() -> None:
    assert "c#" not in index_terms("C#major")


def test_a_version_is_not_the_number_without_its_point() -> None:
    assert not found("2004", "Ubuntu 20.04")
    assert not found("20.04", "in 2004")


def test_a_compound_of_many_parts_is_known_by_them_alone() -> None:
    most = ["part" + str(number) for number in range(MOST_PARTS)]

    assert "_".join(most) in index_terms("/".join(most))
    assert index_terms("/".join([*most, "more"])) == [*most, "more"]


def test_a_compound_longer_than_a_term_is_known_by_its_parts_alone() -> None:
    long = "x" * (LONGEST_TERM - 1)

    assert index_terms(f"{long}_y") == [long, "y"]


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("query", ["migrate", "migrated", "migration", "Migrations", "migrating"])
@pytest.mark.parametrize("word", ["migrate", "migrated", "migration", "Migrations", "migrating"])
def test_english_endings_make_no_difference(query: str, word: str) -> None:
    assert found(query, f"how we {word} it")


def test_only_plain_words_lose_their_endings() -> None:
    assert index_terms("404s cafés") == ["404s", "cafe"]
    assert index_terms("книги") == ["книги"]


@pytest.mark.parametrize("word", sorted(STOP_WORDS))
def test_a_stop_word_is_neither_indexed_nor_asked_however_it_is_written(word: str) -> None:
    for written in (word, word.upper(), word.title(), word[:-1] + word[-1].upper()):
        assert index_terms(written) == []
        assert query_terms(written) == []
        assert query_words(written) == []


def test_words_that_carry_meaning_are_no_stop_words() -> None:
    assert query_words("a good time to find the way") == ["good", "time", "find", "way"]


def test_single_characters_are_indexed_and_asked_only_when_nothing_longer_is() -> None:
    assert index_terms("vitamin C") == ["vitamin", "c"]
    assert query_terms("vitamin C") == ["vitamin"]
    assert query_terms("C") == ["c"]
    assert query_terms("x 7 y") == ["x", "7", "y"]
    assert query_terms("is it a C") == ["c"]


def test_a_repeated_word_is_asked_once_and_indexed_as_often_as_it_stands() -> None:
    assert query_terms("dup dup dup") == ["dup"]
    assert query_words("dup dup dup") == ["dup"]
    assert index_terms("dup dup dup") == ["dup", "dup", "dup"]


@pytest.mark.parametrize(
    "written", ["café", "CAFÉ", "Cafe\u0301", "cafe", "ｃａｆé", "ca\u00adfé", "ＣＡＦＥ"], ids=ascii
)
def test_diacritics_case_normal_form_and_width_make_no_difference(written: str) -> None:
    assert index_terms(written) == query_terms(written) == ["cafe"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("İstanbul", "istanbul"),
        ("ΟΔΟΣ", "οδος"),
        ("ёлка", "елка"),
        ("ﬁle", "file"),
        ("ﾃｽﾄ", "テスト"),
        ("か\u3099", "が"),
        ("１２３", "123"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("محـــمد", "محمد"),
    ],
)
def test_two_ways_to_write_a_word_are_one(one: str, other: str) -> None:
    assert index_terms(one) == index_terms(other)


@pytest.mark.parametrize(
    "sign",
    [
        *("\u00ad", "\u061c", "\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202e"),
        *("\u2060", "\u2066", "\u2069", "\ufe0f", "\ufeff"),
    ],
    ids=ascii,
)
def test_a_sign_that_nobody_sees_does_not_cut_a_word(sign: str) -> None:
    assert index_terms(f"{sign}data{sign}base{sign} x") == index_terms("database x")
    assert query_terms(f"data{sign}base") == query_terms("database")


def test_a_variation_selector_does_not_part_neighbours() -> None:
    assert index_terms("葛\U000e0100城市") == index_terms("葛城市")


# ---------------------------------------------------------------- scripts without spaces, and with vowel signs


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("北京", "我们什么时候去北京看长城"),
        ("长城", "我们什么时候去北京看长城"),
        ("テスト", "単体テストを書く"),
        ("東京", "明日東京へ行きます"),
        ("サーバー", "サーバーが落ちた"),
        ("กรุงเทพ", "ฉันไปกรุงเทพเมื่อวาน"),
        ("น้ำ", "ขอน้ำหน่อย"),
        ("서울", "내일 서울에서 만나요"),
        ("ພາສາ", "ຂ້ອຍເວົ້າພາສາລາວ"),
        ("ភាសា", "ខ្ញុំនិយាយភាសាខ្មែរ"),
        ("मदद", "मुझे मदद चाहिए"),
        ("किताब", "मेरी किताब कहाँ है"),
        ("হঠাৎ", "সে হঠাৎ এল"),
        ("தமிழ்", "எனக்கு தமிழ் தெரியும்"),
        ("Qdrant", "我们用Qdrant存储向量"),
        ("向量", "我们用Qdrant存储向量"),
        ("茶", "我喜欢喝茶"),
        ("茶", "茶"),
        ("喝茶 tea", "我喜欢喝茶"),
    ],
)
def test_a_word_is_found_in_a_sentence_of_its_language(query: str, text: str) -> None:
    assert found(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [("京都", "我们什么时候去北京"), ("都市", "东京都 市场"), ("テト", "テスト"), ("की", "काम"), ("किताब", "कताब")],
)
def test_a_word_is_not_found_by_its_characters_alone(query: str, text: str) -> None:
    assert not found(query, text)


def test_characters_and_pairs_are_indexed_and_pairs_are_asked() -> None:
    assert index_terms("去北京") == ["去", "北", "京", "去北", "北京"]
    assert query_terms("去北京") == ["去北", "北京"]
    assert query_terms("茶") == ["茶"]
    assert query_words("去北京") == ["去北京"]


@pytest.mark.parametrize(
    "word", ["हिन्दी", "किताबें", "ज़िन्दगी", "বাংলা", "தமிழ்", "తెలుగు", "മലയാളം", "ಕನ್ನಡ", "ગુજરાતી", "සිංහල"]
)
def test_a_word_of_an_indian_script_is_one_term_not_cut_at_its_vowel_signs(word: str) -> None:
    (term,) = index_terms(word)

    assert len(term) >= len(unicodedata.normalize("NFC", word))
    assert query_terms(word) == [term]


def test_a_thai_vowel_sign_stays_with_its_letter() -> None:
    assert index_terms("ดี") == ["ดี"]
    assert index_terms("ดีดี") == ["ดี", "ดี", "ดีดี"]


# ---------------------------------------------------------------- emoji


@pytest.mark.parametrize("emoji", ["🚀", "❤️", "❤", "✅", "⭐", "👍🏽", "👍", "🇩🇪", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🥷", "🫠"])
def test_an_emoji_alone_is_found_where_it_is_stored(emoji: str) -> None:
    assert found(emoji, f"we ship it {emoji}!")
    assert found(emoji, f"ship{emoji}it")
    assert query_words(emoji)


def test_a_keycap_is_its_digit() -> None:
    assert index_terms("1️⃣") == query_terms("1️⃣") == ["1"]


def test_an_emoji_with_and_without_its_variation_selector_or_skin_is_one() -> None:
    assert index_terms("❤️") == index_terms("❤") == ["❤"]
    assert index_terms("👍🏽") == index_terms("👍") == ["👍"]


def test_a_joined_emoji_is_found_whole_and_by_part() -> None:
    assert index_terms("👨‍👩‍👧") == ["👨", "👩", "👧"]
    assert found("👩", "the 👨‍👩‍👧 family")
    assert found("👨‍👩‍👧", "the 👨‍👩‍👧 family")


# ---------------------------------------------------------------- what no text should hold, and does


def test_text_after_a_nul_is_findable() -> None:
    assert index_terms("before\x00after") == ["befor", "after"]


@pytest.mark.parametrize("broken", ["\ud800", "\udfff", "\ufffd", "\ud83d rocket", "\U0010ffff", "\ufdd0"], ids=ascii)
def test_broken_characters_are_passed_over(broken: str) -> None:
    assert index_terms(f"left{broken} right")[0] == "left"
    assert index_terms(f"left{broken} right")[-1] == "right"
    query_terms(broken)


@pytest.mark.parametrize(
    "mark", ["\u0301", "´", "¨", "¯\\_(ツ)_/¯", "\u0301#", "\u0301++", "aX\u0301", "\u064b"], ids=ascii
)
def test_a_mark_without_a_letter_is_no_term(mark: str) -> None:
    assert "" not in index_terms(mark)
    assert "" not in query_terms(mark)
    assert not {"#", "++"} & set(index_terms(mark))


@pytest.mark.parametrize("letter", ["x", "é", "e\u0301", "कि", "\u093d"], ids=ascii)
def test_a_word_of_a_megabyte_is_known_by_its_beginning_on_both_sides(letter: str) -> None:
    word = letter * (1_000_000 // len(letter.encode()))
    terms = index_terms(f"before {word} after")

    assert terms == ["befor", terms[1], "after"]
    assert len(terms[1]) == LONGEST_TERM
    assert query_terms(word) == [terms[1]]
    assert query_words(word) == [terms[1]]


@pytest.mark.parametrize(
    "text",
    [
        "a hundred thousand English words " * 20_000,
        "Łódź größer naïve слово 北京 किताब " * 15_000,
        "x" * 1_000_000,
        "é" * 500_000,
        "aB" * 100_000,
        "ab/" * 70_000,
        "a'" * 100_000,
        "a" + "\u0301" * 500_000,
        "ก" + "\u0e49" * 300_000,
        "\u0301" * 500_000,
        "'" * 1_000_000,
        "\u093d" * 40 + "/x",
        "\u093d" * 300_000 + "/x",
        "\u09ce" * 40 + "'x-y",
    ],
    ids=lambda text: ascii(text[:6]),
)
def test_a_paste_of_any_shape_takes_a_moment(text: str) -> None:
    """It takes a fifth of a second at most, and would never end if a pattern had two ways to read a letter."""
    start = time.perf_counter()
    index_terms(text)

    assert time.perf_counter() - start < 2.0


def test_a_letter_with_any_number_of_marks_makes_no_term_longer_than_the_longest() -> None:
    terms = index_terms("ก" + "\u0e49" * 1_000 + "ข")

    assert max(map(len, terms)) <= LONGEST_TERM


# ---------------------------------------------------------------- properties

SNIPPETS = [
    *"a B c the user Id get HTTP X1 7 04 doEs".split(),
    "x" * 70,
    *"_ - . / : :: -> @ ' ’ & = % + # ++ \\".split(),
    *(" ", " ", "\n", "\x00", "\ud800", "\ufffd"),
    *("\u00ad", "\u200d", "\u200b", "\u061c", "\u0640", "\u0301", "\u0338", "\u3099", "\ufe0f", "\U000e0100"),
    *"é É ß İ ı ς \u212a ſ ´ ¨ ﷺ ﬁ Ａ ① ² ½ Ⅷ".split(),
    *"中 国 か ゴ ー 한 \u1100 \u1161 ก \u0e48 \u0e33 क \u093f ऽ ৎ 🚀 👩 🏽".split(),
]
TEXTS = st.text() | st.lists(st.sampled_from(SNIPPETS), max_size=14).map("".join)
ASCII_TEXTS = st.text(st.characters(max_codepoint=127)) | st.lists(
    st.sampled_from([snippet for snippet in SNIPPETS if snippet.isascii()]), max_size=14
).map("".join)
PARTS = st.sampled_from(["user", "id", "key", "get", "find", "zwei", "größe", "привет", "v2", "404", "x9"])
JOINTS = st.sampled_from(["_", "-", ".", "/", ":", "::", "->", "@", "&", "=", "%", "+", "#", "\\"])
TERM = re.compile(r"(?:[a-z0-9_+#]|[^\x00-\x7f])+")

properties = settings(max_examples=300, deadline=None)


@properties
@given(TEXTS)
def test_every_term_that_a_text_asks_for_is_found_in_the_text_itself(text: str) -> None:
    assert set(query_terms(text)) <= set(index_terms(text))


@properties
@given(TEXTS)
def test_every_word_of_a_stored_text_finds_it(text: str) -> None:
    indexed = set(index_terms(text))

    for word in text.split():
        assert set(query_terms(word)) <= indexed


@properties
@given(TEXTS, TEXTS)
def test_a_line_has_the_same_terms_alone_and_among_others(one: str, other: str) -> None:
    assert index_terms(f"{one}\n{other}") == index_terms(one) + index_terms(other)


@properties
@given(TEXTS)
def test_a_text_with_a_term_of_more_than_one_character_can_be_asked_for(text: str) -> None:
    if any(len(term) > 1 for term in index_terms(text)):
        assert query_terms(text)


@properties
@given(TEXTS)
def test_a_shown_word_of_a_query_finds_what_the_query_finds(text: str) -> None:
    indexed = set(index_terms(text))

    for word in query_words(text):
        asked = set(query_terms(word))
        assert not asked or asked & indexed


@properties
@given(TEXTS)
def test_a_term_is_safe_to_store_and_to_ask_for(text: str) -> None:
    """No blank, no upper-case ASCII, no quote, and nothing that looks like the token of a scope."""
    for term in index_terms(text) + query_terms(text):
        assert TERM.fullmatch(term)
        assert not any(sign.isspace() for sign in term)
        assert term[0] not in "#+_"
        assert len(term) <= LONGEST_TERM
        term.encode()


@properties
@given(TEXTS)
def test_a_query_asks_for_each_term_once(text: str) -> None:
    terms = query_terms(text)

    assert len(terms) == len(set(terms))


@properties
@given(TEXTS)
def test_the_normal_form_of_a_text_makes_no_difference(text: str) -> None:
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, text)
        assert index_terms(other) == index_terms(text)
        assert query_terms(other) == query_terms(text)


@properties
@given(ASCII_TEXTS)
def test_a_text_has_the_same_terms_whether_or_not_another_script_stands_beside_it(text: str) -> None:
    assert index_terms(f"{text}\n…") == index_terms(text)
    assert query_terms(f"{text}\n…") == query_terms(text)


@properties
@given(ASCII_TEXTS)
def test_invisible_signs_between_all_characters_make_no_difference(text: str) -> None:
    assert index_terms("\u200b".join(text)) == index_terms(text)


@properties
@given(st.text(st.characters(min_codepoint=0x61, max_codepoint=0x24F, categories=["Ll"], exclude_characters="ı")))
def test_case_and_diacritics_make_no_difference_to_a_word(word: str) -> None:
    """But for the Turkish dotless i, which is a letter of its own whose capital is the common one."""
    bare = "".join(sign for sign in unicodedata.normalize("NFD", word) if not unicodedata.combining(sign))

    assert index_terms(bare) == index_terms(word)
    assert index_terms(word.upper()) == index_terms(word)


@properties
@given(st.lists(PARTS, min_size=2, max_size=MOST_PARTS), st.data())
def test_a_compound_is_found_whole_and_by_each_part_whatever_joins_them(parts: list[str], data: st.DataObject) -> None:
    def joined() -> str:
        return "".join(part + data.draw(JOINTS) for part in parts[:-1]) + parts[-1]

    text = f"see ({joined()})."
    own = index_terms("_".join(parts))[-1]

    assert query_terms(joined())[-1] == own
    assert own in index_terms(text)
    assert all(found(part, text) for part in parts)
