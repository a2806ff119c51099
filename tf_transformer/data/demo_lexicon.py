"""The words of the demo corpus: what each means, how it inflects and what it sensibly goes with.

Every English word has one German translation in its place, so a sentence has exactly one right answer.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Finite(NamedTuple):
    """The three present forms that the corpus needs: "I", "he/she/it", and "we/they"."""

    first: str
    third: str
    plural: str


@dataclass(frozen=True, eq=False)
class Pronoun:
    """A subject pronoun; `person` names the field of `Finite` that agrees with it."""

    english: str
    german: str
    person: str
    group: str = "adult"
    gender: str = ""


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun; `gender` is m, f or n, `oblique` the accusative and dative singular."""

    english: str
    english_plural: str
    gender: str
    german: str
    german_plural: str
    oblique: str
    group: str

    @property
    def dative_plural(self) -> str:
        return self.german_plural if self.german_plural[-1] in "ns" else self.german_plural + "n"


class Slot(NamedTuple):
    """A noun phrase that a verb takes: its preposition in both languages, its German case, its nouns."""

    english: str
    german: str
    case: str
    nouns: tuple[Noun, ...]


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with the subjects and objects that make sense with it.

    `infinitive` and `third` come without the separable `prefix`, `participle` with it.
    """

    base: str
    english_third: str
    english_participle: str
    infinitive: str
    third: str
    participle: str
    subjects: tuple[Noun | Pronoun, ...]
    object: Slot
    extra: Slot | None = None
    prefix: str = ""
    moves: bool = False  # verbs of movement form their perfect with "sein"

    @property
    def english(self) -> Finite:
        return Finite(self.base, self.english_third, self.base)

    @property
    def german(self) -> Finite:
        first = self.infinitive.removesuffix("n").removesuffix("e") + "e"
        return Finite(first, self.third, self.infinitive)


PRONOUNS = (
    Pronoun("I", "ich", "first"),
    Pronoun("he", "er", "third"),
    Pronoun("she", "sie", "third"),
    Pronoun("we", "wir", "plural"),
    Pronoun("they", "sie", "plural"),
)

# English singular and plural, gender, German singular and plural, and the oblique form where it differs.
_NOUN_TABLE = {
    "adult": """man men m Mann Männer
                friend friends m Freund Freunde
                doctor doctors m Arzt Ärzte
                woman women f Frau Frauen
                teacher teachers f Lehrerin Lehrerinnen
                singer singers f Sängerin Sängerinnen
                neighbour neighbours f Nachbarin Nachbarinnen""",
    "young": """boy boys m Junge Jungen Jungen
                girl girls n Mädchen Mädchen
                child children n Kind Kinder""",
    "animal": """dog dogs m Hund Hunde
                 bird birds m Vogel Vögel
                 cat cats f Katze Katzen
                 mouse mice f Maus Mäuse
                 horse horses n Pferd Pferde""",
    "text": """letter letters m Brief Briefe
               newspaper newspapers f Zeitung Zeitungen
               book books n Buch Bücher""",
    "food": """apple apples m Apfel Äpfel
               pear pears f Birne Birnen
               egg eggs n Ei Eier""",
    "clothes": """coat coats m Mantel Mäntel
                  jacket jackets f Jacke Jacken
                  dress dresses n Kleid Kleider""",
    "opening": """suitcase suitcases m Koffer Koffer
                  door doors f Tür Türen
                  window windows n Fenster Fenster""",
    "device": """computer computers m Computer Computer
                 lamp lamps f Lampe Lampen
                 radio radios n Radio Radios""",
    "vehicle": """car cars n Auto Autos
                  bicycle bicycles n Fahrrad Fahrräder""",
    "thing": """key keys m Schlüssel Schlüssel
                ball balls m Ball Bälle
                bag bags f Tasche Taschen
                picture pictures n Bild Bilder""",
    "surface": """table tables m Tisch Tische
                  bench benches f Bank Bänke
                  bed beds n Bett Betten""",
    "place": """garden gardens m Garten Gärten
                park parks m Park Parks
                kitchen kitchens f Küche Küchen
                city cities f Stadt Städte
                house houses n Haus Häuser
                room rooms n Zimmer Zimmer""",
}

# The adjectives that make sense with each group of nouns.
ADJECTIVES = {
    "adult": ["old", "young", "tired", "hungry", "friendly", "happy", "clever"],
    "young": ["small", "tired", "hungry", "friendly", "happy", "clever"],
    "animal": ["small", "big", "black", "white", "hungry", "tired", "young"],
    "text": ["new", "old", "long", "interesting", "good"],
    "food": ["big", "small", "fresh", "good", "cheap"],
    "clothes": ["new", "old", "red", "black", "white", "beautiful", "cheap"],
    "opening": ["new", "old", "big", "small", "white"],
    "device": ["new", "old", "big", "small", "cheap", "black"],
    "vehicle": ["new", "old", "red", "black", "cheap", "beautiful"],
    "thing": ["new", "old", "big", "small", "beautiful"],
    "surface": ["new", "old", "big", "small", "white", "beautiful"],
    "place": ["old", "big", "small", "beautiful", "quiet"],
}

# What one can be today and not tomorrow; only these go with "every day" or "when".
PASSING = ("tired", "hungry", "happy")

ADJECTIVE_STEMS = {
    "old": "alt",
    "young": "jung",
    "tired": "müde",
    "hungry": "hungrig",
    "friendly": "freundlich",
    "happy": "glücklich",
    "clever": "klug",
    "small": "klein",
    "big": "groß",
    "black": "schwarz",
    "white": "weiß",
    "red": "rot",
    "new": "neu",
    "long": "lang",
    "interesting": "interessant",
    "good": "gut",
    "fresh": "frisch",
    "cheap": "billig",
    "beautiful": "schön",
    "quiet": "ruhig",
}


def _read_nouns() -> list[Noun]:
    nouns = []
    for group, table in _NOUN_TABLE.items():
        for row in table.splitlines():
            english, english_plural, gender, german, german_plural, *oblique = row.split()
            nouns.append(Noun(english, english_plural, gender, german, german_plural, (oblique or [german])[0], group))
    return nouns


NOUNS = _read_nouns()


def _nouns(names: str) -> tuple[Noun, ...]:
    """The nouns of the named groups, and those named one by one."""
    wanted = names.split()
    return tuple(noun for noun in NOUNS if noun.group in wanted or noun.english in wanted)


def _object(names: str, case: str = "accusative", english: str = "", german: str = "") -> Slot:
    return Slot(english, german, case, _nouns(names))


PEOPLE = _nouns("adult young")
# "my man" is a husband and "my city" a claim: these nouns do not take "my".
NEVER_MINE = _nouns("man woman singer boy girl bird mouse place")
ALWAYS_SINGULAR = _nouns("place surface")

_PERSONS = (*PRONOUNS, *PEOPLE)
_PETS = _nouns("dog cat")
_RECIPIENT = _object("adult young", "dative")
PLACE = _object("place", "dative", "in", "in")
_ON_FURNITURE = _object("surface", "accusative", "on", "auf")
_ONTO_FURNITURE = _object("surface", "accusative", "onto", "auf")

VERBS = (
    Verb("see", "sees", "seen", "sehen", "sieht", "gesehen", _PERSONS + _nouns("animal"),
         _object("adult young animal vehicle"), PLACE),
    Verb("read", "reads", "read", "lesen", "liest", "gelesen", _PERSONS, _object("text"), PLACE),
    Verb("buy", "buys", "bought", "kaufen", "kauft", "gekauft", _PERSONS,
         _object("text food clothes device vehicle thing surface suitcase horse")),
    Verb("find", "finds", "found", "finden", "findet", "gefunden", _PERSONS,
         _object("text clothes thing suitcase dog cat"), PLACE),
    Verb("look for", "looks for", "looked for", "suchen", "sucht", "gesucht", _PERSONS + _PETS,
         _object("adult young animal thing"), PLACE),
    Verb("eat", "eats", "eaten", "essen", "isst", "gegessen", _PERSONS, _object("food"), PLACE),
    Verb("chase", "chases", "chased", "jagen", "jagt", "gejagt", _nouns("young dog cat"),
         _object("dog bird cat mouse"), PLACE),
    Verb("visit", "visits", "visited", "besuchen", "besucht", "besucht", _PERSONS,
         _object("adult young city")),
    Verb("repair", "repairs", "repaired", "reparieren", "repariert", "repariert", _PERSONS,
         _object("device vehicle table bench bed")),
    Verb("draw", "draws", "drawn", "zeichnen", "zeichnet", "gezeichnet", _PERSONS,
         _object("animal adult young house"), PLACE),
    Verb("wash", "washes", "washed", "waschen", "wäscht", "gewaschen", _PERSONS,
         _object("clothes vehicle dog horse")),
    Verb("feed", "feeds", "fed", "füttern", "füttert", "gefüttert", _PERSONS, _object("animal")),
    Verb("open", "opens", "opened", "machen", "macht", "aufgemacht", _PERSONS, _object("opening letter bag"),
         prefix="auf"),
    Verb("close", "closes", "closed", "machen", "macht", "zugemacht", _PERSONS, _object("opening bag"),
         prefix="zu"),
    Verb("turn on", "turns on", "turned on", "machen", "macht", "angemacht", _PERSONS, _object("device"),
         prefix="an"),
    Verb("call", "calls", "called", "rufen", "ruft", "angerufen", _PERSONS, _object("adult young"),
         prefix="an"),
    Verb("invite", "invites", "invited", "laden", "lädt", "eingeladen", _PERSONS, _object("adult young"),
         prefix="ein"),
    Verb("pick up", "picks up", "picked up", "holen", "holt", "abgeholt", _PERSONS, _object("adult young"),
         prefix="ab"),
    Verb("tidy up", "tidies up", "tidied up", "räumen", "räumt", "aufgeräumt", _PERSONS,
         _object("kitchen house room garden"), prefix="auf"),
    Verb("try on", "tries on", "tried on", "probieren", "probiert", "anprobiert", _PERSONS,
         _object("clothes"), prefix="an"),
    Verb("listen to", "listens to", "listened to", "hören", "hört", "zugehört", _PERSONS,
         _object("adult young", "dative"), prefix="zu"),
    Verb("help", "helps", "helped", "helfen", "hilft", "geholfen", _PERSONS,
         _object("adult young", "dative")),
    Verb("give", "gives", "given", "geben", "gibt", "gegeben", _PERSONS, _object("text food clothes thing"),
         _RECIPIENT),
    Verb("show", "shows", "shown", "zeigen", "zeigt", "gezeigt", _PERSONS,
         _object("text clothes vehicle thing house room garden"), _RECIPIENT),
    Verb("play", "plays", "played", "spielen", "spielt", "gespielt", _nouns("young dog cat") + PRONOUNS,
         _object("dog cat young ball", "dative", "with", "mit"), PLACE),
    Verb("sleep", "sleeps", "slept", "schlafen", "schläft", "geschlafen", _PERSONS + _PETS,
         _object("garden park house room kitchen", "dative", "in", "in")),
    Verb("work", "works", "worked", "arbeiten", "arbeitet", "gearbeitet", _nouns("adult") + PRONOUNS,
         _object("place", "dative", "in", "in")),
    Verb("go", "goes", "gone", "gehen", "geht", "gegangen", _PERSONS + _PETS,
         _object("place", "accusative", "into", "in"), moves=True),
    Verb("jump", "jumps", "jumped", "springen", "springt", "gesprungen", _nouns("young dog cat mouse bird"),
         _ONTO_FURNITURE, moves=True),
    Verb("put", "puts", "put", "legen", "legt", "gelegt", _PERSONS, _object("text food clothes key picture"),
         _ON_FURNITURE),
)  # fmt: skip

# Verbs that open a clause with "that".
SPEECH = (
    (Finite("know", "knows", "know"), Finite("weiß", "weiß", "wissen")),
    (Finite("say", "says", "say"), Finite("sage", "sagt", "sagen")),
    (Finite("believe", "believes", "believe"), Finite("glaube", "glaubt", "glauben")),
)
SPEAKERS = _PERSONS

MODALS = (
    (Finite("want to", "wants to", "want to"), Finite("will", "will", "wollen")),
    (Finite("can", "can", "can"), Finite("kann", "kann", "können")),
    (Finite("must", "must", "must"), Finite("muss", "muss", "müssen")),
)
HAVE = Finite("have", "has", "have")
HABEN = Finite("habe", "hat", "haben")
BE = Finite("am", "is", "are")
SEIN = Finite("bin", "ist", "sind")

# The time phrases that suit each tense in both languages.
TIMES = {
    "present": (("every day", "jeden Tag"), ("every evening", "jeden Abend"), ("sometimes", "manchmal")),
    "perfect": (("today", "heute"), ("this week", "diese Woche")),
    "modal": (("today", "heute"), ("tomorrow", "morgen"), ("now", "jetzt")),
}

# "when" is "wenn" and "while" fits only in the present; the others join any two clauses.
CONJUNCTIONS = {"because": "weil", "although": "obwohl", "when": "wenn", "while": "während"}
PRESENT_ONLY = ("when", "while")

# Columns of the declension tables: masculine, feminine, neuter, plural.
_COLUMNS = "mfnp"
THE = {
    "nominative": ("der", "die", "das", "die"),
    "accusative": ("den", "die", "das", "die"),
    "dative": ("dem", "der", "dem", "den"),
}
EIN_ENDINGS = {
    "nominative": ("", "e", "", "e"),
    "accusative": ("en", "e", "", "e"),
    "dative": ("em", "er", "em", "en"),
}
_ADJECTIVE_ENDINGS = {
    "the": {
        "nominative": ("e", "e", "e", "en"),
        "accusative": ("en", "e", "e", "en"),
        "dative": ("en", "en", "en", "en"),
    },
    "ein": {
        "nominative": ("er", "e", "es", "en"),
        "accusative": ("en", "e", "es", "en"),
        "dative": ("en", "en", "en", "en"),
    },
    "none": {
        "nominative": ("er", "e", "es", "e"),
        "accusative": ("en", "e", "es", "e"),
        "dative": ("em", "er", "em", "en"),
    },
}
EIN_WORDS = {"a": "ein", "my": "mein"}
CONTRACTIONS = {"in dem": "im", "in das": "ins"}


def join_words(words: Iterable[str]) -> str:
    return " ".join(word for word in words if word)


def inflect(adjective: str, ending: str) -> str:
    stem = ADJECTIVE_STEMS[adjective]
    return stem.removesuffix("e") + ending if ending else stem


class NounPhrase(NamedTuple):
    """A noun with what stands before it; `determiner` is "the", "a", "my" or "" (a bare plural)."""

    noun: Noun
    determiner: str
    adjective: str
    plural: bool

    def english(self) -> str:
        words = [self.adjective, self.noun.english_plural if self.plural else self.noun.english]
        determiner = self.determiner
        if determiner == "a" and join_words(words)[0] in "aeiou":
            determiner = "an"
        return join_words([determiner, *words])

    def german(self, case: str) -> str:
        column = _COLUMNS.index("p" if self.plural else self.noun.gender)
        if self.determiner == "the":
            determiner, kind = THE[case][column], "the"
        elif self.determiner:
            determiner, kind = EIN_WORDS[self.determiner] + EIN_ENDINGS[case][column], "ein"
        else:
            determiner, kind = "", "none"
        adjective = self.adjective and inflect(self.adjective, _ADJECTIVE_ENDINGS[kind][case][column])
        if self.plural:
            noun = self.noun.dative_plural if case == "dative" else self.noun.german_plural
        else:
            noun = self.noun.german if case == "nominative" else self.noun.oblique
        return join_words([determiner, adjective, noun])
