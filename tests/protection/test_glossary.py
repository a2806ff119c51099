"""Terms of a glossary, and how they are found in texts."""

import itertools
from unicodedata import normalize

import pytest

from tf_transformer.errors import UserError
from tf_transformer.protection.glossary import Glossary

TERMS = {"dog": "Hund", "fire truck": "Feuerwehrauto", "truck": "Lastwagen", "US": "USA", "größe": "size", "c++": "C++"}
TERMS |= {
    "MP3": "MP3-Datei",
    "MP3 player": "MP3-Spieler",
    "hübsche": "pretty",
    "km": "Kilometer",
    "कर": "tax",
    "cafe": "Kneipe",
}


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("A dog.", "A ⟦dog|Hund⟧."),
        ("Dogs and a hotdog", "Dogs and a hotdog"),  # whole words alone
        ("DOG Dog", "⟦DOG|Hund⟧ ⟦Dog|Hund⟧"),
        ("US and us", "⟦US|USA⟧ and us"),  # as it is written
        ("Fire  truck, truck", "⟦Fire  truck|Feuerwehrauto⟧, ⟦truck|Lastwagen⟧"),  # the longer one
        ("GRÖSSE Größe größer", "GRÖSSE ⟦Größe|size⟧ größer"),
        ("in C++, not C", "in ⟦C++|C++⟧, not C"),
        ("www.dog.com, {dog} and <dog> with ⟦dog⟧", "www.dog.com, {dog} and <dog> with ⟦dog⟧"),
        ("an MP3 player, MP3 and MP34", "an ⟦MP3 player|MP3-Spieler⟧, ⟦MP3|MP3-Datei⟧ and MP34"),
        ("3 hübsche", "3 ⟦hübsche|pretty⟧"),  # "3 h" is no quantity here
        ("3 km, F16 km, MP3 km", "3 km, F16 ⟦km|Kilometer⟧, ⟦MP3|MP3-Datei⟧ ⟦km|Kilometer⟧"),  # the first is protected
        ("कर, करें और ❤️कर", "⟦कर|tax⟧, करें और ❤️⟦कर|tax⟧"),  # with a vowel sign it is another word
        ("cafe cafe\u0301 e\u0301cafe", "⟦cafe|Kneipe⟧ cafe\u0301 e\u0301cafe"),
        ("", ""),
    ],
)
def test_marks(text, marked):
    assert Glossary(TERMS).mark([text]) == [marked]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("我在北京大学学习，", "我在⟦北京大学|字⟧学习，"),  # the longer one
        ("我去北京。", "我去⟦北京|字⟧。"),
        ("犬が走る。", "⟦犬|字⟧が走る。"),
        ("ฉันเห็นสุนัขตัวหนึ่ง", "ฉันเห็น⟦สุนัข|字⟧ตัวหนึ่ง"),
        ("ຂ້ອຍເຫັນໝາໂຕໜຶ່ງ", "ຂ້ອຍເຫັນ⟦ໝາ|字⟧ໂຕໜຶ່ງ"),
        ("ខ្ញុំឃើញឆ្កែមួយ", "ខ្ញុំឃើញ⟦ឆ្កែ|字⟧មួយ"),
        ("ကျွန်တော်ခွေးမြင်", "ကျွန်တော်⟦ခွေး|字⟧မြင်"),
        ("นี่กา เกา กาแฟ", "นี่⟦กา|字⟧ เกา ⟦กา|字⟧แฟ"),  # a mark of the word in front; a vowel written in front
        ("คน คนี่ คนา", "⟦คน|字⟧ คนี่ คนา"),  # a vowel of its last letter
        ("หมากี่ตัว หมากพลู", "⟦หมา|字⟧กี่ตัว ⟦หมาก|字⟧พลู"),  # the longer one, where it can end
        ("ក្រ រ", "ក្រ ⟦រ|字⟧"),  # stacked below the letter in front
        ("ハ\u3099 ハーブ 人々", "ハ\u3099 ハーブ 人々"),
        ("新iPhone手机, iPhones", "新⟦iPhone|字⟧⟦手机|字⟧, iPhones"),
        ("ที่iPhoneใหม่", "ที่⟦iPhone|字⟧ใหม่"),
        ("3个犬3匹, 第1 第12", "3个⟦犬|字⟧3匹, ⟦第1|字⟧ 第12"),
    ],
)
def test_letters_of_scripts_without_blanks_may_stand_beside_a_term(text, marked):
    terms = ["北京", "北京大学", "犬", "สุนัข", "ໝາ", "ឆ្កែ", "ခွေး", "กา", "คน", "หมา", "หมาก", "រ", "ハ", "人"]
    terms += ["iPhone", "手机", "第1"]
    assert Glossary(dict.fromkeys(terms, "字")).mark([text]) == [marked]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("我有一只狗。", "我有一只 ⟦狗|dog⟧。"),
        ("狗在《狗》里", "⟦狗|dog⟧ 在《⟦狗|dog⟧》里"),  # no letter beside it
        ("看 狗 iPhone狗a", "看 ⟦狗|dog⟧ ⟦iPhone|iPhone⟧ ⟦狗|dog⟧ a"),
        ("新iPhone手机吗", "新 ⟦iPhone|iPhone⟧⟦手机|携帯⟧吗"),  # 携帯 needs none
        ("นี้หมาตัว", "นี้ ⟦หมา|dog⟧ ตัว"),
    ],
)
def test_where_the_translation_writes_blanks_a_term_gets_them(text, marked):
    assert Glossary({"狗": "dog", "iPhone": "iPhone", "手机": "携帯", "หมา": "dog"}).mark([text]) == [marked]


@pytest.mark.parametrize(
    ("term", "written"),
    [
        ("istasyon", "İstasyon"),
        ("dogs", "DOGſ"),
        ("µm", "μm"),
        ("λόγος", "ΛΌΓΟΣ"),
        ("kelvin", "\u212aelvin"),
        ("straße", "Straẞe"),
    ],
)
def test_letters_whose_lower_case_is_another_are_found_and_marked(term, written):
    """İ (Turkish), ſ, the two signs for micro, Σ, the sign for kelvin, ẞ."""
    assert Glossary({"other": "-", term: "X"}).mark([f"{written}."]) == [f"⟦{written}|X⟧."]


@pytest.mark.parametrize(("of_term", "of_text"), list(itertools.product(["NFC", "NFD"], repeat=2)))
@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("Herr Müller kommt.", "Herr ⟦Müller|Miller⟧ kommt."),
        ("MÜLLER und Müllers", "MÜLLER und Müllers"),
        ("Das Café, das CAFÉ, die Cafés, cafe", "Das ⟦Café|bar⟧, das ⟦CAFÉ|bar⟧, die Cafés, ⟦cafe|tavern⟧"),
        ("café  crème, Café", "⟦café  crème|coffee⟧, ⟦Café|bar⟧"),
        ("ǰ J\u030c", "⟦ǰ|j⟧ ⟦J\u030c|j⟧"),
        ("가나 각 가", "가나 각 ⟦가|ga⟧"),
        ("がか", "⟦が|が⟧か"),
    ],
)
def test_accents_may_be_composed_or_decomposed(of_term, of_text, text, marked):
    terms = {
        "cafe": "tavern",
        "café": "bar",
        "café crème": "coffee",
        "Müller": "Miller",
        "ǰ": "j",
        "가": "ga",
        "が": "が",
    }
    terms = {normalize(of_term, term): other for term, other in terms.items()}
    assert normalize("NFC", Glossary(terms).mark([normalize(of_text, text)])[0]) == normalize("NFC", marked)


def test_the_text_keeps_its_form():
    decomposed = normalize("NFD", "Müller")
    assert Glossary({"Müller": "Miller"}).mark([f"{decomposed} für Müller"]) == [
        f"⟦{decomposed}|Miller⟧ für ⟦Müller|Miller⟧"
    ]


def test_letters_that_are_others_when_composed_are_found_as_they_are_given():
    """The signs for ohm and Ångström; a long s with an accent."""
    text = "\u2126, \u212b, ſ\u0301"
    assert Glossary({"\u2126": "ohm", "\u212b": "A", "ś": "s"}).mark([text]) == [
        "⟦\u2126|ohm⟧, ⟦\u212b|A⟧, ⟦ſ\u0301|s⟧"
    ]


def test_both_forms_of_a_term_are_one():
    composed, decomposed = (normalize(form, "Müller") for form in ("NFC", "NFD"))
    assert Glossary({composed: "Miller"}).fingerprint == Glossary({decomposed: "Miller"}).fingerprint
    with pytest.raises(UserError, match="twice, composed and decomposed; give each term once"):
        Glossary({composed: "Miller", decomposed: "Muller"})


def test_is_read_from_a_file(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeffdog\tHund\r\n\n fire truck \t Feuerwehrauto \n".encode())
    assert Glossary.read(path).terms == {"dog": "Hund", "fire truck": "Feuerwehrauto"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"dog Hund\n", "line 1: give a source term, a tab"),
        (b"dog\tHund\ncat\t\n", "line 2: give a source term, a tab"),
        (b"dog\tHund\ndog\tKatze\n", "line 2: 'dog' occurs twice"),
        ("café\tbar\ncafe\u0301\tpub\n".encode(), "line 2: 'cafe\u0301' occurs twice"),
        (b"\n", "has no terms"),
        (b"a|b\tHund\n", "'a|b' is not a valid glossary term"),
        (b"\xff\tHund\n", "not valid UTF-8 at byte 0"),
        (None, "can't be read"),
    ],
    ids=["no tab", "empty", "twice", "in both forms", "nothing", "reserved", "bytes", "missing"],
)
def test_mistakes(tmp_path, content, told):
    path = tmp_path / "terms.tsv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match="terms.tsv") as raised:
        Glossary.read(path)
    assert told in str(raised.value)


def test_one_string_is_no_list_of_texts():
    with pytest.raises(UserError, match="texts"):
        Glossary(TERMS).mark("A dog.")
